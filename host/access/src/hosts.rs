//! Host and Origin checks. They prevent web pages in a browser from reaching a gateway on the same
//! machine.

use std::net::IpAddr;

use http::HeaderName;
use http::header::{HOST, ORIGIN};
use http::request::Parts;
use http::uri::Authority;

use super::Refusal;
use crate::config::Access;

/// The header in which a browser reports the relation between a page and the server.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

pub(super) struct Hosts {
    hosts: Vec<String>,
    origins: Vec<String>,
    /// True if every Host header is accepted. A gateway that does not listen on loopback cannot
    /// know its own names.
    accepts_any: bool,
    /// True if addresses are accepted as Host, because no name can be rebound to an address.
    accepts_addresses: bool,
}

impl Hosts {
    /// Creates the checks of a listener. `is_loopback` is true if it listens on loopback only.
    /// `authenticates` is true if its callers need a secret, which a page in a browser does not
    /// have.
    pub(super) fn new(config: &Access, is_loopback: bool, authenticates: bool) -> Self {
        let lower = |names: &[String]| names.iter().map(|name| name.to_lowercase()).collect();
        Self {
            hosts: lower(&config.allow_hosts),
            origins: lower(&config.allow_origins),
            accepts_any: !is_loopback && authenticates && config.allow_hosts.is_empty(),
            accepts_addresses: !is_loopback && config.allow_hosts.is_empty(),
        }
    }

    /// Accepts every address as Host, in addition to `allowHosts`.
    pub(super) fn accepting_addresses(self) -> Self {
        Self { accepts_addresses: true, ..self }
    }

    /// Returns true if every Host header is accepted.
    pub(super) fn accepts_any(&self) -> bool {
        self.accepts_any
    }

    /// Checks the Host and Origin headers of a request, and the authority in its target.
    ///
    /// # Errors
    /// The reason for the refusal.
    pub(super) fn check_request(&self, parts: &Parts) -> Result<(), Refusal> {
        let header = |name| parts.headers.get(name).map(|value| value.to_str().unwrap_or(""));
        if parts.headers.get_all(HOST).iter().count() > 1 {
            return Err(Refusal::Malformed("the request has several Host headers".to_owned()));
        }
        let authority = parts.uri.authority().map(Authority::as_str);
        // Servers behind the gateway may use either.
        if let (Some(authority), Some(host)) = (authority, header(HOST))
            && !authority.eq_ignore_ascii_case(host)
        {
            return Err(Refusal::Malformed(
                "the Host header differs from the authority of the target".to_owned(),
            ));
        }
        self.check_host(authority.or_else(|| header(HOST)).unwrap_or_default())?;
        if parts.headers.get_all(ORIGIN).iter().count() > 1 {
            return Err(Refusal::Malformed("the request has several Origin headers".to_owned()));
        }
        match header(ORIGIN) {
            Some(origin) => self.check_origin(origin),
            // A page can send a GET without Origin, as an image for example.
            None if matches!(header(SEC_FETCH_SITE), Some("cross-site" | "same-site")) => {
                Err(Refusal::Forbidden(
                    "origin",
                    "requests of pages of other sites need an Origin header".to_owned(),
                ))
            }
            None => Ok(()),
        }
    }

    fn check_host(&self, host: &str) -> Result<(), Refusal> {
        let host = host.to_lowercase();
        let name = without_port(&host);
        let is_allowed = self.accepts_any
            || is_loopback(name)
            || self.accepts_addresses && address(name).is_some()
            || self.hosts.iter().any(|allowed| *allowed == host || allowed == name);
        if is_allowed {
            return Ok(());
        }
        Err(Refusal::Forbidden(
            "host",
            format!("Host `{host}` is not allowed: add it to access.allowHosts if it is yours"),
        ))
    }

    fn check_origin(&self, origin: &str) -> Result<(), Refusal> {
        let origin = origin.to_lowercase();
        let authority = match origin.split_once("://") {
            Some((scheme, authority)) if is_scheme(scheme) => authority,
            _ => "",
        };
        if is_loopback(without_port(authority)) || self.origins.contains(&origin) {
            return Ok(());
        }
        Err(Refusal::Forbidden(
            "origin",
            format!(
                "Origin `{origin}` is not allowed: add it to access.allowOrigins if it is yours"
            ),
        ))
    }
}

/// Returns true if a host without a port is a loopback name or address.
fn is_loopback(name: &str) -> bool {
    name == "localhost" || address(name).is_some_and(|address| address.is_loopback())
}

/// Returns the address that a host without a port represents. `None` if it is a name, which must be
/// resolved.
fn address(name: &str) -> Option<IpAddr> {
    let bare = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let address = match bare {
        Some(bare) => IpAddr::V6(bare.parse().ok()?),
        None => IpAddr::V4(name.parse().ok()?),
    };
    Some(address.to_canonical())
}

/// Returns true if a text in lower case is the scheme of a URL (RFC 3986, 3.1).
fn is_scheme(text: &str) -> bool {
    let is_allowed = |letter| matches!(letter, b'a'..=b'z' | b'0'..=b'9' | b'+' | b'-' | b'.');
    text.starts_with(|first: char| first.is_ascii_lowercase()) && text.bytes().all(is_allowed)
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_pages_are_refused() {
        let listed = Access {
            allow_hosts: vec!["Guard.example".into()],
            allow_origins: vec!["https://app.example".into()],
            ..Access::default()
        };
        let hosts = Hosts::new(&listed, true, false);
        for (host, origin, fits) in [
            ("localhost:8808", None, true),
            ("[::1]:8808", Some("http://localhost:3000"), true),
            ("[::ffff:127.0.0.1]:8808", None, true),
            ("127.0.0.1", Some("http://127.0.0.1"), true),
            ("guard.example:443", Some("https://app.example"), true),
            ("evil.example", None, false),
            ("127.0.0.1.evil.example", None, false),
            ("[::2]:8808", None, false),
            ("10.0.0.1", None, false),
            ("localhost.evil.example", None, false),
            ("localhost", Some("https://evil.example"), false),
            ("localhost", Some("http://localhost.evil.example"), false),
            ("localhost", Some("evil: http://localhost"), false),
            ("localhost", Some("null"), false),
            ("", None, false),
        ] {
            let checked = hosts.check_request(&request(&[("host", host)], origin));
            assert_eq!(checked.is_ok(), fits, "{host} {origin:?}");
        }
    }

    fn request(headers: &[(&str, &str)], origin: Option<&str>) -> Parts {
        let mut request = http::Request::get("/mcp");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn names_are_checked_beyond_loopback() {
        let none = Access::default();
        let check = |hosts: &Hosts, host| hosts.check_host(host).is_ok();
        // A page whose name is rebound to the gateway has no key.
        let authenticated = Hosts::new(&none, false, true);
        assert!(check(&authenticated, "any.example"));
        let anonymous = Hosts::new(&none, false, false);
        assert!(check(&anonymous, "10.0.0.1:8808") && check(&anonymous, "[2001:db8::1]:8808"));
        assert!(!check(&anonymous, "any.example:8808"));
    }

    #[test]
    fn ambiguous_and_cross_site_requests_are_refused() {
        let hosts = Hosts::new(&Access::default(), true, false);
        let host = ("host", "localhost");
        let check = |headers: &[_]| hosts.check_request(&request(headers, None));
        assert!(matches!(check(&[host, host]), Err(Refusal::Malformed(_))));
        for (site, fits) in
            [("none", true), ("same-origin", true), ("same-site", false), ("cross-site", false)]
        {
            assert_eq!(check(&[host, ("sec-fetch-site", site)]).is_ok(), fits, "{site}");
        }
        let mut absolute = request(&[host], None);
        absolute.uri = "http://evil.example/mcp".parse().unwrap();
        assert!(matches!(hosts.check_request(&absolute), Err(Refusal::Malformed(_))));
    }
}
