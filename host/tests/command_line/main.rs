//! Runs the program: `install`, `doctor`, `stdio` and the first-run text.
//!
//! The guard component is a stub that changes nothing, so these tests need no wasm target.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod doctor;
mod install;
mod memory;
mod stdio;
mod stub;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The path of the program.
const PROGRAM: &str = env!("CARGO_BIN_EXE_context-guard");

/// A home folder with its own state, and a project in it.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("project")).unwrap();
        Self(home)
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    /// Returns a command that runs the program in the project of this home folder.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command
            .args(arguments)
            .current_dir(self.path("project"))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.0.path())
            .stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn errors(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

/// Returns a client's file with the example server.
fn example(name: &str) -> String {
    let program = Path::new(PROGRAM).display().to_string();
    format!(
        "{{\n  // mine\n  \"mcpServers\": {{\n    \"{name}\": {{\n      \"command\": {program:?},\n      \
         \"args\": [\"example-server\"],\n      \"env\": {{\"API_KEY\": \"secret-value\"}}\n    }}\n  }}\n}}\n"
    )
}

#[test]
fn program_without_arguments_shows_three_commands() {
    let output = Home::new().run(&[]);
    assert_eq!(code(&output), 0);
    let text = out(&output);
    for command in ["context-guard demo", "context-guard install", "context-guard doctor"] {
        assert!(text.contains(command), "{text}");
    }
    assert!(text.lines().count() < 10, "{text}");
}

#[cfg(target_os = "linux")]
#[test]
fn full_disk_is_reported() {
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = Home::new().command(&["config", "schema"]).stdout(full).output().unwrap();
    assert_eq!(code(&output), 1);
    assert!(errors(&output).contains("cannot write to standard output"), "{}", errors(&output));
}
