//! Access to the admin endpoint: its token, browser sessions, and checks of Host and Origin.

use std::net::{IpAddr, SocketAddr};

use http::header::{AUTHORIZATION, HeaderName, ORIGIN};
use http::request::Parts;
use http::uri::Authority;
use http::{Method, Uri};
use subtle::ConstantTimeEq;

use super::browser_sessions::BrowserSessions;
use super::hosts::Hosts;
use super::rate::Failures;
use super::{Refusal, host};
use crate::config::{Access as Config, Admin, Secret};

/// The number of wrong tokens that an address may send at once, and again in each minute.
const MAX_FAILURES: u32 = 10;

/// The access rules of the admin endpoint.
pub struct AdminAccess {
    hosts: Hosts,
    token: Option<Secret>,
    failures: Failures,
    sessions: BrowserSessions,
}

/// The header in which a browser reports the relation between a page and the server.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

impl AdminAccess {
    /// Creates the rules from a configuration. `access` contains the allowed hosts and origins.
    #[must_use]
    pub fn new(admin: &Admin, access: &Config) -> Self {
        let address = admin.listen.parse::<SocketAddr>();
        let is_loopback = address.is_ok_and(|address| address.ip().to_canonical().is_loopback());
        // A page whose host name resolves to this machine does not know the token.
        let hosts = Hosts::new(access, is_loopback, admin.token.is_some());
        // `allowHosts` has the names of clients. Prometheus and other tools of operators use the
        // address of a replica.
        let hosts = if is_loopback { hosts } else { hosts.accepting_addresses() };
        Self {
            hosts,
            token: admin.token.clone(),
            failures: Failures::new(MAX_FAILURES),
            sessions: BrowserSessions::new(admin.tls.is_some()),
        }
    }

    /// Returns true if operators must send a token.
    #[must_use]
    pub fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Admits a request for the dashboard page. Anyone may load the page, because its data require
    /// [`Self::admit`].
    ///
    /// # Errors
    /// The reason for the refusal.
    pub fn admit_page(&self, parts: &Parts) -> Result<(), Refusal> {
        self.hosts.check_request(parts)
    }

    /// Begins the session of a browser whose operator has entered `key`, the token. Returns the
    /// value of `Set-Cookie`. A wrong key counts as a wrong token of the address `peer`.
    ///
    /// # Errors
    /// The reason for the refusal.
    pub fn sign_in(&self, peer: IpAddr, parts: &Parts, key: &str) -> Result<String, Refusal> {
        self.hosts.check_request(parts)?;
        check_same_origin(parts)?;
        let Some(token) = &self.token else {
            return Err(Refusal::Malformed("this endpoint has no token".to_owned()));
        };
        self.failures.admit(peer)?;
        if !bool::from(key.as_bytes().ct_eq(token.expose().as_bytes())) {
            self.failures.count(peer);
            return Err(Refusal::Unauthorized("this is not the key".to_owned()));
        }
        let cookie = self.sessions.begin(parts);
        cookie.ok_or_else(|| Refusal::Malformed("the system has no random numbers".to_owned()))
    }

    /// Ends the session of a browser. Returns the value of `Set-Cookie` that deletes its cookie.
    ///
    /// # Errors
    /// The reason for the refusal.
    pub fn sign_out(&self, parts: &Parts) -> Result<String, Refusal> {
        self.hosts.check_request(parts)?;
        check_same_origin(parts)?;
        Ok(self.sessions.end(parts))
    }

    /// Returns true if the cookie of a request belongs to a session that may send the request.
    /// Sessions may only read, because changes require the token.
    #[must_use]
    pub fn has_session(&self, parts: &Parts) -> bool {
        parts.method == Method::GET
            && check_same_origin(parts).is_ok()
            && self.sessions.contains(parts)
    }

    /// Admits a request of an operator at the address `peer`. If no token is configured, the
    /// address must be a loopback address.
    ///
    /// # Errors
    /// The reason for the refusal.
    pub fn admit(&self, peer: IpAddr, parts: &Parts) -> Result<(), Refusal> {
        self.hosts.check_request(parts)?;
        let Some(token) = &self.token else {
            return if peer.to_canonical().is_loopback() {
                Ok(())
            } else {
                Err(Refusal::Unauthorized("without admin.token, only loopback is served".into()))
            };
        };
        // A browser remains signed in while another program at its address guesses.
        if !parts.headers.contains_key(AUTHORIZATION) && self.has_session(parts) {
            return Ok(());
        }
        self.failures.admit(peer)?;
        let wanted = format!("Bearer {}", token.expose());
        match parts.headers.get(AUTHORIZATION) {
            Some(given) if given.as_bytes().ct_eq(wanted.as_bytes()).into() => return Ok(()),
            Some(_) => self.failures.count(peer),
            // A request without a token is no guess. A misconfigured scraper must not lock out the
            // operators of its address.
            None => {}
        }
        Err(Refusal::Unauthorized(
            "the admin token is needed, as `Authorization: Bearer …`".to_owned(),
        ))
    }
}

/// Checks that a request comes from a page of this server. Browsers send a cookie to all ports of a
/// host, so that pages of other local programs could use it.
///
/// # Errors
/// The reason for the refusal.
fn check_same_origin(parts: &Parts) -> Result<(), Refusal> {
    let text =
        |name: &HeaderName| parts.headers.get(name).map(|value| value.to_str().unwrap_or(""));
    let is_own = match text(&ORIGIN) {
        Some(origin) => {
            let origin = origin.parse::<Uri>().ok();
            let origin = origin.as_ref().and_then(Uri::authority).map(Authority::as_str);
            origin.is_some() && origin == host(parts)
        }
        None => matches!(text(&SEC_FETCH_SITE), None | Some("same-origin" | "none")),
    };
    if is_own {
        return Ok(());
    }
    Err(Refusal::Forbidden("origin", "only the page of this address may do this".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn request(headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::get("/metrics");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn rules(listen: &str, token: Option<&str>) -> AdminAccess {
        let token = token.map(Secret::new);
        let admin = Admin { listen: listen.to_owned(), token, tls: None };
        AdminAccess::new(&admin, &Config::default())
    }

    const LOCAL: (&str, &str) = ("host", "127.0.0.1:8809");

    #[test]
    fn foreign_hosts_and_origins_are_refused() {
        let rules = rules("127.0.0.1:8809", None);
        let loopback = IpAddr::from([127, 0, 0, 1]);
        assert!(rules.admit(loopback, &request(&[LOCAL])).is_ok());
        for headers in [
            &[("host", "evil.example")][..],
            &[LOCAL, ("origin", "https://evil.example")],
            &[LOCAL, ("sec-fetch-site", "cross-site")],
            &[LOCAL, LOCAL],
            &[],
        ] {
            assert!(rules.admit(loopback, &request(headers)).is_err(), "{headers:?}");
        }
        let far = rules.admit(IpAddr::from([10, 0, 0, 1]), &request(&[LOCAL]));
        assert!(matches!(far, Err(Refusal::Unauthorized(_))));
    }

    #[test]
    fn addresses_are_accepted_beside_listed_hosts() {
        let access = Config { allow_hosts: vec!["mcp.example".to_owned()], ..Config::default() };
        let rules = |listen: &str| {
            let token = Some(Secret::new("right"));
            AdminAccess::new(&Admin { listen: listen.to_owned(), token, tls: None }, &access)
        };
        let peer = IpAddr::from([10, 0, 0, 1]);
        let admit = |rules: &AdminAccess, host| {
            let headers = [("host", host), ("authorization", "Bearer right")];
            rules.admit(peer, &request(&headers)).is_ok()
        };
        let replica = rules("0.0.0.0:8809");
        for (host, is_admitted) in [
            ("10.0.0.7:8809", true),
            ("[2001:db8::1]:8809", true),
            ("mcp.example", true),
            ("evil.example", false),
        ] {
            assert_eq!(admit(&replica, host), is_admitted, "{host}");
        }
        assert!(!admit(&rules("127.0.0.1:8809"), "10.0.0.7:8809"));
    }

    #[test]
    fn guesses_are_limited_by_address() {
        let rules = rules("0.0.0.0:8809", Some("right"));
        let host = ("host", "guard.example:8809");
        let with = |token| request(&[host, ("authorization", token)]);
        let (one, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        assert!(rules.admit(one, &with("Bearer right")).is_ok());
        for _ in 0..20 {
            assert!(matches!(rules.admit(one, &request(&[host])), Err(Refusal::Unauthorized(_))));
        }
        for _ in 0..10 {
            let guess = rules.admit(one, &with("Bearer wrong"));
            assert!(matches!(guess, Err(Refusal::Unauthorized(_))));
        }
        // The right token would otherwise confirm a guess.
        for token in ["Bearer wrong", "Bearer right"] {
            assert!(matches!(rules.admit(one, &with(token)), Err(Refusal::TooMany(_))));
        }
        assert!(rules.admit(other, &with("Bearer right")).is_ok());
    }

    #[test]
    fn sessions_read_and_belong_to_their_page() {
        let rules = rules("127.0.0.1:8809", Some("right"));
        let peer = IpAddr::from([127, 0, 0, 1]);
        let origin = ("origin", "http://127.0.0.1:8809");
        let page = request(&[LOCAL, origin]);
        assert!(matches!(rules.sign_in(peer, &page, "wrong"), Err(Refusal::Unauthorized(_))));
        let set = rules.sign_in(peer, &page, "right").unwrap();
        let cookie = ("cookie", set.split(';').next().unwrap());
        assert!(rules.admit(peer, &request(&[LOCAL, cookie])).is_ok());
        assert!(rules.admit(peer, &request(&[LOCAL, cookie, origin])).is_ok());
        // A page of another program on this machine.
        let other = ("origin", "http://127.0.0.1:3000");
        assert!(rules.admit(peer, &request(&[LOCAL, cookie, other])).is_err());
        assert!(rules.sign_in(peer, &request(&[LOCAL, other]), "right").is_err());
        let mut change = request(&[LOCAL, cookie, origin]);
        change.method = Method::POST;
        assert!(rules.admit(peer, &change).is_err());
        rules.sign_out(&request(&[LOCAL, cookie, origin])).unwrap();
        assert!(rules.admit(peer, &request(&[LOCAL, cookie])).is_err());
    }

    #[test]
    fn pages_may_use_http_2() {
        let rules = rules("127.0.0.1:8809", Some("right"));
        let peer = IpAddr::from([127, 0, 0, 1]);
        // HTTP/2 has the authority in the target, and needs no Host header.
        let request = |headers: &[(&str, &str)]| {
            let mut parts = request(headers);
            parts.uri = Uri::from_static("https://127.0.0.1:8809/metrics");
            parts
        };
        let origin = ("origin", "https://127.0.0.1:8809");
        let set = rules.sign_in(peer, &request(&[origin]), "right").unwrap();
        assert!(set.starts_with("context-guard-8809="), "{set}");
        let cookie = ("cookie", set.split(';').next().unwrap());
        assert!(rules.admit(peer, &request(&[cookie, origin])).is_ok());
        let other = ("origin", "https://127.0.0.1:3000");
        assert!(rules.sign_in(peer, &request(&[other]), "right").is_err());
    }

    #[test]
    fn wrong_keys_are_limited_with_wrong_tokens() {
        let rules = rules("127.0.0.1:8809", Some("right"));
        let peer = IpAddr::from([127, 0, 0, 1]);
        let page = request(&[LOCAL]);
        let set = rules.sign_in(peer, &page, "right").unwrap();
        let signed_in = request(&[LOCAL, ("cookie", set.split(';').next().unwrap())]);
        for _ in 0..MAX_FAILURES {
            assert!(matches!(rules.sign_in(peer, &page, "no"), Err(Refusal::Unauthorized(_))));
        }
        assert!(matches!(rules.sign_in(peer, &page, "right"), Err(Refusal::TooMany(_))));
        assert!(rules.admit(peer, &signed_in).is_ok());
    }
}
