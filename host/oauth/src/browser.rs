//! Opens a URL in the user's browser.

use std::process::{Command, Stdio};

/// Opens a URL in the browser. Returns false if no browser was started.
pub(crate) fn open(url: &str) -> bool {
    let Some(mut command) = command() else { return false };
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().is_ok()
}

/// Returns the program that opens URLs: that in the variable `BROWSER`, otherwise that of the
/// operating system.
fn command() -> Option<Command> {
    if let Some(browser) = std::env::var_os("BROWSER").filter(|browser| !browser.is_empty()) {
        return Some(Command::new(browser));
    }
    if cfg!(target_os = "macos") {
        return Some(Command::new("open"));
    }
    if cfg!(windows) {
        let mut command = Command::new("rundll32");
        command.arg("url.dll,FileProtocolHandler");
        return Some(command);
    }
    let has_screen = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    (has_screen("DISPLAY") || has_screen("WAYLAND_DISPLAY")).then(|| Command::new("xdg-open"))
}
