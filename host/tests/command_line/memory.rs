//! The address space of processes for one client.
#![cfg(target_os = "linux")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Stdio};

use crate::{Home, PROGRAM};

const MAX_KILOBYTES: u64 = 4_000_000;
const HELLO: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;

/// Starts a command in a shell with this preparation, and waits for the answer to `initialize`.
fn start(home: &Home, prepare: &str, arguments: &str) -> Child {
    let script = format!("{prepare} exec {PROGRAM} {arguments}");
    let mut child = std::process::Command::new("sh")
        .args(["-c", &script])
        .current_dir(home.path("project"))
        .env("HOME", home.path(""))
        .env("CONTEXT_GUARD_COMPONENT", crate::stub::path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    writeln!(child.stdin.as_mut().unwrap(), "{HELLO}").unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("protocolVersion"), "{line}");
    child
}

fn end(mut child: Child) {
    drop(child.stdin.take());
    child.wait().unwrap();
}

fn virtual_kilobytes(child: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmPeak:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn gateway(home: &Home) {
    let text = format!("upstreams:\n  - name: a\n    command: [{PROGRAM}, example-server]\n");
    home.write("project/gateway.yaml", &text);
}

#[test]
fn wrap_reserves_less_than_four_gigabytes() {
    let home = Home::new();
    let child = start(&home, "", &format!("wrap -- {PROGRAM} example-server"));
    let size = virtual_kilobytes(&child);
    end(child);
    assert!(size < MAX_KILOBYTES, "{size} kB");
}

#[test]
fn stdio_reserves_less_than_four_gigabytes() {
    let home = Home::new();
    gateway(&home);
    let child = start(&home, "", "stdio --config gateway.yaml");
    let size = virtual_kilobytes(&child);
    end(child);
    assert!(size < MAX_KILOBYTES, "{size} kB");
}

#[test]
fn wrap_works_under_a_limit_of_address_space() {
    let home = Home::new();
    for limit in [4_000_000, 1_500_000] {
        let prepare = format!("ulimit -v {limit};");
        end(start(&home, &prepare, &format!("wrap -- {PROGRAM} example-server")));
    }
}
