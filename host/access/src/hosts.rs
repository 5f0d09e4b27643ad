//! Host and Origin checks. They keep web pages in a browser from reaching a gateway on the same
//! machine.

use super::Refusal;
use crate::config::Access;

const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

pub(super) struct Hosts {
    hosts: Vec<String>,
    origins: Vec<String>,
    /// True if every Host header is accepted, because the gateway listens beyond loopback and
    /// `allowHosts` is empty. Such a gateway cannot know its own names.
    any: bool,
}

impl Hosts {
    pub(super) fn new(config: &Access, loopback: bool) -> Self {
        let lower = |names: &[String]| names.iter().map(|name| name.to_lowercase()).collect();
        Self {
            hosts: lower(&config.allow_hosts),
            origins: lower(&config.allow_origins),
            any: !loopback && config.allow_hosts.is_empty(),
        }
    }

    /// Returns true if every Host header is accepted.
    pub(super) fn accepts_any(&self) -> bool {
        self.any
    }

    pub(super) fn check(&self, host: Option<&str>, origin: Option<&str>) -> Result<(), Refusal> {
        let host = host.unwrap_or_default().to_lowercase();
        let name = without_port(&host);
        if !self.any
            && !LOOPBACK.contains(&name)
            && !self.hosts.iter().any(|allowed| *allowed == host || allowed == name)
        {
            return Err(Refusal::Forbidden(
                "host",
                format!("Host `{host}` is not allowed: add it to access.allowHosts if it is yours"),
            ));
        }
        let Some(origin) = origin.map(str::to_lowercase) else { return Ok(()) };
        let authority = origin.split_once("://").map_or("", |(_, authority)| authority);
        if !LOOPBACK.contains(&without_port(authority)) && !self.origins.contains(&origin) {
            return Err(Refusal::Forbidden(
                "origin",
                format!(
                    "Origin `{origin}` is not allowed: add it to access.allowOrigins if it is yours"
                ),
            ));
        }
        Ok(())
    }
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
        let hosts = Hosts::new(&listed, true);
        for (host, origin, fits) in [
            ("localhost:8808", None, true),
            ("[::1]:8808", Some("http://localhost:3000"), true),
            ("127.0.0.1", Some("http://127.0.0.1"), true),
            ("guard.example:443", Some("https://app.example"), true),
            ("evil.example", None, false),
            ("localhost.evil.example", None, false),
            ("localhost", Some("https://evil.example"), false),
            ("localhost", Some("http://localhost.evil.example"), false),
            ("localhost", Some("null"), false),
            ("", None, false),
        ] {
            assert_eq!(hosts.check(Some(host), origin).is_ok(), fits, "{host} {origin:?}");
        }
        assert!(Hosts::new(&Access::default(), false).check(Some("any.example"), None).is_ok());
    }
}
