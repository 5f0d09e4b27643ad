//! `context-guard revisions`: shows and changes the revisions of a running gateway.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use context_guard::admin_client::{AdminClient, Method};
use context_guard::config;
use serde_json::{Value, json};

use super::table;

const AFTER_HELP: &str = "\
Examples:
  context-guard revisions --config gateway.yaml             show the revisions and the trial
  context-guard revisions --config gateway.yaml reload      read policy, component and keys again
  context-guard revisions --config gateway.yaml promote     promote the revision on trial
  context-guard revisions --config gateway.yaml rollback    roll back to the revision before, or end the trial
  context-guard revisions --config gateway.yaml rollback 3  roll back to revision 3

The gateway needs admin.listen, and admin.token for changes.";

/// Show and change the revisions of a running gateway: reload, promote, roll back.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Revisions {
    /// The gateway file, which names the operators' endpoint and its token.
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    /// The operators' endpoint, such as http://127.0.0.1:8809 (if --config is not given).
    #[arg(long, value_name = "URL", global = true)]
    admin: Option<String>,
    /// The admin token (if --config is not given).
    #[arg(
        long,
        value_name = "TOKEN",
        global = true,
        env = "CONTEXT_GUARD_ADMIN_TOKEN",
        hide_env_values = true
    )]
    token: Option<String>,
    /// Print the gateway's answer in JSON.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Option<RevisionsCommand>,
}

#[derive(Subcommand)]
enum RevisionsCommand {
    /// Read policy, component and signing keys again, including rejected ones.
    Reload,
    /// Promote the revision on trial.
    Promote,
    /// Roll back to the revision before, or to a retained one. Ends a trial first.
    Rollback {
        /// The number of the revision.
        to: Option<u64>,
    },
}

impl Revisions {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let client = self.client()?;
        let (method, path, body) = match &self.command {
            None => (Method::GET, "/admin/generations", Value::Null),
            Some(RevisionsCommand::Reload) => (Method::POST, "/admin/reload", Value::Null),
            Some(RevisionsCommand::Promote) => (Method::POST, "/admin/promote", Value::Null),
            Some(RevisionsCommand::Rollback { to }) => {
                (Method::POST, "/admin/rollback", json!({"to": to}))
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut answer = runtime.block_on(client.send(method, path, &body))?;
        if self.command.is_none() {
            let sources =
                runtime.block_on(client.send(Method::GET, "/admin/sources", &Value::Null))?;
            if let (Some(answer), Some(sources)) = (answer.as_object_mut(), sources.get("sources"))
            {
                answer.insert("sources".to_owned(), sources.clone());
            }
        }
        if self.json {
            say!("{answer:#}");
        } else if self.command.is_none() {
            show(&answer);
            show_sources(&answer);
            show_fleet(value_at(&answer, "/fleet"));
        } else if value_at(&answer, "/changed") == true {
            let (new, active) = (value_at(&answer, "/generation"), value_at(&answer, "/active"));
            if new == active {
                say!("revision {active} is active");
            } else {
                say!("revision {new} is on trial, revision {active} is active");
            }
        } else {
            say!("no change: revision {} remains active", value_at(&answer, "/active"));
        }
        Ok(ExitCode::SUCCESS)
    }

    fn client(&self) -> Result<AdminClient> {
        let (mut url, mut token) = (self.admin.clone(), self.token.clone());
        if let Some(path) = &self.config {
            let admin = config::read(path)?.admin;
            let admin = admin.with_context(|| {
                format!("cannot reach the gateway: {} has no admin.listen", path.display())
            })?;
            let scheme = if admin.tls.is_some() { "https" } else { "http" };
            url = url.or(Some(format!("{scheme}://{}", local_address(&admin.listen))));
            token = token.or(admin.token.map(|token| token.expose().to_owned()));
        }
        match url {
            Some(url) => Ok(AdminClient::new(&url, token.as_deref())),
            None => bail!("pass --config FILE or --admin URL to name the gateway"),
        }
    }
}

/// Returns the address by which a program on the same machine reaches a listener: that of loopback
/// for one that listens at all addresses. Its Host header is always accepted.
fn local_address(listen: &str) -> String {
    match listen.parse::<SocketAddr>() {
        Ok(address) if address.ip().is_unspecified() => {
            let loopback: IpAddr = match address {
                SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            };
            SocketAddr::new(loopback, address.port()).to_string()
        }
        _ => listen.to_owned(),
    }
}

fn show(report: &Value) {
    let mut all = table::texts(&[
        "revision",
        "state",
        "since",
        "from",
        "version",
        "calls",
        "faults",
        "tokens sent",
        "us per call",
    ]);
    let revisions = value_at(report, "/generations").as_array().into_iter().flatten();
    for one in revisions.chain(value_at(report, "/trial").get("generation")) {
        let numbers = value_at(one, "/numbers");
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        all.add_row([
            text(value_at(one, "/generation")),
            text(value_at(one, "/state")),
            time(value_at(one, "/since").as_u64().unwrap_or_default()),
            text(value_at(one, "/source")),
            text(value_at(one, "/version")),
            text(value_at(numbers, "/calls")),
            text(value_at(numbers, "/faults")),
            table::number(value_at(numbers, "/sentTokens").as_u64().unwrap_or_default()),
            text(value_at(numbers, "/microsPerCall")),
        ]);
    }
    say!("{all}");
    let trial = value_at(report, "/trial");
    if trial.is_null() {
        return;
    }
    say!(
        "\non trial ({}): revision {}, {} % of the sessions",
        value_at(trial, "/mode").as_str().unwrap_or_default(),
        value_at(trial, "/generation/generation"),
        value_at(trial, "/percent")
    );
    for line in trial_state(trial) {
        say!("{line}");
    }
    let mut sides = table::new(&[
        "since the start",
        "sessions",
        "principals",
        "calls",
        "faults",
        "answers",
        "shaped",
        "tokens per answer",
        "us per call",
    ]);
    for side in ["active", "candidate"] {
        let value = |name: &str| {
            table::number(value_at(trial, &format!("/{side}/{name}")).as_u64().unwrap_or_default())
        };
        sides.add_row([
            side.to_owned(),
            value("sessions"),
            value("principals"),
            value("calls"),
            value("faults"),
            value("answers"),
            value("shaped"),
            value("sentTokensPerAnswer"),
            value("microsPerCall"),
        ]);
    }
    say!("{sides}");
    if let Some(endpoints) = value_at(trial, "/shadow").as_array() {
        let mut compared = table::new(&[
            "endpoint",
            "answers",
            "equal",
            "faults",
            "tokens sent",
            "shadow tokens",
            "max growth",
        ]);
        for one in endpoints {
            let value = |name: &str| value_at(one, &format!("/{name}")).to_string();
            compared.add_row([
                value_at(one, "/endpoint").as_str().unwrap_or_default().to_owned(),
                value("answers"),
                value("same"),
                value("faults"),
                value("activeTokens"),
                value("candidateTokens"),
                value("worstGrowth"),
            ]);
        }
        say!("{compared}");
    }
}

/// Prints the state of each source. For a source that is not in use, also prints its differences
/// from the active revision.
fn show_sources(report: &Value) {
    let sources = value_at(report, "/sources").as_array().map_or(&[][..], Vec::as_slice);
    if sources.is_empty() {
        return;
    }
    let text = |source: &Value, name: &str| {
        source.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let mut all = table::texts(&["source", "place", "state"]);
    for source in sources {
        all.add_row([text(source, "source"), text(source, "place"), text(source, "state")]);
    }
    say!("\n{all}");
    for source in sources {
        let (place, state) = (text(source, "place"), text(source, "state"));
        if state != "in use" {
            say!(
                "on disk: {} differs from the active one ({state}: {})",
                if place.is_empty() { text(source, "source") } else { place },
                text(source, "reason")
            );
        }
        for key in source.get("droppedKeys").and_then(Value::as_array).into_iter().flatten() {
            say!(
                "the removed signing key {} still verifies cursors until {}",
                text(key, "key"),
                time(value_at(key, "/until").as_u64().unwrap_or_default())
            );
        }
    }
}

/// Prints the revisions of all replicas, and the decisions that the replicas share.
fn show_fleet(fleet: &Value) {
    if fleet.is_null() {
        return;
    }
    let text = |value: &Value| match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut all = table::texts(&[
        "replica", "address", "state", "active", "bundle", "calls", "faults", "trial", "percent",
    ]);
    for replica in value_at(fleet, "/replicas").as_array().into_iter().flatten() {
        let cell = |path: &str| text(value_at(replica, path));
        all.add_row([
            cell("/id"),
            cell("/address"),
            cell("/state"),
            cell("/active/id"),
            cell("/active/bundle"),
            cell("/active/calls"),
            cell("/active/faults"),
            cell("/trial/generation/id"),
            cell("/trial/percent"),
        ]);
    }
    say!("\n{all}");
    for (path, word) in [("/rollbacks", "rolled back"), ("/promotions", "promoted")] {
        for record in value_at(fleet, path).as_array().into_iter().flatten() {
            let cell = |path: &str| text(value_at(record, path));
            say!(
                "{} was {word} by replica {} at {}: {}",
                cell("/id"),
                cell("/by"),
                time(value_at(record, "/at").as_u64().unwrap_or_default()),
                cell("/reason")
            );
        }
    }
}

/// Returns sentences on the progress of a trial and on the callers it serves.
fn trial_state(trial: &Value) -> Vec<String> {
    let number = |path: &str| value_at(trial, path).as_u64().unwrap_or_default();
    let mut lines = Vec::new();
    if !value_at(trial, "/progress").is_null() {
        let minutes = |path: &str| {
            let seconds = number(path);
            format!("{}:{:02}", seconds / 60, seconds % 60)
        };
        lines.push(format!(
            "step {} of {} ({} %): {} of {} calls, {} of {}",
            number("/progress/step"),
            number("/progress/steps"),
            number("/percent"),
            number("/progress/calls"),
            number("/progress/stepCalls"),
            minutes("/progress/seconds"),
            minutes("/progress/stepSeconds"),
        ));
    }
    let is_split = number("/percent") > 0;
    if is_split && number("/candidate/sessions") + number("/candidate/principals") == 0 {
        lines.push("no session has entered the trial".to_owned());
    }
    if is_split && number("/active/principals") + number("/candidate/principals") > 0 {
        lines.push(
            "callers without a session are split by principal: one principal is on one side"
                .to_owned(),
        );
    }
    lines
}

/// Returns the time of day in UTC, as `HH:MM:SSZ`, of a time in milliseconds since 1970.
fn time(ms: u64) -> String {
    let seconds = ms / 1_000 % 86_400;
    format!("{:02}:{:02}:{:02}Z", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

/// Returns the value at the JSON Pointer `path` inside `value`, or null if there is none.
fn value_at<'v>(value: &'v Value, path: &str) -> &'v Value {
    value.pointer(path).unwrap_or(&Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_at_all_addresses_are_reached_by_loopback() {
        for (listen, address) in [
            ("0.0.0.0:8809", "127.0.0.1:8809"),
            ("[::]:8809", "[::1]:8809"),
            ("10.0.0.7:8809", "10.0.0.7:8809"),
            ("guard.example:8809", "guard.example:8809"),
        ] {
            assert_eq!(local_address(listen), address);
        }
    }
}
