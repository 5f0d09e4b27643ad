//! Recognizes secrets by the name and the form of a value.

/// The ends of words in the names of secrets, in upper case and singular.
const SECRET_ENDS: [&str; 12] = [
    "KEY",
    "TOKEN",
    "SECRET",
    "PASS",
    "PASSWD",
    "PWD",
    "COOKIE",
    "DSN",
    "SIGNATURE",
    "SESSION",
    "WEBHOOK",
    "LICENSE",
];
/// The beginnings of words in the names of secrets.
const SECRET_STARTS: [&str; 7] =
    ["PASSW", "PASSPHRASE", "SECRET", "AUTH", "CRED", "PRIVATE", "CONNECTION"];
/// Words that begin like words in the names of secrets, but are public.
const PUBLIC_WORDS: [&str; 3] = ["AUTHOR", "AUTHORITY", "AUTHORS"];
/// The ends of names whose values are not secrets, although the name contains a word for a secret.
const PUBLIC_ENDS: [&str; 16] = [
    "_URL",
    "_URI",
    "_PATH",
    "_FILE",
    "_DIR",
    "_TYPE",
    "_MODE",
    "_LIMIT",
    "_TIMEOUT",
    "_NAME",
    "_REGION",
    "_HOST",
    "_PORT",
    "_METHOD",
    "_ENABLED",
    "_AUTHORITY",
];
/// The prefixes of tokens of well-known services.
const TOKEN_PREFIXES: [&str; 20] = [
    "sk-",
    "sk_",
    "pk_",
    "rk_",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xapp-",
    "AKIA",
    "AIza",
    "eyJ",
    "ya29.",
    "hf_",
    "npm_",
    "-----BEGIN",
];
/// Schemes of the header Authorization, which remain in the file before the reference.
const SCHEMES: [&str; 4] = ["Bearer ", "Basic ", "Token ", "ApiKey "];

/// Returns true if the value of `name` is likely a secret.
pub(super) fn is_secret(name: &str, value: &str) -> bool {
    let name = environment_name(&separate_words(name));
    let value = value.trim();
    if value.is_empty() || matches!(value, "true" | "false") {
        return false;
    }
    let is_public = PUBLIC_ENDS.iter().any(|end| name.ends_with(end));
    // A limit such as MAX_TOKENS is a short number.
    let is_limit = value.len() < 8
        && value.chars().all(|c| c.is_ascii_digit())
        && !["PASS", "PWD", "SECRET"].iter().any(|part| name.contains(part));
    let is_named = name.split('_').any(is_secret_word) && !is_public && !is_limit;
    is_named || has_form_of_secret(split_secret(value).1)
}

fn is_secret_word(word: &str) -> bool {
    let singular = word.strip_suffix('S').filter(|start| !start.ends_with('S')).unwrap_or(word);
    let ends = SECRET_ENDS.iter().any(|end| singular.ends_with(end) || word.ends_with(end));
    let starts = SECRET_STARTS.iter().any(|start| word.starts_with(start));
    word == "PAT" || ends || (starts && !PUBLIC_WORDS.contains(&word))
}

fn has_form_of_secret(value: &str) -> bool {
    if TOKEN_PREFIXES.iter().any(|prefix| value.starts_with(prefix) && value.len() > 12) {
        return true;
    }
    // `scheme://user:password@host`
    let authority = value.split_once("://").and_then(|(_, rest)| rest.split('/').next());
    if authority.and_then(|text| text.rsplit_once('@')).is_some_and(|(user, _)| user.contains(':'))
    {
        return true;
    }
    let has = |test: fn(&char) -> bool| value.chars().any(|c| test(&c));
    let is_hex = value.len() >= 32 && value.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    let is_random = value.len() >= 24
        && value.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+' | '='))
        && has(char::is_ascii_lowercase)
        && has(char::is_ascii_uppercase)
        && has(char::is_ascii_digit);
    is_hex || is_random
}

/// Splits a value into its authorization scheme and the secret. The scheme is empty if there is
/// none.
pub(super) fn split_secret(value: &str) -> (&str, &str) {
    let length = SCHEMES.iter().find(|scheme| {
        value.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    });
    value.split_at(length.map_or(0, |scheme| scheme.len()))
}

/// Returns `text` in upper case. Characters that are invalid in names of variables become `_`.
pub(super) fn environment_name(text: &str) -> String {
    let valid = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    let name: String = text.chars().map(valid).collect();
    let digit = name.starts_with(|c: char| c.is_ascii_digit());
    if digit || name.is_empty() { format!("_{name}") } else { name }
}

/// Inserts `_` between the words of a name such as `apiKeyFile`.
fn separate_words(name: &str) -> String {
    let mut result = String::new();
    let mut after_lower = false;
    for c in name.chars() {
        if after_lower && c.is_ascii_uppercase() {
            result.push('_');
        }
        after_lower = c.is_ascii_lowercase();
        result.push(c);
    }
    result
}
