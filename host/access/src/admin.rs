//! Access to the endpoint for operators: its token, and checks of Host and Origin.

use std::net::{IpAddr, SocketAddr};

use http::header::AUTHORIZATION;
use http::request::Parts;
use subtle::ConstantTimeEq;

use super::Refusal;
use super::hosts::Hosts;
use super::rate::Failures;
use crate::config::{Access as Config, Admin, Secret};

/// The number of wrong tokens that an address may send at once, and in each minute.
const MAX_FAILURES: u32 = 10;

/// The access rules of the endpoint for operators.
pub struct AdminAccess {
    hosts: Hosts,
    token: Option<Secret>,
    failures: Failures,
}

impl AdminAccess {
    /// Creates the rules of a configuration. `access` has the allowed hosts and origins.
    #[must_use]
    pub fn new(admin: &Admin, access: &Config) -> Self {
        let address = admin.listen.parse::<SocketAddr>();
        let is_loopback = address.is_ok_and(|address| address.ip().to_canonical().is_loopback());
        // A page whose host name resolves to this machine does not know the token.
        let hosts = Hosts::new(access, is_loopback, admin.token.is_some());
        Self { hosts, token: admin.token.clone(), failures: Failures::new(MAX_FAILURES) }
    }

    /// Admits a request of an operator at the address `peer`. Without a token, the operator must be
    /// on loopback.
    ///
    /// # Errors
    /// The reason of the refusal.
    pub fn admit(&self, peer: IpAddr, parts: &Parts) -> Result<(), Refusal> {
        self.hosts.check_request(parts)?;
        let Some(token) = &self.token else {
            return if peer.to_canonical().is_loopback() {
                Ok(())
            } else {
                Err(Refusal::Unauthorized("without admin.token, only loopback is served".into()))
            };
        };
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
        let admin = Admin { listen: listen.to_owned(), token: token.map(Secret::new) };
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
}
