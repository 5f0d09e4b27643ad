//! Normalization of URL paths (RFC 3986, 6.2.2), so that access rules match the path that the
//! server resolves.

use std::fmt;

/// The reason why a path is refused: servers interpret it differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathError {
    /// An encoded slash, or a backslash or control character, encoded or not.
    Separator,
    /// A dot segment that leaves the root, has parameters, or is in a path with an empty segment.
    DotSegment,
    /// A percent sign without two hexadecimal digits after it.
    Encoding,
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Separator => {
                "the path contains an encoded slash, a backslash or a control character"
            }
            Self::DotSegment => {
                "the path contains a dot segment that leaves the API, has parameters, or follows \
                 an empty segment"
            }
            Self::Encoding => "the path contains an incomplete percent encoding",
        })
    }
}

impl std::error::Error for PathError {}

/// Returns the normal form of a URL path: unreserved characters are decoded, other encodings are in
/// upper case, and dot segments are resolved. Empty segments remain, because some APIs use them.
///
/// # Errors
/// Returns [`PathError`] for paths that servers resolve differently.
///
/// ```
/// use context_guard_protocol::path::normalize;
///
/// assert_eq!(normalize("/api/%61dmin/./x").as_deref(), Ok("/api/admin/x"));
/// assert!(normalize("/api/..%2fadmin").is_err());
/// ```
pub fn normalize(path: &str) -> Result<String, PathError> {
    let decoded = decode_unreserved(path)?;
    let mut segments: Vec<&str> = Vec::new();
    let mut has_dots = false;
    let relative = decoded.strip_prefix('/').unwrap_or(&decoded);
    let mut rest = relative.split('/').peekable();
    while let Some(segment) = rest.next() {
        let is_last = rest.peek().is_none();
        match segment {
            "." | ".." => {
                has_dots = true;
                if segment == ".." && segments.pop().is_none() {
                    return Err(PathError::DotSegment);
                }
                if is_last {
                    segments.push("");
                }
            }
            // Servers with path parameters resolve the segment without them.
            _ if matches!(segment.split(';').next(), Some("." | "..")) => {
                return Err(PathError::DotSegment);
            }
            _ => segments.push(segment),
        }
    }
    // A server that merges slashes first resolves the dot segment to another path.
    if has_dots && decoded.contains("//") {
        return Err(PathError::DotSegment);
    }
    Ok(format!("/{}", segments.join("/")))
}

/// Returns the form of a normalized path that deny rules compare. It is in lower case, without path
/// parameters and empty segments, because a server may ignore all three.
#[must_use]
pub fn deny_key(normalized: &str) -> String {
    let segments: Vec<&str> = normalized
        .split('/')
        .map(|segment| segment.split(';').next().unwrap_or_default())
        .filter(|segment| !segment.is_empty())
        .collect();
    format!("/{}", segments.join("/")).to_lowercase()
}

fn decode_unreserved(path: &str) -> Result<String, PathError> {
    let mut decoded = String::with_capacity(path.len());
    let mut parts = path.split('%');
    if path.chars().any(|char| char == '\\' || char.is_control()) {
        return Err(PathError::Separator);
    }
    decoded.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let (Some(digits), Some(rest)) = (part.get(..2), part.get(2..)) else {
            return Err(PathError::Encoding);
        };
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(PathError::Encoding);
        }
        let byte = u8::from_str_radix(digits, 16).map_err(|_| PathError::Encoding)?;
        match byte {
            b'/' | b'\\' | 0..=0x1f | 0x7f => return Err(PathError::Separator),
            b'-' | b'.' | b'_' | b'~' => decoded.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => decoded.push(char::from(byte)),
            _ => decoded.push_str(&format!("%{byte:02X}")),
        }
        decoded.push_str(rest);
    }
    Ok(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equivalent_paths_have_one_form() {
        for (path, normal) in [
            ("/api/admin/x", "/api/admin/x"),
            ("/api/%61dmin/x", "/api/admin/x"),
            ("/api/./admin/x", "/api/admin/x"),
            ("/api/x/../admin/x", "/api/admin/x"),
            ("/api/x/%2e%2E/admin/x", "/api/admin/x"),
            ("/api/x/..", "/api/"),
            ("/api/%c3%a9", "/api/%C3%A9"),
            ("/fetch/https://example", "/fetch/https://example"),
            ("/a%20b%2Cc/", "/a%20b%2Cc/"),
            ("/", "/"),
        ] {
            assert_eq!(normalize(path).as_deref(), Ok(normal), "{path}");
        }
    }

    #[test]
    fn ambiguous_paths_are_refused() {
        for path in [
            "/api/%2fadmin",
            "/api/%5cadmin",
            "/api/\\admin",
            "/api/%00",
            "/api/../../tenant2/x",
            "/api/%2e%2e/%2e%2e/x",
            "/api/..%2f..%2fx",
            "/api/..;/x",
            "/api/.;a/x",
            "/api//../x",
            "//../x",
            "/api/%zz",
            "/api/%4",
            "/api/%",
            "/..",
        ] {
            assert!(normalize(path).is_err(), "{path}");
        }
    }

    #[test]
    fn deny_key_ignores_what_servers_ignore() {
        for path in ["/api/ADMIN/x", "/api//admin/x", "/api/;a/admin/x", "/api/admin;v=1/x/"] {
            assert_eq!(deny_key(path), "/api/admin/x", "{path}");
        }
    }
}
