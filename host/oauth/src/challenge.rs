//! Challenges of protected resources: the header `WWW-Authenticate` (RFC 6750, RFC 9728).

use std::collections::BTreeMap;

use context_guard_config::is_scope;
use http::HeaderMap;
use http::header::WWW_AUTHENTICATE;

/// The parameters of the Bearer challenge in a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Challenge {
    /// The error code, such as `insufficient_scope`.
    pub error: Option<String>,
    /// The scopes that the request needs.
    pub scopes: Vec<String>,
    /// The URL of the resource's metadata.
    pub resource_metadata: Option<String>,
}

impl Challenge {
    /// Returns the Bearer challenge of a response, or `None` if it has none.
    ///
    /// # Examples
    /// ```
    /// use context_guard_oauth::Challenge;
    ///
    /// let mut headers = http::HeaderMap::new();
    /// let value = "Basic realm=\"x\", Bearer error=\"insufficient_scope\", scope=\"read write\"";
    /// headers.insert("www-authenticate", value.parse()?);
    /// let challenge = Challenge::parse(&headers).unwrap_or_default();
    /// assert_eq!(challenge.error.as_deref(), Some("insufficient_scope"));
    /// assert_eq!(challenge.scopes, ["read", "write"]);
    /// # Ok::<(), http::header::InvalidHeaderValue>(())
    /// ```
    #[must_use]
    pub fn parse(headers: &HeaderMap) -> Option<Self> {
        let values = headers.get_all(WWW_AUTHENTICATE).iter();
        let mut found = values.filter_map(|value| bearer_parameters(value.to_str().ok()?));
        let mut parameters = found.next()?;
        let scopes = parameters.remove("scope").unwrap_or_default();
        // The scopes appear in messages and commands.
        let scopes = scopes.split(' ').filter(|scope| is_scope(scope)).map(str::to_owned);
        Some(Self {
            error: parameters.remove("error"),
            scopes: scopes.collect(),
            resource_metadata: parameters.remove("resource_metadata"),
        })
    }
}

/// Returns the parameters of the first Bearer challenge in a header value. The value may contain
/// several challenges (RFC 9110, 11.6.1). `None` if it contains no Bearer challenge.
fn bearer_parameters(value: &str) -> Option<BTreeMap<String, String>> {
    let mut parameters: Option<BTreeMap<String, String>> = None;
    for item in items(value) {
        let (name, text) = match item.split_once('=') {
            Some((name, text)) => (name.trim_end(), Some(text.trim_start())),
            None => (item.as_str(), None),
        };
        // `Bearer error="x"` begins a challenge; `error="x"` continues it.
        let name = match name.split_once(' ') {
            Some((scheme, name)) => {
                if parameters.is_some() {
                    break;
                }
                parameters = scheme.eq_ignore_ascii_case("bearer").then(BTreeMap::new);
                name.trim_start()
            }
            None if text.is_none() => {
                if parameters.is_some() {
                    break;
                }
                parameters = name.eq_ignore_ascii_case("bearer").then(BTreeMap::new);
                continue;
            }
            None => name,
        };
        if let (Some(parameters), Some(text)) = (&mut parameters, text) {
            parameters.entry(name.to_ascii_lowercase()).or_insert_with(|| unquote(text));
        }
    }
    parameters
}

/// Splits a header value at the commas outside of quotes.
fn items(value: &str) -> Vec<String> {
    let (mut items, mut item) = (Vec::new(), String::new());
    let (mut is_quoted, mut is_escaped) = (false, false);
    for character in value.chars() {
        match character {
            ',' if !is_quoted => items.push(std::mem::take(&mut item)),
            _ => {
                if character == '"' && !is_escaped {
                    is_quoted = !is_quoted;
                }
                is_escaped = is_quoted && character == '\\' && !is_escaped;
                item.push(character);
            }
        }
    }
    items.push(item);
    let items = items.iter().map(|item| item.trim().to_owned());
    items.filter(|item| !item.is_empty()).collect()
}

/// Returns the value of a parameter without quotes and escapes.
fn unquote(text: &str) -> String {
    let Some(inner) = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return text.to_owned();
    };
    let (mut value, mut is_escaped) = (String::new(), false);
    for character in inner.chars() {
        if character == '\\' && !is_escaped {
            is_escaped = true;
            continue;
        }
        is_escaped = false;
        value.push(character);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(value: &str) -> Option<Challenge> {
        let mut headers = HeaderMap::new();
        headers.insert(WWW_AUTHENTICATE, value.parse().unwrap());
        Challenge::parse(&headers)
    }

    #[test]
    fn parameters_are_read_in_every_notation() {
        let expected = Challenge {
            error: Some("insufficient_scope".to_owned()),
            scopes: vec!["a:b".to_owned(), "c".to_owned()],
            resource_metadata: Some("https://x.example/m?a=b,c".to_owned()),
        };
        for value in [
            r#"Bearer error="insufficient_scope", scope="a:b c", resource_metadata="https://x.example/m?a=b,c""#,
            r#"bearer Error=insufficient_scope,SCOPE = "a:b c" , resource_metadata="https://x.example/m?a=b,c""#,
            r#"Basic realm="a \"b\", Bearer error=\"x\"", Bearer error="insufficient_scope", scope="a:b c", resource_metadata="https://x.example/m?a=b,c", Digest error="y""#,
            r#"Negotiate, Bearer error="insufficient\_scope", scope="a:b  c", resource_metadata="https://x.example/m?a=b,c", DPoP algs="ES256""#,
        ] {
            assert_eq!(parse(value), Some(expected.clone()), "{value}");
        }
    }

    #[test]
    fn odd_challenges_are_harmless() {
        assert_eq!(parse("Bearer"), Some(Challenge::default()));
        for value in ["", ",", "Basic realm=\"Bearer\"", "\"", "Bearerish x=1"] {
            assert_eq!(parse(value), None, "{value}");
        }
        let scopes = parse("Bearer scope=\"ok $(x)\\\" a\\\\\"").unwrap_or_default().scopes;
        assert_eq!(scopes, ["ok"]);
    }
}
