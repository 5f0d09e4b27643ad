//! Sandboxes of stdio upstreams, which need Linux 6.12 with Landlock.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;

use context_guard_test_support::gateway::{Gateway, HttpClient};
use context_guard_test_support::{Result, artifacts, ensure, peers};
use serde_json::{Value, json};

/// Folders of a test, and a secret file outside of those that the server may read.
struct Folders {
    root: PathBuf,
    secret: PathBuf,
}

impl Drop for Folders {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

impl Folders {
    /// Creates the folders `read`, `write` and `other`, with a file in each.
    fn create(name: &str) -> Result<Self> {
        let root = peers::folder(name)?;
        for folder in ["read", "write", "other"] {
            std::fs::create_dir(root.join(folder))?;
            std::fs::write(root.join(folder).join("file"), "secret")?;
        }
        std::fs::copy(script(), root.join("read/server.py"))?;
        let secret = root.join("other/file");
        Ok(Self { root, secret })
    }

    fn path(&self, name: &str) -> String {
        self.root.join(name).display().to_string()
    }
}

fn script() -> PathBuf {
    artifacts::root().join("tests/support/servers/sandboxed.py")
}

/// A gateway before a server that reports what it may do, and its client.
struct Sandboxed {
    gateway: Gateway,
    client: HttpClient,
}

impl Sandboxed {
    /// Starts the server with these members of the upstream.
    fn start(folders: &Folders, more: Value) -> Result<Self> {
        let script = folders.path("read/server.py");
        let mut upstream = json!({"name": "a", "command": ["/usr/bin/python3", script]});
        for (name, value) in more.as_object().into_iter().flatten() {
            upstream[name] = value.clone();
        }
        let gateway = Gateway::start(json!([upstream]), json!({}))?;
        let client = HttpClient::open(&gateway.url(), &[], json!({}))?;
        Ok(Self { gateway, client })
    }

    /// Calls a tool. Returns "ok", or the name of the error.
    fn call(&mut self, tool: &str, arguments: Value) -> Result<String> {
        let answer = self.client.call(tool, arguments)?;
        ensure!(!answer.is_error(), "{}: {}", answer.0, self.gateway.process.output());
        Ok(answer.texts()[0].to_owned())
    }

    /// Checks the results of calls of tools.
    fn expect(&mut self, calls: &[(&str, Value, &str)]) -> Result<()> {
        for (tool, arguments, expected) in calls {
            let found = self.call(tool, arguments.clone())?;
            ensure!(found == *expected, "{tool} {arguments}: {found}, expected {expected}");
        }
        Ok(())
    }
}

/// The number of a system call on x86_64, and on machines of the generic numbers.
fn call(x86_64: i64, generic: i64, arguments: &[i64]) -> Value {
    let number = if cfg!(target_arch = "x86_64") { x86_64 } else { generic };
    json!({"number": number, "arguments": arguments})
}

/// A socket of a family, a type and a protocol.
fn socket(family: i32, kind: i32, protocol: i32) -> Value {
    json!({"family": family, "kind": kind, "protocol": protocol})
}

/// The system call `unshare` without a flag, which has no effect.
fn unshare() -> Value {
    call(272, 97, &[0])
}

/// A command that reads a file.
fn read_by_shell(path: &str) -> Value {
    json!({"command": ["/bin/sh", "-c", format!(": < '{path}'")]})
}

#[test]
fn sandbox_restricts_files() -> Result<()> {
    let folders = Folders::create("sandbox-files")?;
    let sandbox = json!({"read": [folders.path("read")], "write": [folders.path("write")]});
    let path = |name: &str| json!({"path": folders.path(name)});
    let mut server = Sandboxed::start(&folders, json!({"sandbox": sandbox}))?;
    let gateway = server.gateway.process.pid();
    server.expect(&[
        ("read", path("read/file"), "ok"),
        ("read", json!({"path": "/etc/hosts"}), "ok"),
        ("read", path("write/file"), "ok"),
        ("read", path("other/file"), "EACCES"),
        ("execute", read_by_shell(&folders.path("read/file")), "ok"),
        ("execute", read_by_shell(&folders.path("other/file")), "failed"),
        ("write", path("write/new"), "ok"),
        ("write", json!({"path": "/dev/null"}), "ok"),
        ("write", path("read/file"), "EACCES"),
        ("write", path("other/new"), "EACCES"),
        ("truncate", path("other/file"), "EACCES"),
        ("make_device", path("write/device"), "EACCES"),
        // The environment of the gateway holds secrets.
        ("read", json!({"path": format!("/proc/{gateway}/environ")}), "EACCES"),
        ("signal", json!({"pid": gateway}), "EPERM"),
    ])?;
    ensure!(std::fs::read_to_string(&folders.secret)? == "secret");
    Ok(())
}

#[test]
fn sandbox_restricts_connections() -> Result<()> {
    let folders = Folders::create("sandbox-connections")?;
    let (one, two) = (TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?);
    let port = |listener: &TcpListener| -> Result<Value> {
        Ok(json!({"port": listener.local_addr()?.port()}))
    };
    let (allowed, other) = (port(&one)?, port(&two)?);
    let start = |connect: Value, system_calls: &str| {
        let read = [folders.path("read")];
        let sandbox = json!({"read": read, "connect": connect, "systemCalls": system_calls});
        Sandboxed::start(&folders, json!({"sandbox": sandbox}))
    };
    for system_calls in ["restricted", "all"] {
        start(json!([allowed["port"]]), system_calls)?.expect(&[
            ("connect", allowed.clone(), "ok"),
            ("connect", other.clone(), "EACCES"),
            ("fast_open", other.clone(), "EPERM"),
            // TCP and UDP, then Multipath TCP, SCTP and Unix sockets.
            ("open_socket", socket(2, 1, 6), "ok"),
            ("open_socket", socket(10, 2, 0), "ok"),
            ("open_socket", socket(2, 1, 262), "EPERM"),
            ("open_socket", socket(10, 5, 0), "EPERM"),
            ("open_socket", socket(1, 1, 0), "EPERM"),
            // A stream, and datagrams, which reach any Unix socket.
            ("pair", json!({"kind": 1}), "ok"),
            ("pair", json!({"kind": 2}), "EPERM"),
        ])?;
        start(json!([]), system_calls)?.expect(&[
            ("connect", allowed.clone(), "EPERM"),
            ("open_socket", socket(2, 2, 0), "EPERM"),
        ])?;
    }
    start(Value::Null, "restricted")?.expect(&[
        ("connect", other, "ok"),
        ("open_socket", socket(1, 1, 0), "ok"),
        // The cryptography of the kernel.
        ("open_socket", socket(38, 5, 0), "EPERM"),
    ])
}

#[test]
fn sandbox_restricts_system_calls() -> Result<()> {
    let folders = Folders::create("sandbox-system-calls")?;
    let start = |system_calls: &str| {
        let sandbox = json!({"read": [folders.path("read")], "systemCalls": system_calls});
        Sandboxed::start(&folders, json!({"sandbox": sandbox}))
    };
    // No tracee, and no arguments of `clone3`.
    let (ptrace, clone3) = (call(101, 117, &[2, 0, 0, 0]), call(435, 435, &[0, 0]));
    // CLONE_NEWUSER and SIGCHLD.
    let clone = call(56, 220, &[0x1000_0000 | 17, 0, 0, 0, 0]);
    start("restricted")?.expect(&[
        ("call", unshare(), "EPERM"),
        ("call", ptrace.clone(), "EPERM"),
        ("call", clone, "EPERM"),
        ("call", clone3.clone(), "ENOSYS"),
        ("call", call(425, 425, &[0, 0]), "EPERM"),
        ("execute", read_by_shell(&folders.path("read/file")), "ok"),
    ])?;
    #[cfg(target_arch = "x86_64")]
    {
        // `unshare` by its number of x32.
        let x32 = json!({"number": 0x4000_0000 + 272, "arguments": [0]});
        start("restricted")?.expect(&[("call", x32, "ENOSYS")])?;
    }
    for system_calls in ["restricted", "all"] {
        let mut server = start(system_calls)?;
        let gateway = json!({"pid": server.gateway.process.pid()});
        server.expect(&[
            ("set_limit", gateway, "EPERM"),
            ("set_limit", json!({"pid": 0}), "ok"),
            ("pair", json!({"kind": 2}), "ok"),
        ])?;
    }
    start("all")?.expect(&[
        ("call", unshare(), "ok"),
        ("call", ptrace, "ESRCH"),
        ("call", clone3, "EINVAL"),
        ("read", json!({"path": folders.secret}), "EACCES"),
    ])
}

#[test]
fn upstream_without_sandbox_is_not_restricted() -> Result<()> {
    let folders = Folders::create("no-sandbox")?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut server = Sandboxed::start(&folders, json!({}))?;
    let gateway = server.gateway.process.pid();
    server.expect(&[
        ("read", json!({"path": folders.secret}), "ok"),
        ("write", json!({"path": folders.path("other/new")}), "ok"),
        ("connect", json!({"port": listener.local_addr()?.port()}), "ok"),
        ("open_socket", socket(1, 1, 0), "ok"),
        ("call", unshare(), "ok"),
        ("read", json!({"path": format!("/proc/{gateway}/environ")}), "ok"),
        ("signal", json!({"pid": gateway}), "ok"),
    ])
}

#[test]
fn sandbox_composes_with_other_settings() -> Result<()> {
    let folders = Folders::create("sandbox-composed")?;
    let mut server = Sandboxed::start(
        &folders,
        json!({
            // The program is found on the PATH of the command, and paths begin at the gateway file.
            "command": ["python3", "server.py"],
            "env": {"PATH": "/usr/bin:/bin", "A.B": "passed"},
            "cwd": folders.path("read"),
            "sandbox": {"read": [folders.path("read"), "."]},
        }),
    )?;
    server.expect(&[("read", json!({"path": folders.secret}), "EACCES")])?;
    let file = server.gateway.folder.join("gateway.json");
    server.expect(&[("read", json!({"path": file}), "ok")])?;
    let more = json!({"limits": {"files": 64}, "sandbox": {"read": [folders.path("read")]}});
    Sandboxed::start(&folders, more)?.expect(&[
        ("file_limit", json!({}), "64"),
        ("read", json!({"path": folders.secret}), "EACCES"),
    ])
}

#[test]
fn impossible_sandbox_is_refused() -> Result<()> {
    let folders = Folders::create("impossible-sandbox")?;
    let missing = folders.path("missing");
    for (sandbox, program) in [
        (json!({"read": [missing]}), "/usr/bin/python3"),
        (json!({"write": [missing]}), "/usr/bin/python3"),
        (json!({}), missing.as_str()),
    ] {
        let script = folders.path("read/server.py");
        let upstream = json!({"name": "a", "command": [program, script], "sandbox": sandbox});
        let gateway = Gateway::start(json!([upstream]), json!({}))?;
        let mut client = HttpClient::open(&gateway.url(), &[], json!({}));
        if let Ok(client) = &mut client {
            ensure!(client.call("read", json!({"path": folders.secret}))?.is_error());
        }
        if program == missing {
            gateway.process.wait_for_output(&["its program cannot be found", &missing])?;
            continue;
        }
        let reason = "context-guard: the sandbox cannot be entered: ";
        gateway.process.wait_for_output(&["exit status: 126", reason, &missing])?;
        let doctor = Command::new(artifacts::program()?)
            .args(["doctor", "--no-start", "--config"])
            .arg(gateway.folder.join("gateway.json"))
            .env("HOME", &folders.root)
            .current_dir(&folders.root)
            .output()?;
        let report = String::from_utf8(doctor.stdout)?;
        let line = report.lines().find(|line| line.contains("its sandbox")).unwrap_or_default();
        ensure!(doctor.status.code() == Some(1) && line.contains(&missing), "{report}");
    }
    Ok(())
}

/// Lets a system call fail with ENOSYS, as a kernel without it does, and executes a command.
const WITHOUT_CALL: &str = r#"
import ctypes, os, struct, sys
number, *command = sys.argv[1:]
# Load the number; if it is not the given one, skip one; ENOSYS; allow.
code = [(0x20, 0, 0, 0), (0x15, 0, 1, int(number)), (6, 0, 0, 0x50026), (6, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in code))
program = ctypes.create_string_buffer(struct.pack("@HP", 4, ctypes.addressof(code)))
C = ctypes.CDLL(None)
assert C.prctl(38, 1, 0, 0, 0) == 0 and C.prctl(22, 2, program) == 0
os.execv(command[0], command)
"#;

#[test]
fn kernel_without_support_starts_no_command() -> Result<()> {
    let seccomp = if cfg!(target_arch = "x86_64") { 317 } else { 277 };
    let options = ["--restrict-system-calls", "--", "/bin/echo", "started"];
    for (missing, part) in [
        (0xffff, ""),
        // `landlock_create_ruleset`
        (444, "the kernel cannot restrict access to files"),
        (seccomp, "system calls cannot be restricted"),
    ] {
        let output = Command::new("/usr/bin/python3")
            .args(["-c", WITHOUT_CALL, &missing.to_string()])
            .arg(artifacts::program()?)
            .arg("run-sandboxed")
            .args(options)
            .output()?;
        let errors = String::from_utf8(output.stderr)?;
        if part.is_empty() {
            ensure!(output.stdout == b"started\n", "{errors}");
            continue;
        }
        ensure!(output.status.code() == Some(126) && output.stdout.is_empty(), "{errors}");
        ensure!(errors.contains(part) && errors.contains("is needed"), "{errors}");
    }
    Ok(())
}
