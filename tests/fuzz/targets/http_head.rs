//! Heads of HTTP requests: no request of a foreign page is accepted, and no caller chooses its own
//! address.
#![no_main]
#![allow(missing_docs, unsafe_code, reason = "the macro of libfuzzer-sys")]
#![allow(clippy::panic, clippy::indexing_slicing, reason = "a panic is what is looked for")]

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::LazyLock;

use context_guard::access::{Access, append_forwarded_for, http_client};
use context_guard::config::{References, parse};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Request};
use libfuzzer_sys::fuzz_target;
use url::Url;

const CONFIG: &str = "\
access:
  allowHosts: [guard.example]
  allowOrigins: ['https://app.example']
  trustedProxies: [10.0.0.0/8]
upstreams: [{name: a, command: [cat]}]
";
const PROXY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
const STRANGER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(203, 0, 113, 9));

static ACCESS: LazyLock<Access> = LazyLock::new(|| {
    let config = parse(Path::new("gateway.yaml"), CONFIG, [], References::Keep);
    match config.map(|config| Access::new(&config, true, http_client())) {
        Ok(Ok(access)) => access,
        _ => panic!("the configuration is refused"),
    }
});

/// Returns the head of an HTTP/1 request, if the parser of the gateway's HTTP server accepts it.
fn head(bytes: &[u8]) -> Option<Parts> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut headers);
    request.parse(bytes).ok().filter(httparse::Status::is_complete)?;
    let mut built = Request::builder().method(request.method?).uri(request.path?);
    for header in request.headers.iter() {
        let name = HeaderName::from_bytes(header.name.as_bytes()).ok()?;
        built = built.header(name, HeaderValue::from_bytes(header.value).ok()?);
    }
    Some(built.body(()).ok()?.into_parts().0)
}

/// Returns true if a browser would connect to this machine, or to the allowed host, for a URL.
fn is_own(url: &str, allowed: &str) -> bool {
    // A browser opens no URL that it cannot parse.
    let Ok(url) = Url::parse(url) else { return true };
    match url.host() {
        // Addresses in URLs of other schemes than those of the web are not parsed.
        Some(url::Host::Domain(name)) => {
            let is_loopback = |address: IpAddr| address.is_loopback();
            name == "localhost" || name == allowed || name.parse().is_ok_and(is_loopback)
        }
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => IpAddr::V6(address).to_canonical().is_loopback(),
        None => false,
    }
}

fn check_origin(parts: &Parts) {
    if ACCESS.check_origin(STRANGER, parts).is_err() {
        return;
    }
    let values = |name: &str| -> Vec<String> {
        let values = parts.headers.get_all(name).into_iter();
        values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
    };
    let (hosts, origins) = (values("host"), values("origin"));
    assert!(hosts.len() <= 1 && origins.len() <= 1, "{hosts:?} {origins:?}");
    let target = parts.uri.authority().map(|authority| authority.as_str().to_owned());
    for host in hosts.iter().chain(&target) {
        assert!(is_own(&format!("http://{host}/"), "guard.example"), "{host} is accepted");
    }
    assert!(!hosts.is_empty() || target.is_some(), "a request without a host is accepted");
    for origin in &origins {
        assert!(is_own(origin, "app.example"), "{origin} is accepted");
    }
    let site = values("sec-fetch-site");
    let is_foreign = site.iter().any(|site| site == "cross-site" || site == "same-site");
    assert!(!origins.is_empty() || site.len() > 1 || !is_foreign, "a foreign page is accepted");
}

/// Returns all addresses that the values of forwarding headers contain.
fn addresses(parts: &Parts) -> Vec<IpAddr> {
    let mut found = Vec::new();
    for name in ["x-forwarded-for", "forwarded"] {
        for value in parts.headers.get_all(name) {
            let text = String::from_utf8_lossy(value.as_bytes()).into_owned();
            for part in text.split([',', ';', '=', '"', ' ', '\t']) {
                let bare = part.trim_start_matches('[').trim_end_matches(']');
                let address = bare.parse().ok();
                let address =
                    address.or_else(|| part.parse().ok().map(|socket: SocketAddr| socket.ip()));
                found.extend(address.map(|address: IpAddr| address.to_canonical()));
            }
        }
    }
    found
}

fn check_address(mut parts: Parts) {
    assert_eq!(ACCESS.client_address(STRANGER, &parts.headers), STRANGER);
    let named = ACCESS.client_address(PROXY, &parts.headers);
    assert!(named == PROXY || addresses(&parts).contains(&named), "{named} is in no header");
    append_forwarded_for(&mut parts.headers, STRANGER);
    assert_eq!(ACCESS.client_address(PROXY, &parts.headers), STRANGER, "what a proxy appended");
    ACCESS.strip_forwarding(STRANGER, &mut parts.headers);
    assert_eq!(ACCESS.client_address(PROXY, &parts.headers), PROXY, "after the headers' removal");
}

fuzz_target!(|bytes: &[u8]| {
    let Some(parts) = head(bytes) else { return };
    check_origin(&parts);
    check_address(parts);
});
