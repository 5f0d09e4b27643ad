//! The commands that calls of each kind send to the store.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use context_guard_test_support::gateway::HttpClient;
use context_guard_test_support::redis::Redis;
use context_guard_test_support::scripted::ScriptedServer;
use context_guard_test_support::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{replica, upstream};

/// The number of calls of each kind.
const CALLS: u32 = 1_000;
/// The time for which the commands of an idle replica are counted.
const IDLE_TIME: Duration = Duration::from_secs(20);
/// The time after which unused leases have been given back.
const RETURN_TIME: Duration = Duration::from_secs(2);
/// The number of replicas that the configurations name: leases are small in a large fleet.
const REPLICAS: u32 = 100;

/// The number of calls of each command, and the microseconds that they took.
type Commands = BTreeMap<String, (f64, f64)>;

/// Prints a table of the commands for each kind of call.
pub(crate) fn report() -> Result<()> {
    println!("## Commands to the store\n");
    println!("{CALLS} calls of each kind, one after the other, `fleet.replicas: {REPLICAS}`.\n");
    println!(
        "| call | commands | their time | processor time of Redis | the commands |\n\
         |---|--:|--:|--:|---|"
    );
    let server = upstream::start()?;
    let open = json!({"access": {"rateLimit": {"perMinute": 0}}});
    let call = |name: &'static str| {
        move |client: &mut HttpClient| client.call(name, json!({})).map(|_| ())
    };
    measure("short answer", &server, &open, call("ping"))?;
    measure("oversized answer", &server, &open, call("list"))?;
    let mut cursor = None::<String>;
    measure("oversized answers, and reads of all their pages", &server, &open, |client| {
        let answer = match cursor.take() {
            Some(cursor) => client.call("context_guard_read", json!({ "cursor": cursor }))?,
            None => client.call("list", json!({}))?,
        };
        cursor = answer.next_cursor();
        ensure!(!answer.is_error(), "{}", answer.0);
        Ok(())
    })?;
    measure("session start (`initialize`, `initialized`)", &server, &open, |client| {
        HttpClient::open(&client.url, &[], json!({})).map(|_| ())
    })?;
    // A sequential client sends fewer requests than this rate.
    let rate = json!({"access": {"rateLimit": {"perMinute": 600_000, "burst": 600}}});
    measure("short answer, rate limit with a burst of 600", &server, &rate, call("ping"))?;
    let slots = json!({"limits": {"perPrincipal": 30}, "access": open["access"]});
    measure("short answer, `limits.perPrincipal: 30`", &server, &slots, call("ping"))?;
    // Leases of callers that come once are taken and given back for each call.
    let both = json!({
        "limits": slots["limits"],
        "access": {
            "rateLimit": {"perMinute": 600, "burst": 600},
            "trustedProxies": ["127.0.0.0/8"],
        },
    });
    let mut number = 0;
    measure("short answer, both limits, each by another caller", &server, &both, |client| {
        number += 1;
        let address = format!("10.0.{}.{}", number / 250, number % 250);
        client.headers = vec![("x-forwarded-for".to_owned(), address)];
        client.call("ping", json!({})).map(|_| ())
    })?;
    idle(&server, &open)
}

/// Runs calls of one kind at a replica with a Redis of its own, and prints their commands.
fn measure(
    kind: &str,
    server: &ScriptedServer,
    settings: &Value,
    mut call: impl FnMut(&mut HttpClient) -> Result<()>,
) -> Result<()> {
    let redis = Redis::start("bench-commands", &[])?;
    let gateway = replica(server, &redis, settings, REPLICAS)?;
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    for _ in 0..20 {
        call(&mut client)?;
    }
    redis.ask(&["config", "resetstat"])?;
    let (began, processor) = (Instant::now(), processor_micros(&redis)?);
    for _ in 0..CALLS {
        call(&mut client)?;
    }
    let time = began.elapsed();
    std::thread::sleep(RETURN_TIME);
    let processor = processor_micros(&redis)? - processor;
    print(kind, &commands(&redis)?, processor, f64::from(CALLS));
    eprintln!("{kind}: {:.0} calls per second", f64::from(CALLS) / time.as_secs_f64());
    Ok(())
}

/// Prints the commands of a replica that used its store a moment ago.
fn idle(server: &ScriptedServer, settings: &Value) -> Result<()> {
    let redis = Redis::start("bench-idle", &[])?;
    let gateway = replica(server, &redis, settings, REPLICAS)?;
    HttpClient::open(&gateway.url(), &[], json!({}))?.call("list", json!({}))?;
    redis.ask(&["config", "resetstat"])?;
    let processor = processor_micros(&redis)?;
    std::thread::sleep(IDLE_TIME);
    let processor = processor_micros(&redis)? - processor;
    print("(a second of an idle replica)", &commands(&redis)?, processor, IDLE_TIME.as_secs_f64());
    println!();
    Ok(())
}

/// Returns the processor time of Redis, with its work for connections, in microseconds.
fn processor_micros(redis: &Redis) -> Result<f64> {
    let stats = redis.ask(&["info", "cpu"])?;
    let field = |name: &str| -> Result<f64> {
        let line = stats.lines().find_map(|line| line.strip_prefix(name));
        Ok(line.context("no processor time")?.trim_start_matches(':').trim().parse()?)
    };
    Ok((field("used_cpu_user:")? + field("used_cpu_sys:")?) * 1e6)
}

/// Returns the commands since the last reset of the statistics.
fn commands(redis: &Redis) -> Result<Commands> {
    let stats = redis.ask(&["info", "commandstats"])?;
    let read = |line: &str| -> Result<(String, (f64, f64))> {
        let (name, fields) = line.split_once(':').context("no fields")?;
        let field = |wanted: &str| {
            let mut fields = fields.split(',').filter_map(|field| field.split_once('='));
            fields.find(|(name, _)| *name == wanted).map(|(_, value)| value.trim().parse::<f64>())
        };
        let (calls, time) = (field("calls").context("no calls")??, field("usec").context("")??);
        Ok((name.trim_start_matches("cmdstat_").to_owned(), (calls, time)))
    };
    // The client of the bench itself has sent these.
    let own = ["config", "info", "command"];
    let lines = stats.lines().filter(|line| line.starts_with("cmdstat_"));
    let all: Result<Commands> = lines.map(read).collect();
    Ok(all?.into_iter().filter(|(name, _)| !own.iter().any(|own| name.starts_with(own))).collect())
}

fn print(kind: &str, commands: &Commands, processor: f64, times: f64) {
    let calls: f64 = commands.values().map(|(calls, _)| calls).sum();
    let time: f64 = commands.values().map(|(_, time)| time).sum();
    let list: Vec<String> = commands
        .iter()
        .map(|(name, (calls, _))| format!("{:.2} `{}`", calls / times, name.to_uppercase()))
        .collect();
    let (calls, time, processor) = (calls / times, time / times, processor / times);
    let list = list.join(", ");
    println!("| {kind} | {calls:.2} | {time:.0} µs | {processor:.0} µs | {list} |");
}
