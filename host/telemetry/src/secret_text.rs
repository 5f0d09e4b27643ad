//! Redacts secrets within texts: values of named fields, credentials in headers and URLs, and
//! tokens of well-known services.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

/// The replacement for redacted text.
pub(super) const REDACTED: &str = "[redacted]";
/// Schemes of the header Authorization. The credentials follow as the next word.
const SCHEMES: [&str; 6] = ["bearer", "basic", "token", "apikey", "negotiate", "digest"];
/// Characters that end a value without quotes, besides white space.
const DELIMITERS: &str = "&;,)]}<>\"'`|\\";

/// The start of a field with its separator (`=`, `:`, `=>` or `:=`), of a command line option, or
/// of an XML tag. `None` if the pattern does not compile.
static FIELD: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r#"(?x)
        <(?<tag>[A-Za-z][\w.:-]*)(?:\s[^<>]*)?>
        | --?(?<option>[A-Za-z][\w-]*)[\ \t]+
        | (?<name>[A-Za-z_][\w.-]*)\\*["']?\]?[\ \t]*(?:=>|:=|=|:)[\ \t]*
        "#,
    )
    .ok()
});

/// The formats of credentials of well-known services, which are recognized without a name.
static FORMATS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?x)
        -----BEGIN\ [A-Z\ ]*PRIVATE\ KEY-----(?s:.*?)(?:-----END\ [A-Z\ ]*PRIVATE\ KEY-----|\z)
        | \b(?:gh[pousr]_[A-Za-z0-9]{20,} | github_pat_\w{20,} | glpat-[\w-]{16,}
          | xox[a-z]-[\w-]{10,} | xapp-[\w-]{10,} | (?:AKIA|ASIA)[A-Z0-9]{16} | AIza[\w-]{30,}
          | eyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*)* | sk-[\w-]{16,} | [srp]k_(?:live|test)_\w{10,}
          | hf_[A-Za-z0-9]{20,} | npm_[A-Za-z0-9]{20,} | ya29\.[\w.-]{16,})
        ",
    )
    .ok()
});

/// The user and the password in a URL.
static USER_INFO: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"([A-Za-z][A-Za-z0-9+.-]*://)[^\s/@?#]*:[^\s/@]+@").ok());

/// An authorization scheme and credentials, without the name of a header.
static CREDENTIALS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?i)\b(bearer|basic)[ \t]+([A-Za-z0-9._~+/-]{8,}=*)").ok());

/// Returns a text without secrets. `is_secret` returns true if a name is that of a secret.
pub(super) fn redact<'t>(text: &'t str, is_secret: impl Fn(&str) -> bool) -> Cow<'t, str> {
    let mut result = redact_fields(text, is_secret);
    for (regex, replacement) in [(&FORMATS, REDACTED), (&USER_INFO, "${1}[redacted]@")] {
        if let Some(regex) = &**regex
            && regex.is_match(&result)
        {
            result = Cow::Owned(regex.replace_all(&result, replacement).into_owned());
        }
    }
    if let Some(regex) = &*CREDENTIALS
        && regex.is_match(&result)
    {
        let replaced = regex.replace_all(&result, |found: &regex::Captures<'_>| {
            let part = |at: usize| found.get(at).map_or("", |part| part.as_str());
            // The scheme may be followed by a word: "basic authentication".
            let is_word = part(2).chars().all(|c| c.is_ascii_lowercase()) && part(2).len() < 20;
            if is_word { part(0).to_owned() } else { format!("{} {REDACTED}", part(1)) }
        });
        result = Cow::Owned(replaced.into_owned());
    }
    result
}

fn redact_fields(text: &str, is_secret: impl Fn(&str) -> bool) -> Cow<'_, str> {
    let Some(field) = &*FIELD else { return Cow::Borrowed(text) };
    let (mut result, mut copied, mut at) = (String::new(), 0, 0);
    while let Some(found) = field.captures_at(text, at) {
        let start = found.get(0).map_or(text.len(), |whole| whole.end());
        let group = |name: &str| found.name(name).map(|name| name.as_str());
        let name = group("tag").or_else(|| group("option")).or_else(|| group("name"));
        at = start;
        if !name.is_some_and(&is_secret) {
            continue;
        }
        let rest = text.get(start..).unwrap_or_default();
        let is_line = name.is_some_and(|name| name.to_lowercase().contains("cookie"));
        let value = match group("tag") {
            Some(_) => 0..rest.find('<').unwrap_or(rest.len()),
            None => value(rest, is_line),
        };
        if value.is_empty() {
            continue;
        }
        result.push_str(text.get(copied..start + value.start).unwrap_or_default());
        result.push_str(REDACTED);
        (copied, at) = (start + value.end, start + value.end);
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    result.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(result)
}

/// Returns the byte range of the value at the start of a text. It is the content of quotes, or the
/// characters up to a delimiter. If `is_line` is true, as for cookies, it extends to the end of the
/// line.
fn value(text: &str, is_line: bool) -> std::ops::Range<usize> {
    let escapes = text.len() - text.trim_start_matches('\\').len();
    let rest = text.get(escapes..).unwrap_or_default();
    if let Some(quote) = rest.chars().next().filter(|c| matches!(c, '"' | '\'' | '`')) {
        let start = escapes + 1;
        let inner = text.get(start..).unwrap_or_default();
        let mut is_escaped = false;
        let end = inner.find(|c: char| {
            // In an escaped JSON text, the quote itself is escaped.
            let ends = c == quote && (!is_escaped || escapes > 0);
            is_escaped = c == '\\' && !is_escaped;
            ends
        });
        let end = end.unwrap_or(inner.len());
        let inner = inner.get(..end).unwrap_or_default();
        let inner = if escapes > 0 { inner.trim_end_matches('\\') } else { inner };
        return start..start + inner.len();
    }
    if is_line {
        return 0..text.find(['\r', '\n', '"']).unwrap_or(text.len());
    }
    let word = |text: &str| {
        text.find(|c: char| c.is_whitespace() || DELIMITERS.contains(c)).unwrap_or(text.len())
    };
    let end = word(text);
    let first = text.get(..end).unwrap_or_default().to_lowercase();
    if !SCHEMES.contains(&first.as_str()) {
        return 0..end;
    }
    let rest = text.get(end..).unwrap_or_default();
    let start = end + (rest.len() - rest.trim_start_matches([' ', '\t']).len());
    let rest = text.get(start..).unwrap_or_default();
    if first == "digest" {
        return 0..start + rest.find(['\r', '\n']).unwrap_or(rest.len());
    }
    0..start + word(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(text: &str) -> String {
        let names = ["password", "token", "apikey", "authorization", "cookie", "secret"];
        let is_secret = |name: &str| {
            let name: String =
                name.to_lowercase().chars().filter(|c| c.is_alphanumeric()).collect();
            names.iter().any(|secret| name.contains(secret)) && !name.ends_with("tokens")
        };
        redact(text, is_secret).into_owned()
    }

    #[test]
    fn fields_are_redacted_up_to_their_end() {
        for (text, expected) in [
            ("login?user=a&password=S3&x=1", "login?user=a&password=[redacted]&x=1"),
            ("DB_PASSWORD='S 3' make", "DB_PASSWORD='[redacted]' make"),
            ("password: \"S\\\"3\", user: b", "password: \"[redacted]\", user: b"),
            ("url: password=S3; x", "url: password=[redacted]; x"),
            (
                "{\"a\": 1, \"api_key\": \"S3\"} tail",
                "{\"a\": 1, \"api_key\": \"[redacted]\"} tail",
            ),
            (r#"say {\"token\":\"S3\",\"b\":1}"#, r#"say {\"token\":\"[redacted]\",\"b\":1}"#),
            ("Authorization: Bearer S3\nHost: a", "Authorization: [redacted]\nHost: a"),
            ("-H 'Authorization: Basic S3' https://a", "-H 'Authorization: [redacted]' https://a"),
            ("Authorization: Digest user=\"a\", x=\"S3\"\nB: c", "Authorization: [redacted]\nB: c"),
            ("Cookie: sid=S3; b=S3\nHost: a", "Cookie: [redacted]\nHost: a"),
            ("mysql --password S3 -u a", "mysql --password [redacted] -u a"),
            ("mysql --password=S3 -u a", "mysql --password=[redacted] -u a"),
            ("<password>S3</password><a>b</a>", "<password>[redacted]</password><a>b</a>"),
            ("{:secret => \"S3\"}", "{:secret => \"[redacted]\"}"),
            ("password := S3", "password := [redacted]"),
            ("postgres://a:S3@db:5432/x", "postgres://[redacted]@db:5432/x"),
            ("curl with bearer S3S3S3S3 now", "curl with bearer [redacted] now"),
            ("password=", "password="),
            ("ünï password=S3ü next", "ünï password=[redacted] next"),
        ] {
            assert_eq!(redacted(text), expected, "{text}");
        }
    }

    #[test]
    fn known_tokens_are_redacted() {
        let letters = "Ab1".repeat(14);
        for token in [
            format!("ghp_{letters}"),
            format!("github_pat_{letters}"),
            format!("xoxb-{letters}"),
            "AKIAIOSFODNN7EXAMPLE".to_owned(),
            format!("eyJhbGciOiJIUzI1NiJ9.{letters}.{letters}"),
            format!("sk-{letters}"),
            format!("-----BEGIN RSA PRIVATE KEY-----\n{letters}\n-----END RSA PRIVATE KEY-----"),
            format!("-----BEGIN PRIVATE KEY-----\n{letters}"),
        ] {
            assert_eq!(redacted(&format!("use {token}")), "use [redacted]");
        }
    }

    #[test]
    fn other_texts_are_unchanged() {
        for text in [
            "max_tokens=5 and basic authentication with a bearer certificate",
            "see https://example.org:8080/a?page=2#x",
            "task-sk-1, sketch_live, eyJ",
            "time 12:30:01 level=info key: value",
            "",
        ] {
            assert_eq!(redacted(text), text);
        }
    }
}
