//! The sessions of operators' browsers, which are identified by a cookie.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::header::COOKIE;
use http::request::Parts;
use sha2::{Digest, Sha256};

use super::host;

/// The maximum age of a session. The operator must then sign in again.
const LIFETIME: Duration = Duration::from_secs(12 * 3_600);
/// The maximum number of sessions. Beyond it, the oldest session ends.
const MAX_SESSIONS: usize = 32;

/// A session: the digest of its secret, and the time at which it ends.
struct BrowserSession {
    digest: [u8; 32],
    end: Instant,
}

/// The sessions of an endpoint. They are in memory only, so they end with the process.
pub(crate) struct BrowserSessions {
    open: Mutex<VecDeque<BrowserSession>>,
    /// True if browsers send the cookie over TLS only.
    is_secure: bool,
}

impl BrowserSessions {
    /// Creates the sessions of an endpoint. `is_secure` is true if it uses TLS.
    pub(crate) fn new(is_secure: bool) -> Self {
        Self { open: Mutex::default(), is_secure }
    }

    /// Returns the attributes of the cookie. Scripts cannot read it, and browsers do not send it
    /// with requests from other sites.
    fn attributes(&self) -> &'static str {
        if self.is_secure {
            "Path=/; HttpOnly; SameSite=Strict; Secure"
        } else {
            "Path=/; HttpOnly; SameSite=Strict"
        }
    }

    /// Begins a session. Returns the value of `Set-Cookie`. `None` if the operating system provides
    /// no random numbers.
    pub(crate) fn begin(&self, parts: &Parts) -> Option<String> {
        let mut random = [0_u8; 32];
        getrandom::fill(&mut random).ok()?;
        let secret = context_guard_protocol::to_hex(&random);
        let mut sessions = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        sessions.retain(|session| session.end > now);
        if sessions.len() >= MAX_SESSIONS {
            sessions.pop_front();
        }
        sessions.push_back(BrowserSession { digest: digest(&secret), end: now + LIFETIME });
        let seconds = LIFETIME.as_secs();
        Some(format!("{}={secret}; Max-Age={seconds}; {}", cookie_name(parts), self.attributes()))
    }

    /// Returns true if the cookie of a request belongs to a session.
    pub(crate) fn contains(&self, parts: &Parts) -> bool {
        let Some(digest) = secret(parts).map(digest) else { return false };
        let sessions = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        sessions.iter().any(|session| session.digest == digest && session.end > now)
    }

    /// Ends the session of a request. Returns the value of `Set-Cookie` that deletes the cookie.
    pub(crate) fn end(&self, parts: &Parts) -> String {
        if let Some(digest) = secret(parts).map(digest) {
            let mut sessions = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            sessions.retain(|session| session.digest != digest);
        }
        format!("{}=; Max-Age=0; {}", cookie_name(parts), self.attributes())
    }
}

fn digest(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

/// Returns the name of the cookie, which contains the port. Browsers send a cookie to all ports of
/// a host, and two gateways on one machine must not overwrite each other's cookie.
fn cookie_name(parts: &Parts) -> String {
    let host = host(parts).unwrap_or_default();
    let port = host.rsplit_once(':').map_or("", |(_, port)| port);
    let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    format!("context-guard-{}", if is_port { port } else { "0" })
}

fn secret(parts: &Parts) -> Option<&str> {
    let name = cookie_name(parts);
    let cookies = parts.headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|cookies| cookies.split(';')).map(str::trim);
    pairs.find_map(|pair| pair.strip_prefix(name.as_str())?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn request(host: &str, cookie: Option<&str>) -> Parts {
        let request = Request::get("/").header("host", host);
        let request = match cookie {
            Some(cookie) => request.header("cookie", cookie),
            None => request,
        };
        request.body(()).unwrap().into_parts().0
    }

    fn cookie(set: &str) -> &str {
        set.split(';').next().unwrap()
    }

    #[test]
    fn sessions_are_found_by_their_cookie_until_they_end() {
        let sessions = BrowserSessions::new(false);
        let set = sessions.begin(&request("127.0.0.1:8809", None)).unwrap();
        assert!(set.starts_with("context-guard-8809="), "{set}");
        assert!(set.ends_with("; HttpOnly; SameSite=Strict"), "{set}");
        let over_tls = BrowserSessions::new(true).begin(&request("127.0.0.1:8809", None)).unwrap();
        assert!(over_tls.ends_with("; SameSite=Strict; Secure"), "{over_tls}");
        let with = |host: &str, cookie: &str| sessions.contains(&request(host, Some(cookie)));
        assert!(with("127.0.0.1:8809", &format!("theme=dark; {}", cookie(&set))));
        assert!(!with("127.0.0.1:8810", cookie(&set)));
        assert!(!with("127.0.0.1:8809", "context-guard-8809="));
        assert!(!with("127.0.0.1:8809", &cookie(&set).replace('=', "=0")));
        let deleted = sessions.end(&request("127.0.0.1:8809", Some(cookie(&set))));
        assert!(deleted.contains("Max-Age=0"));
        assert!(!with("127.0.0.1:8809", cookie(&set)));
    }

    #[test]
    fn number_of_sessions_is_bounded() {
        let sessions = BrowserSessions::new(false);
        let sets: Vec<String> = (0..MAX_SESSIONS + 3)
            .map(|_| sessions.begin(&request("localhost", None)).unwrap())
            .collect();
        let is_known = |set: &String| sessions.contains(&request("localhost", Some(cookie(set))));
        let known: Vec<bool> = sets.iter().map(is_known).collect();
        assert_eq!(known.iter().filter(|known| **known).count(), MAX_SESSIONS);
        assert_eq!(&known[..3], [false; 3]);
    }
}
