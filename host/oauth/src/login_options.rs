//! The options and the steps of a login.

use context_guard_config::OAuth;

/// The upstream, the principal and the options of a login.
pub struct LoginOptions<'a> {
    /// The name of the upstream.
    pub upstream: &'a str,
    /// The URL of the upstream.
    pub url: &'a str,
    /// The settings of the upstream.
    pub settings: &'a OAuth,
    /// The principal for which the gateway will use the token.
    pub principal: &'a str,
    /// Scopes in addition to those of the settings and of an earlier login.
    pub scopes: &'a [String],
    /// True to log in by the device flow (RFC 8628), which needs no browser on this machine.
    pub device: bool,
    /// True if the login page may be opened in a browser.
    pub browser: bool,
    /// The port of the redirect page. `None` to use that of the settings. 0 selects a free port.
    pub port: Option<u16>,
    /// A function that receives the steps of the login.
    pub progress: &'a (dyn Fn(Progress<'_>) + Sync),
}

/// A step of a login.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    /// The authorization server with this issuer was found.
    Found(&'a str),
    /// A client was registered. Contains its id.
    Registered(&'a str),
    /// The user must open a page.
    OpenPage {
        /// The URL of the page.
        url: &'a str,
        /// True if a browser was started with the page.
        opened: bool,
    },
    /// The user must enter a code.
    EnterCode {
        /// The URL of the page on which the user enters the code.
        url: &'a str,
        /// The code to enter on the page.
        code: &'a str,
        /// The URL of a page that already contains the code. `None` if the server has no such page.
        link: Option<&'a str>,
    },
}
