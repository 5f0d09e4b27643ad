//! The files of the dashboard, which are compiled into the program.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::response::Response;
use http::StatusCode;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::request::Parts;

use super::console::{Console, peer};
use crate::reply;

/// The content security policy of the dashboard. It allows only scripts and styles of this program,
/// and none inline, because names of tools and clients are untrusted.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; frame-ancestors 'none'",
);
/// The header that prevents other sites from holding a reference to the dashboard's window.
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

/// The files below `/assets`: name, media type and content.
const FILES: [(&str, &str, &str); 11] = [
    ("app.js", JAVASCRIPT, include_str!("../../assets/app.js")),
    ("views.js", JAVASCRIPT, include_str!("../../assets/views.js")),
    ("catalogue.js", JAVASCRIPT, include_str!("../../assets/catalogue.js")),
    ("requests.js", JAVASCRIPT, include_str!("../../assets/requests.js")),
    ("parts.js", JAVASCRIPT, include_str!("../../assets/parts.js")),
    ("charts.js", JAVASCRIPT, include_str!("../../assets/charts.js")),
    ("format.js", JAVASCRIPT, include_str!("../../assets/format.js")),
    ("uplot.js", JAVASCRIPT, include_str!("../../assets/uplot.js")),
    // The license of uPlot demands that copies contain it.
    ("uplot.LICENSE", "text/plain; charset=utf-8", include_str!("../../assets/uplot.LICENSE")),
    ("uplot.css", STYLE, include_str!("../../assets/uplot.css")),
    ("style.css", STYLE, include_str!("../../assets/style.css")),
];

/// The dashboard page.
const INDEX: &str = include_str!("../../assets/index.html");

/// Serves the dashboard page at `/`.
pub(super) async fn index(State(console): State<Arc<Console>>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    file(&console, &parts, Some(("text/html; charset=utf-8", INDEX)))
}

/// Serves a file below `/assets`.
pub(super) async fn asset(
    State(console): State<Arc<Console>>,
    Path(name): Path<String>,
    request: Request,
) -> Response {
    let (parts, _) = request.into_parts();
    let found = FILES.iter().find(|(known, ..)| *known == name);
    file(&console, &parts, found.map(|(_, kind, text)| (*kind, *text)))
}

fn file(console: &Console, parts: &Parts, file: Option<(&'static str, &'static str)>) -> Response {
    let access = match console.access() {
        Ok(access) => access,
        Err(response) => return *response,
    };
    if let Err(refusal) = access.admit_page(parts) {
        return console.refuse(peer(parts), &refusal);
    }
    let Some((kind, text)) = file else { return reply::empty(StatusCode::NOT_FOUND) };
    let mut response = Response::new(text.into());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(OPENER_POLICY, HeaderValue::from_static("same-origin"));
    // A new version of the program has other files at the same paths.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
