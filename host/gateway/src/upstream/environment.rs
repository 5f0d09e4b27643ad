//! The environment variables of upstream processes, which exclude the gateway's own secrets.

use std::ffi::OsString;

/// The variables that every upstream process inherits, because programs need them to find files,
/// languages and the network. A `*` at the end of a name matches any rest.
const INHERITED: [&str; 44] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TERM",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "TMPDIR",
    "TMP",
    "TEMP",
    "XDG_*",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    // The rest exists on Windows only.
    "ALLUSERSPROFILE",
    "APPDATA",
    "COMMONPROGRAMFILES*",
    "COMSPEC",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "NUMBER_OF_PROCESSORS",
    "OS",
    "PATHEXT",
    "PROCESSOR_*",
    "PROGRAMDATA",
    "PROGRAMFILES*",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "USERPROFILE",
    "WINDIR",
];

/// The prefix of the names of the gateway's own variables.
pub(crate) const OWN_PREFIX: &str = "CONTEXT_GUARD_";

/// Returns the variables of this process that an upstream process inherits: those in [`INHERITED`],
/// and those that a pattern in `more` matches. Variables in `withheld`, and those that begin with
/// [`OWN_PREFIX`], are never inherited.
pub(super) fn inherited(
    more: &[String],
    withheld: &[String],
) -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os().filter(move |(name, _)| {
        let Some(name) = name.to_str() else { return false };
        is_inherited(name, more, withheld)
    })
}

fn is_inherited(name: &str, more: &[String], withheld: &[String]) -> bool {
    let mut patterns = INHERITED.into_iter().chain(more.iter().map(String::as_str));
    !name.starts_with(OWN_PREFIX)
        && !withheld.iter().any(|pattern| matches(pattern, name))
        && patterns.any(|pattern| matches(pattern, name))
}

fn matches(pattern: &str, name: &str) -> bool {
    // Windows ignores the case of names.
    let is_equal =
        |a: &str, b: &str| if cfg!(windows) { a.eq_ignore_ascii_case(b) } else { a == b };
    match pattern.strip_suffix('*') {
        Some(start) => name.get(..start.len()).is_some_and(|name| is_equal(name, start)),
        None => is_equal(pattern, name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_inherited() {
        let all = ["*".to_owned()];
        let withheld = ["ADMIN_TOKEN".to_owned()];
        for (name, more, expected) in [
            ("PATH", &[][..], true),
            ("LC_ALL", &[], true),
            ("XDG_CACHE_HOME", &[], true),
            ("GITHUB_TOKEN", &[], false),
            ("GITHUB_TOKEN", &["GITHUB_TOKEN".to_owned()], true),
            ("GITHUB_TOKEN", &["GITHUB_*".to_owned()], true),
            ("GITHUB_TOKEN", &["GITHUB".to_owned()], false),
            ("GITHUB_TOKEN", &all, true),
            ("ADMIN_TOKEN", &all, false),
            ("ADMIN_TOKEN", &withheld, false),
            ("CONTEXT_GUARD_SIGNING_KEYS", &all, false),
            ("CONTEXT_GUARD__ADMIN__TOKEN", &all, false),
        ] {
            assert_eq!(is_inherited(name, more, &withheld), expected, "{name} with {more:?}");
        }
    }
}
