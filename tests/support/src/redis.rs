//! A Redis server on its own port.

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail, ensure};

use crate::gateway::Process;
use crate::peers;
use crate::wait::wait_until;

/// A Redis server. It is stopped when dropped.
pub struct Redis {
    process: Option<Process>,
    arguments: Vec<String>,
    /// The port of 127.0.0.1 on which the server listens.
    pub port: u16,
    folder: PathBuf,
}

/// Returns a free port. Port + 10,000 is free too, because cluster nodes use it.
///
/// # Errors
/// No port is free.
pub fn free_port() -> Result<u16> {
    for _ in 0..100 {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        if port < 50_000 && TcpListener::bind(("127.0.0.1", port + 10_000)).is_ok() {
            return Ok(port);
        }
    }
    // Systems often assign only ports above the limit for that.
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
    /// Starts a server without persistence. `more` are further arguments.
    ///
    /// # Errors
    /// The server does not start.
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

    /// Starts the server again.
    ///
    /// # Errors
    /// The server does not start.
    pub fn up(&mut self) -> Result<()> {
        let mut command = Command::new("redis-server");
        command.args(&self.arguments);
        self.process = Some(Process::start(command, true, "Ready to accept connections")?);
        let address = ("127.0.0.1", self.port);
        wait_until("listening redis-server", || Ok(TcpStream::connect(address).is_ok()))?;
        Ok(())
    }

    /// Kills the server.
    pub fn down(&mut self) {
        self.process = None;
    }

    /// Stops the process, so that connections stay open and nothing answers, or continues it.
    ///
    /// # Errors
    /// The server does not run.
    pub fn freeze(&self, frozen: bool) -> Result<()> {
        let pid = self.process.as_ref().map(Process::pid).unwrap_or_default();
        crate::gateway::signal(pid, if frozen { "STOP" } else { "CONT" })
    }

    /// Returns the URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    /// Runs a command in redis-cli, and returns its output.
    ///
    /// # Errors
    /// The command fails.
    pub fn ask(&self, command: &[&str]) -> Result<String> {
        let output = Command::new("redis-cli")
            .args(["-p", &self.port.to_string()])
            .args(command)
            .output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }
}

/// A Sentinel that watches a master by the name `main`. It is stopped when dropped.
pub struct Sentinel {
    _process: Process,
    /// The port of 127.0.0.1 on which the Sentinel listens.
    pub port: u16,
    folder: PathBuf,
}

impl Sentinel {
    /// Starts a Sentinel, which alone decides on a failover.
    ///
    /// # Errors
    /// The Sentinel does not start.
    pub fn start(name: &str, master: &Redis) -> Result<Self> {
        let folder = peers::folder(&format!("sentinel-{name}"))?;
        let (port, watched) = (free_port()?, master.port);
        let file = folder.join("sentinel.conf");
        std::fs::write(
            &file,
            format!(
                "port {port}\nbind 127.0.0.1\ndir {}\n\
                 sentinel monitor main 127.0.0.1 {watched} 1\n\
                 sentinel down-after-milliseconds main 500\n\
                 sentinel failover-timeout main 3000\n",
                folder.display()
            ),
        )?;
        let mut command = Command::new("redis-server");
        command.arg(&file).arg("--sentinel");
        let process = Process::start(command, true, "+monitor master main")?;
        Ok(Self { _process: process, port, folder })
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.down();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
