//! The hosts to which the metadata of a server may direct requests of the gateway.

use std::net::Ipv4Addr;

use oauth2::url::{Host, Url};

use crate::fetch::secure_url;
use crate::{Error, Result};

/// The hosts that a server may name. A server elsewhere must not direct requests to this machine or
/// its network, where services may trust the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// All hosts but private ones.
    Public,
    /// All hosts.
    Private,
}

impl Reach {
    /// Returns the reach of the server at `url`: private hosts, if its own host is one.
    pub(crate) fn from_url(url: &Url) -> Self {
        if is_private(url) { Self::Private } else { Self::Public }
    }

    /// Parses a URL that a server has named. `what` is the name of the URL in errors.
    ///
    /// # Errors
    /// [`secure_url`] refuses the URL, or its host is private and the reach is public.
    pub(crate) fn url(self, url: &str, what: &str) -> Result<Url> {
        let parsed = secure_url(url, what)?;
        if self == Self::Public && is_private(&parsed) {
            return Err(Error::Refused(format!(
                "{what} is {url}: a server on another network must not name a private address"
            )));
        }
        Ok(parsed)
    }
}

/// Returns true if the host of a URL is this machine or an address of a private network. Names
/// other than `localhost` are not resolved.
fn is_private(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            name == "localhost" || name.ends_with(".localhost")
        }
        Some(Host::Ipv4(address)) => is_private_ipv4(address),
        Some(Host::Ipv6(address)) => {
            address.is_loopback()
                || address.is_unspecified()
                || address.is_unique_local()
                || address.is_unicast_link_local()
                || address.to_ipv4_mapped().is_some_and(is_private_ipv4)
        }
        None => false,
    }
}

/// Returns true for addresses of this machine and of private networks. Connections to the
/// unspecified address reach this machine.
fn is_private_ipv4(address: Ipv4Addr) -> bool {
    address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_unspecified()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_private_servers_name_private_hosts() {
        for (url, is_private) in [
            ("https://id.example/token", false),
            ("https://8.8.8.8/token", false),
            ("https://[2001:db8::1]/token", false),
            ("https://localhost.id.example/", false),
            ("http://127.0.0.1:6379/", true),
            ("http://localhost:1/", true),
            ("https://api.localhost./", true),
            ("https://10.1.2.3/", true),
            ("https://172.16.0.1/", true),
            ("https://192.168.0.1:8443/", true),
            ("https://169.254.169.254/latest", true),
            ("https://0.0.0.0/", true),
            ("https://2130706433/", true),
            ("https://0x7f.1/", true),
            ("http://[::1]:1/", true),
            ("https://[fd00::1]/", true),
            ("https://[fe80::1]/", true),
            ("https://[::ffff:192.168.0.1]/", true),
        ] {
            let reach = Reach::from_url(&Url::parse(url).unwrap());
            assert_eq!(reach == Reach::Private, is_private, "{url}");
            assert_eq!(Reach::Public.url(url, "x").is_err(), is_private, "{url}");
            assert!(Reach::Private.url(url, "x").is_ok(), "{url}");
        }
        assert!(Reach::Private.url("http://id.example/token", "x").is_err());
    }
}
