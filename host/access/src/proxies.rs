//! Determines the address of a caller behind trusted proxies.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use http::header::{FORWARDED, HeaderMap, HeaderName};
use ipnet::IpNet;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Returns the address of the caller: the last address in `X-Forwarded-For`, otherwise in
/// `Forwarded`, that is not a trusted proxy. Returns `peer` if it is not trusted, because anyone
/// can send these headers.
pub(super) fn client_address(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> IpAddr {
    let mut address = peer.to_canonical();
    // Each proxy appends the address of its peer, so the last entries are the reliable ones.
    for hop in hops(headers).into_iter().rev() {
        if !trusted.iter().any(|net| net.contains(&address)) {
            break;
        }
        // An entry may be `unknown` or a pseudonym. Then the proxy that added it is the caller.
        let Some(hop) = hop else { break };
        address = hop;
    }
    address
}

/// The prefix of the headers in which proxies describe the client of a request. Among them is
/// `X-Forwarded-User`, by which some servers recognize a user.
const FORWARDING_PREFIX: &str = "x-forwarded-";

/// The other headers in which proxies describe the client of a request.
const FORWARDING: [HeaderName; 5] = [
    FORWARDED,
    HeaderName::from_static("x-real-ip"),
    HeaderName::from_static("true-client-ip"),
    // The client certificate that a proxy has verified (RFC 9440).
    HeaderName::from_static("client-cert"),
    HeaderName::from_static("client-cert-chain"),
];

/// Removes the headers in which proxies describe the client of a request.
pub(super) fn strip_forwarding(headers: &mut HeaderMap) {
    let is_forwarding = |name: &&HeaderName| {
        FORWARDING.contains(name) || name.as_str().starts_with(FORWARDING_PREFIX)
    };
    let found: Vec<HeaderName> = headers.keys().filter(is_forwarding).cloned().collect();
    found.iter().for_each(|name| drop(headers.remove(name)));
}

/// Appends an address to `X-Forwarded-For`.
pub fn append_forwarded_for(headers: &mut HeaderMap, peer: IpAddr) {
    let known = headers.get_all(X_FORWARDED_FOR).iter().filter_map(|value| value.to_str().ok());
    let hops: Vec<String> =
        known.map(str::to_owned).chain([peer.to_canonical().to_string()]).collect();
    if let Ok(value) = hops.join(", ").parse() {
        headers.insert(X_FORWARDED_FOR, value);
    }
}

/// Returns the address to which the limits of one client apply: an IPv4 address, or the first
/// address of an IPv6 network of 64 bits. That is the smallest network that a provider assigns to a
/// customer.
#[must_use]
pub fn client_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into()
        }
        address => address,
    }
}

/// Returns true if the headers show that a proxy forwarded the request.
pub(super) fn is_forwarded(headers: &HeaderMap) -> bool {
    headers.contains_key(X_FORWARDED_FOR) || headers.contains_key(FORWARDED)
}

/// Returns the addresses in the forwarding headers, from the caller to the last proxy. An entry is
/// `None` if it is not an address.
fn hops(headers: &HeaderMap) -> Vec<Option<IpAddr>> {
    let values = |name| {
        let lines = headers.get_all(name).into_iter();
        lines.flat_map(|line| line.to_str().unwrap_or("?").split(',').map(str::trim))
    };
    if headers.contains_key(X_FORWARDED_FOR) {
        return values(X_FORWARDED_FOR).map(parse).collect();
    }
    let for_parameter = |element: &str| {
        element.split(';').find_map(|pair| {
            let (name, value) = pair.split_once('=')?;
            name.trim()
                .eq_ignore_ascii_case("for")
                .then(|| parse(value.trim().trim_matches('"')))?
        })
    };
    values(FORWARDED).map(for_parameter).collect()
}

/// Parses an address with or without a port. IPv6 addresses may be in brackets (RFC 7239, section
/// 6). `None` if it is invalid.
fn parse(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse().ok().or_else(|| Some(text.parse::<SocketAddr>().ok()?.ip()));
    address.map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(peer: &str, headers: &[(&str, &str)]) -> String {
        let trusted: Vec<IpNet> =
            ["10.0.0.0/8", "fd00::/8"].iter().map(|net| net.parse().unwrap()).collect();
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name: HeaderName = name.parse().unwrap();
            map.append(name, value.parse().unwrap());
        }
        client_address(peer.parse().unwrap(), &map, &trusted).to_string()
    }

    #[test]
    fn rightmost_untrusted_address_is_the_caller() {
        let xff = "x-forwarded-for";
        for (peer, headers, expected) in [
            ("203.0.113.9", vec![(xff, "198.51.100.1")], "203.0.113.9"),
            ("10.0.0.1", vec![], "10.0.0.1"),
            ("10.0.0.1", vec![(xff, "198.51.100.1")], "198.51.100.1"),
            ("10.0.0.1", vec![(xff, "1.1.1.1, 198.51.100.1, 10.2.2.2")], "198.51.100.1"),
            ("10.0.0.1", vec![(xff, "1.1.1.1"), (xff, "198.51.100.1")], "198.51.100.1"),
            ("10.0.0.1", vec![(xff, "10.3.3.3,10.2.2.2")], "10.3.3.3"),
            ("10.0.0.1", vec![(xff, "198.51.100.1:4711")], "198.51.100.1"),
            ("10.0.0.1", vec![(xff, "1.1.1.1, unknown")], "10.0.0.1"),
            ("10.0.0.1", vec![(xff, "")], "10.0.0.1"),
            ("fd00::1", vec![(xff, "2001:db8::1")], "2001:db8::1"),
            ("::ffff:10.0.0.1", vec![(xff, "[2001:db8::1]:443")], "2001:db8::1"),
            ("10.0.0.1", vec![("forwarded", "for=198.51.100.1;proto=https")], "198.51.100.1"),
            (
                "10.0.0.1",
                vec![("forwarded", "for=1.1.1.1, By=x; For=\"[2001:db8::1]:80\"")],
                "2001:db8::1",
            ),
            ("10.0.0.1", vec![("forwarded", "for=_hidden")], "10.0.0.1"),
            ("10.0.0.1", vec![("forwarded", "for=1.1.1.1"), (xff, "198.51.100.1")], "198.51.100.1"),
        ] {
            assert_eq!(address(peer, &headers), expected, "{peer} {headers:?}");
        }
    }

    #[test]
    fn forwarding_headers_are_removed() {
        let names = [
            "forwarded",
            "x-real-ip",
            "true-client-ip",
            "client-cert",
            "x-forwarded-for",
            "x-forwarded-client-cert",
            "x-forwarded-email",
            "x-forwarded-user",
            "x-forwarded-ssl",
        ];
        let mut headers = HeaderMap::new();
        for name in names.into_iter().chain(["x-request-id", "x-forwarded"]) {
            let name: HeaderName = name.parse().unwrap();
            headers.append(&name, "1".parse().unwrap());
            headers.append(&name, "2".parse().unwrap());
        }
        strip_forwarding(&mut headers);
        let mut left: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["x-forwarded", "x-request-id"]);
    }
}
