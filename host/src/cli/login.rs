//! `context-guard login` and `logout`: the OAuth tokens of upstreams.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use context_guard::access::{self, ANONYMOUS};
use context_guard::config::{self, Config, OAuth, References};
use context_guard::gateway::printable;
use context_guard::oauth::{self, LoginOptions, Progress, TokenStore};

const AFTER_HELP: &str = "\
The upstream needs `oauth` in the gateway file:

  upstreams:
    - name: tracker
      url: https://mcp.tracker.example/mcp
      oauth: {}

  context-guard login tracker                         log in with the browser of this machine
  context-guard login tracker --no-browser            print the address of the page only
  context-guard login tracker --device                log in on another device, if the server permits it
  context-guard login tracker --principal key:alice   for the owner of an API key: `key:NAME`, `jwt:SUBJECT` or `cert:NAME`
  context-guard login tracker --scope issues:write    with a further scope

A gateway that runs uses the token at once, and refreshes it. `context-guard logout tracker` removes it.";

/// Log in at an upstream that needs OAuth, and store the token for the gateway.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Login {
    #[command(flatten)]
    subject: Subject,
    /// A scope in addition to those of the gateway file, the upstream and the last login. Repeat it
    /// for more.
    #[arg(long = "scope", value_name = "SCOPE")]
    scopes: Vec<String>,
    /// Use the device flow: enter a code on another device.
    #[arg(long)]
    device: bool,
    /// Open no browser.
    #[arg(long)]
    no_browser: bool,
    /// The port of 127.0.0.1 to which the login is redirected, instead of a free one.
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
}

/// Remove the stored token of an upstream.
#[derive(Args)]
pub(crate) struct Logout {
    #[command(flatten)]
    subject: Subject,
}

/// The upstream and the principal of a token.
#[derive(Args)]
struct Subject {
    /// The name of the upstream in the gateway file.
    #[arg(value_name = "UPSTREAM")]
    upstream: String,
    /// The gateway file: .yaml, .json or .toml.
    #[arg(long, short, value_name = "FILE", default_value = "gateway.yaml")]
    config: PathBuf,
    /// The principal that uses the token: `key:NAME`, `jwt:SUBJECT`, `cert:NAME` or `anonymous`.
    /// It is needed if the gateway authenticates its callers.
    #[arg(long, value_name = "NAME")]
    principal: Option<String>,
}

/// A subject that fits the gateway file.
struct ResolvedSubject {
    config: Config,
    url: String,
    settings: OAuth,
    principal: String,
}

impl Subject {
    /// Finds the upstream in the gateway file, and completes the name of the principal.
    fn resolve(&self, references: References) -> Result<ResolvedSubject> {
        let config = config::read_with(&self.config, references)?;
        let file = self.config.display();
        let Some(upstream) = config.upstreams.iter().find(|one| one.name == self.upstream) else {
            let names: Vec<&str> = config.upstreams.iter().map(|one| one.name.as_str()).collect();
            bail!("{file} has no upstream `{}`; it has {}", self.upstream, names.join(", "));
        };
        let url = upstream.url.clone().or(upstream.rest.as_ref().map(|rest| rest.url.clone()));
        let (Some(settings), Some(url)) = (upstream.oauth.clone(), url) else {
            bail!("the upstream `{}` has no `oauth`: add `oauth: {{}}` to {file}", self.upstream);
        };
        let principal = principal(&config, self.principal.as_deref())?;
        Ok(ResolvedSubject { url, settings, principal, config })
    }
}

/// Returns the name by which the gateway knows a principal. `given` may lack the prefix of its
/// kind, if the gateway uses only one kind of authentication.
fn principal(config: &Config, given: Option<&str>) -> Result<String> {
    let (keys, jwt) = (config.access.keys.is_some(), config.access.jwt.is_some());
    let certificates = config.uses_client_certificates();
    match given {
        None if keys || jwt || certificates => {
            bail!("callers of this gateway have names: say whose token it is with --principal NAME")
        }
        None => Ok(ANONYMOUS.to_owned()),
        Some(name) if keys && !jwt && !name.starts_with("key:") => Ok(format!("key:{name}")),
        Some(name) if jwt && !keys && !name.starts_with("jwt:") => Ok(format!("jwt:{name}")),
        Some(name) if keys && jwt && !name.starts_with("key:") && !name.starts_with("jwt:") => {
            bail!("the principal `{name}` is ambiguous: write key:{name} or jwt:{name}")
        }
        Some(name) if certificates && !keys && !jwt && !name.starts_with("cert:") => {
            Ok(format!("cert:{name}"))
        }
        Some(name) if !keys && !jwt && !certificates && name != ANONYMOUS => bail!(
            "this gateway does not authenticate its callers, so that there is no principal \
             `{name}`: set access.keys, access.jwt or tls.clientCa, or leave --principal out"
        ),
        Some(name) => Ok(name.to_owned()),
    }
}

impl Login {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let subject = self.subject.resolve(References::Resolve)?;
        let store = TokenStore::open(&subject.config)?;
        let options = LoginOptions {
            upstream: &self.subject.upstream,
            url: &subject.url,
            settings: &subject.settings,
            principal: &subject.principal,
            scopes: &self.scopes,
            device: self.device,
            browser: !self.no_browser,
            port: self.port,
            progress: &print,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let report = runtime.block_on(async {
            tokio::select! {
                report = oauth::login(access::http_client(), &store, &options) => Ok(report?),
                _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted: no token is stored")),
            }
        })?;
        let scopes = match report.scopes.as_slice() {
            [] => String::new(),
            scopes => format!(" with the scopes {}", scopes.join(" ")),
        };
        let stored = format!(
            "context-guard: stored a token of {} for {} at {}{scopes}",
            report.issuer, subject.principal, self.subject.upstream
        );
        eprintln!("{}", printable(stored.as_bytes()));
        if !report.can_refresh {
            eprintln!(
                "context-guard: the server issued no refresh token: log in again when the token expires"
            );
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Prints a step of a login for the user.
fn print(step: Progress<'_>) {
    for line in lines(step) {
        eprintln!("{line}");
    }
}

/// Returns the lines that describe a step of a login. Their names and codes come from servers.
fn lines(step: Progress<'_>) -> Vec<String> {
    let lines = match step {
        Progress::Found(issuer) => {
            vec![format!("context-guard: the authorization server is {issuer}")]
        }
        Progress::Registered(id) => vec![format!("context-guard: registered the client {id}")],
        Progress::OpenPage { url, opened } => {
            let action = match opened {
                true => "log in with the browser; if it shows no page, open",
                false => "open this page in a browser of this machine",
            };
            vec![format!("context-guard: {action}"), format!("  {url}")]
        }
        Progress::EnterCode { url, code, link } => {
            let enter =
                format!("context-guard: open {url} on any device and enter the code {code}");
            let link = link.map(|link| ["context-guard: or open".to_owned(), format!("  {link}")]);
            [enter].into_iter().chain(link.into_iter().flatten()).collect()
        }
    };
    lines.iter().map(|line| printable(line.as_bytes())).collect()
}

impl Logout {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let subject = self.subject.resolve(References::Keep)?;
        let (upstream, principal) = (&self.subject.upstream, &subject.principal);
        if !oauth::remove_token(&subject.config, upstream, principal)? {
            bail!("no token is stored for {} at {}", subject.principal, self.subject.upstream);
        }
        eprintln!(
            "context-guard: removed the token for {} at {}",
            subject.principal, self.subject.upstream
        );
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_do_not_control_the_terminal() {
        let hostile = "x\x1b]0;title\x07\nok";
        for step in [
            Progress::Found(hostile),
            Progress::Registered(hostile),
            Progress::EnterCode { url: hostile, code: hostile, link: Some(hostile) },
        ] {
            let lines = lines(step);
            assert!(lines.iter().all(|line| !line.contains(char::is_control)), "{lines:?}");
            assert!(lines.iter().any(|line| line.contains(r"x\u{1b}]0;title\u{7}\nok")));
        }
        let page = Progress::OpenPage { url: "https://id.example/", opened: false };
        assert_eq!(lines(page).last().map(String::as_str), Some("  https://id.example/"));
    }
}
