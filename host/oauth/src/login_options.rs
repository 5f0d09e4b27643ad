//! The options and the steps of a login.

use context_guard_config::OAuth;

/// The subject and the options of a login.
pub struct LoginOptions<'a> {
    /// The name of the upstream.
    pub upstream: &'a str,
    /// The URL of the upstream.
    pub url: &'a str,
    /// The settings of the upstream.
    pub settings: &'a OAuth,
    /// The principal for whom the gateway will use the token.
    pub principal: &'a str,
    /// Scopes in addition to those of the settings and of an earlier login.
    pub scopes: &'a [String],
    /// True to log in by the device flow (RFC 8628), without a browser on this machine.
    pub device: bool,
    /// True if the page of the login may be opened in a browser.
    pub browser: bool,
    /// The port of the redirection, instead of that of the settings. 0 selects a free one.
    pub port: Option<u16>,
    /// Receives the steps of the login.
    pub progress: &'a (dyn Fn(Progress<'_>) + Sync),
}

/// A step of a login.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    /// The authorization server with this issuer was found.
    Found(&'a str),
    /// A client was registered, with this id.
    Registered(&'a str),
    /// The user has to open a page.
    OpenPage {
        /// The URL of the page.
        url: &'a str,
        /// True if a browser was started with it.
        opened: bool,
    },
    /// The user has to enter a code.
    EnterCode {
        /// The URL of the page that asks for the code.
        url: &'a str,
        /// The code to enter on the page.
        code: &'a str,
        /// The URL of a page that knows the code.
        link: Option<&'a str>,
    },
}
