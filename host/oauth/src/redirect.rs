//! The page on this machine to which the authorization server sends the browser (RFC 8252).

use std::time::Duration;

use oauth2::url::Url;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::{Error, Result};

/// The path of the page.
const PATH: &str = "/callback";
/// The maximum length of a request to the page, in bytes.
const MAX_REQUEST_BYTES: usize = 16 << 10;
/// The maximum time for one request to the page.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum number of connections whose requests are read at the same time.
const MAX_CONNECTIONS: usize = 16;

/// The parameters of an authorization response (RFC 6749, 4.1.2; RFC 9207).
#[derive(Debug, Default, PartialEq, Eq)]
struct Response {
    code: Option<String>,
    state: Option<String>,
    issuer: Option<String>,
    error: Option<String>,
    description: Option<String>,
}

/// The properties of a valid authorization response.
pub(crate) struct Expected<'a> {
    pub(crate) state: &'a str,
    pub(crate) issuer: &'a str,
    /// True if the server declares that each response contains its issuer.
    pub(crate) names_issuer: bool,
}

/// The listener of the page, on loopback only.
pub(crate) struct RedirectPage {
    listener: TcpListener,
    url: String,
}

impl RedirectPage {
    /// Listens on a port of 127.0.0.1. 0 selects a free port.
    pub(crate) async fn open(port: u16) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.map_err(|error| {
            Error::Setup(format!("the port {port} of 127.0.0.1 cannot be used: {error}"))
        })?;
        let url = format!("http://127.0.0.1:{}{PATH}", listener.local_addr()?.port());
        Ok(Self { listener, url })
    }

    /// Returns the URL of the page.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Waits for the authorization response, and returns its code. Requests that do not belong to
    /// this login are answered with 400 or 404, and have no effect.
    pub(crate) async fn code(&self, expected: &Expected<'_>) -> Result<String> {
        // Browsers open connections in advance and send nothing on them.
        let mut reading = JoinSet::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if reading.len() < MAX_CONNECTIONS => {
                    let (mut stream, _) = accepted?;
                    reading.spawn(async move {
                        let target = timeout(REQUEST_TIMEOUT, request_target(&mut stream));
                        Some((target.await.ok().flatten()?, stream))
                    });
                }
                Some(read) = reading.join_next() => {
                    let Ok(Some((target, mut stream))) = read else { continue };
                    let answered = timeout(REQUEST_TIMEOUT, handle(&mut stream, &target, expected));
                    if let Ok(Some(outcome)) = answered.await {
                        return outcome;
                    }
                }
            }
        }
    }
}

/// Answers the request for `target`. Returns the outcome of the login. `None` if the request does
/// not determine it.
async fn handle(
    stream: &mut TcpStream,
    target: &str,
    expected: &Expected<'_>,
) -> Option<Result<String>> {
    let url = Url::parse("http://127.0.0.1").ok()?.join(target).ok()?;
    if url.path() != PATH {
        respond(stream, "404 Not Found", "Nothing is here.").await;
        return None;
    }
    let outcome = check(parse(&url), expected);
    match &outcome {
        None => {
            let text = "This answer belongs to no login that is in progress.";
            respond(stream, "400 Bad Request", text).await;
        }
        Some(Ok(_)) => {
            let text = "The login is complete. Close this page and return to the terminal.";
            respond(stream, "200 OK", text).await;
        }
        Some(Err(error)) => respond(stream, "400 Bad Request", &error.to_string()).await,
    }
    outcome
}

/// Returns the code of a valid response, or the reason why the login fails. `None` if the response
/// belongs to another login, because any page in the browser can send one.
fn check(response: Response, expected: &Expected<'_>) -> Option<Result<String>> {
    if response.state.as_deref() != Some(expected.state) {
        return None;
    }
    // A response of another server must not deliver its code to this one (RFC 9207).
    match &response.issuer {
        Some(issuer) if issuer != expected.issuer => {
            return Some(Err(Error::Refused(format!(
                "the answer comes from another issuer: {issuer} instead of {}",
                expected.issuer
            ))));
        }
        None if expected.names_issuer => {
            return Some(Err(Error::Refused(format!(
                "the answer does not name its issuer, which {} promises to do",
                expected.issuer
            ))));
        }
        _ => {}
    }
    if let Some(error) = response.error {
        let description = response.description.map(|text| format!(": {text}")).unwrap_or_default();
        let reason = format!("{} refused: {error}{description}", expected.issuer);
        return Some(Err(Error::Refused(reason)));
    }
    let missing = || Error::Refused("the answer has neither a code nor an error".to_owned());
    Some(response.code.ok_or_else(missing))
}

fn parse(url: &Url) -> Response {
    let mut response = Response::default();
    for (name, value) in url.query_pairs() {
        let field = match name.as_ref() {
            "code" => &mut response.code,
            "state" => &mut response.state,
            "iss" => &mut response.issuer,
            "error" => &mut response.error,
            "error_description" => &mut response.description,
            _ => continue,
        };
        *field = Some(value.into_owned());
    }
    response
}

/// Reads a request, and returns its target. `None` if it is not a GET request.
async fn request_target(stream: &mut TcpStream) -> Option<String> {
    let mut request = Vec::new();
    while !request.windows(4).any(|window| window == b"\r\n\r\n") {
        let mut part = [0; 2048];
        let count = stream.read(&mut part).await.ok()?;
        request.extend_from_slice(part.get(..count)?);
        if count == 0 || request.len() > MAX_REQUEST_BYTES {
            return None;
        }
    }
    let text = String::from_utf8(request).ok()?;
    let mut line = text.lines().next()?.split(' ');
    (line.next()? == "GET").then(|| line.next().map(str::to_owned))?
}

async fn respond(stream: &mut TcpStream, status: &str, text: &str) {
    let body = format!("{text}\n");
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\n\
         x-content-type-options: nosniff\r\nreferrer-policy: no-referrer\r\n\
         cache-control: no-store\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    // The browser may be gone already.
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(query: &str, names_issuer: bool) -> Option<std::result::Result<String, String>> {
        let url = Url::parse(&format!("http://127.0.0.1/callback?{query}")).unwrap();
        let expected = Expected { state: "s", issuer: "https://id.example", names_issuer };
        check(parse(&url), &expected).map(|found| found.map_err(|error| error.to_string()))
    }

    #[tokio::test]
    async fn idle_connection_does_not_delay_the_login() {
        let page = RedirectPage::open(0).await.unwrap();
        let address = page.listener.local_addr().unwrap();
        let _idle = TcpStream::connect(address).await.unwrap();
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = b"GET /callback?code=c&state=s HTTP/1.1\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let expected = Expected { state: "s", issuer: "https://id.example", names_issuer: false };
        let code = timeout(REQUEST_TIMEOUT / 2, page.code(&expected)).await;
        assert_eq!(code.unwrap().unwrap(), "c");
    }

    #[test]
    fn responses_are_checked() {
        let own = "iss=https%3A%2F%2Fid.example";
        assert_eq!(outcome(&format!("code=c&state=s&{own}"), true), Some(Ok("c".to_owned())));
        assert_eq!(outcome("code=c&state=s", false), Some(Ok("c".to_owned())));
        // Another login, or a page that guesses.
        assert_eq!(outcome(&format!("code=c&state=t&{own}"), true), None);
        assert_eq!(outcome("code=c", false), None);
        let failed = |query: &str, names_issuer: bool, reason: &str| {
            let error = outcome(query, names_issuer).unwrap().unwrap_err();
            assert!(error.contains(reason), "{query}: {error}");
        };
        failed("code=c&state=s&iss=https%3A%2F%2Fevil.example", true, "another issuer");
        failed("code=c&state=s&iss=https%3A%2F%2Fevil.example", false, "another issuer");
        failed("code=c&state=s", true, "does not name its issuer");
        failed("error=access_denied&error_description=no&state=s", false, "access_denied: no");
        failed("state=s", false, "neither a code");
    }
}
