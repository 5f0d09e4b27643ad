//! A real Redis, on ports of its own.

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail, ensure};

use crate::gateway::Process;
use crate::peers;
use crate::wait::wait_until;

/// A server.
pub struct Redis {
    process: Option<Process>,
    arguments: Vec<String>,
    /// Its port.
    pub port: u16,
    folder: PathBuf,
}

/// A port that nobody uses. Cluster nodes use another one, 10,000 higher.
///
/// # Errors
/// Where none is free.
pub fn free_port() -> Result<u16> {
    for _ in 0..100 {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        if port < 50_000 && TcpListener::bind(("127.0.0.1", port + 10_000)).is_ok() {
            return Ok(port);
        }
    }
    // The ports that systems hand out are often above that.
    for port in (20_000..30_000).step_by(7) {
        if TcpListener::bind(("127.0.0.1", port)).is_ok()
            && TcpListener::bind(("127.0.0.1", port + 10_000)).is_ok()
        {
            return Ok(port);
        }
    }
    bail!("no port is free")
}

impl Redis {
    /// Starts a server that keeps nothing on disk; `more` are further arguments.
    ///
    /// # Errors
    /// Where it does not start.
    pub fn start(name: &str, more: &[&str]) -> Result<Self> {
        let folder = peers::folder(&format!("redis-{name}"))?;
        let port = free_port()?;
        let fixed =
            ["--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--daemonize", "no"];
        let port_argument =
            if more.contains(&"--tls-port") { "0".to_owned() } else { port.to_string() };
        let arguments =
            ["--port".to_owned(), port_argument, "--dir".to_owned(), folder.display().to_string()];
        let more = more.iter().map(|argument| argument.replace("PORT", &port.to_string()));
        let arguments = arguments.into_iter().chain(fixed.map(str::to_owned)).chain(more).collect();
        let mut redis = Self { process: None, arguments, port, folder };
        redis.up()?;
        Ok(redis)
    }

    /// Starts it, again.
    ///
    /// # Errors
    /// Where it does not start.
    pub fn up(&mut self) -> Result<()> {
        let mut command = Command::new("redis-server");
        command.args(&self.arguments);
        self.process = Some(Process::start(command, true, "Ready to accept connections")?);
        let address = ("127.0.0.1", self.port);
        wait_until("redis-server listens", || Ok(TcpStream::connect(address).is_ok()))?;
        Ok(())
    }

    /// Kills it.
    pub fn down(&mut self) {
        self.process = None;
    }

    /// Stops it without ending it: connections stay, and nothing answers. Or lets it go on.
    ///
    /// # Errors
    /// Where it is not there.
    pub fn freeze(&self, frozen: bool) -> Result<()> {
        let pid = self.process.as_ref().map(Process::pid).unwrap_or_default();
        crate::gateway::signal(pid, if frozen { "STOP" } else { "CONT" })
    }

    /// Its URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    /// What its own client says to a command.
    ///
    /// # Errors
    /// Where it fails.
    pub fn ask(&self, command: &[&str]) -> Result<String> {
        let output = Command::new("redis-cli")
            .args(["-p", &self.port.to_string()])
            .args(command)
            .output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.down();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
