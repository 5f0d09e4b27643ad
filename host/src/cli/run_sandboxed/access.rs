//! Access to files, TCP ports and other processes, which Landlock restricts.

use std::ffi::OsStr;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use context_guard::config::UpstreamSandbox;
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, NetPort,
    PathBeneath, PathFd, Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, Scope,
};

use super::RunSandboxed;

/// The version of Landlock that the sandbox needs. Earlier ones restrict neither signals nor
/// abstract Unix sockets.
const VERSION: ABI = ABI::V6;

/// The folders and files of the system that every command may read and execute: programs,
/// libraries, and the files that these need for names, certificates, users and languages. Those
/// that do not exist are ignored. Neither home folders nor other files of `/etc` are among them,
/// because both may hold secrets.
const READABLE: [&str; 54] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/opt",
    "/nix/store",
    "/proc",
    "/sys",
    "/dev/zero",
    "/dev/random",
    "/dev/urandom",
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/crypto-policies",
    "/etc/debian_version",
    "/etc/fonts",
    "/etc/gai.conf",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hostname",
    "/etc/hosts",
    "/etc/inputrc",
    "/etc/java",
    "/etc/ld-musl-aarch64.path",
    "/etc/ld-musl-x86_64.path",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.preload",
    "/etc/locale.alias",
    "/etc/locale.conf",
    "/etc/localtime",
    "/etc/lsb-release",
    "/etc/magic",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/certs",
    "/etc/pki/tls/openssl.cnf",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/shells",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/timezone",
    "/etc/xdg",
    // The targets of links from /etc/resolv.conf.
    "/run/NetworkManager/resolv.conf",
    "/run/systemd/resolve",
];

/// The device that every command may write to.
const WRITABLE: &str = "/dev/null";

/// Restricts this thread, and the program that it executes, to the access that `run` and the
/// system allow.
///
/// # Errors
/// A folder does not exist, or the kernel cannot restrict a kind of access.
pub(super) fn enter(run: &RunSandboxed, program: &OsStr) -> Result<(), String> {
    let read = AccessFs::from_read(VERSION);
    let mut rules = create(run.restrict_network)?;
    for path in READABLE.map(Path::new) {
        if path.exists() {
            rules = allow(rules, path, read)?;
        }
    }
    let program = which::which(program)
        .map_err(|error| format!("`{}` cannot be found: {error}", program.display()))?;
    rules = allow(rules, &program, read)?;
    for path in &run.read {
        rules = allow(rules, path, read)?;
    }
    rules = allow(rules, Path::new(WRITABLE), change())?;
    for path in &run.write {
        rules = allow(rules, path, change())?;
    }
    let refused = |error: &dyn Display| format!("the kernel refuses a rule of Landlock: {error}");
    for port in &run.connect {
        let rule = NetPort::new(*port, AccessNet::ConnectTcp);
        rules = rules.add_rule(rule).map_err(|error| refused(&error))?;
    }
    rules.restrict_self().map(drop).map_err(|error| refused(&error))
}

/// Returns an empty set of rules, which allows nothing of what it restricts.
///
/// # Errors
/// The kernel cannot restrict a kind of access.
fn create(restricts_network: bool) -> Result<RulesetCreated, String> {
    let unsupported = |part: &str, error: &dyn Display| {
        format!(
            "the kernel cannot restrict {part} (Landlock: {error}): Linux 6.12 with Landlock is \
             needed; see `lsm=` of its command line, or remove `sandbox`"
        )
    };
    let rules = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let rules = rules.handle_access(AccessFs::from_all(VERSION));
    let mut rules = rules.map_err(|error| unsupported("access to files", &error))?;
    if restricts_network {
        let handled = rules.handle_access(AccessNet::ConnectTcp);
        rules = handled.map_err(|error| unsupported("connections", &error))?;
    }
    let rules = rules.scope(Scope::from_all(VERSION));
    let rules = rules.map_err(|error| unsupported("signals and abstract Unix sockets", &error))?;
    rules.create().map_err(|error| unsupported("access", &error))
}

/// Returns the access to folders that the command may change. It may not create devices, which
/// would give a privileged command access to disks.
fn change() -> BitFlags<AccessFs> {
    AccessFs::from_all(VERSION) & !(AccessFs::MakeChar | AccessFs::MakeBlock)
}

/// Adds a rule that allows access to a folder and everything below it, or to a file. The rule of a
/// link applies to its target.
///
/// # Errors
/// The path does not exist, or cannot be reached.
fn allow(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, String> {
    let target = open(path)?;
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(VERSION) };
    let rules = rules.add_rule(PathBeneath::new(target, access));
    rules.map_err(|error| format!("the kernel refuses a rule of Landlock: {error}"))
}

/// Opens a path for a rule.
///
/// # Errors
/// The path does not exist, or cannot be reached.
fn open(path: &Path) -> Result<PathFd, String> {
    let unreachable = |error: &dyn Display| {
        let path = path.display();
        format!("{path}: {error}: create it, or remove it from `sandbox`")
    };
    // The error of `PathFd` repeats the path.
    std::fs::metadata(path).map_err(|error| unreachable(&error))?;
    PathFd::new(path).map_err(|error| unreachable(&error))
}

/// Checks that the kernel can enforce a sandbox, and that its paths exist. Relative paths refer to
/// `folder`.
///
/// # Errors
/// The reason why the upstream would not start.
pub(crate) fn check(sandbox: &UpstreamSandbox, folder: &Path) -> Result<(), String> {
    create(sandbox.connect.is_some())?;
    for path in sandbox.read.iter().chain(&sandbox.write) {
        open(&folder.join(path))?;
    }
    Ok(())
}

/// Returns true if commands in the sandbox may read a file. Relative paths of the sandbox refer to
/// `folder`.
pub(crate) fn may_read(sandbox: &UpstreamSandbox, folder: &Path, file: &Path) -> bool {
    let resolve = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let own = sandbox.read.iter().chain(&sandbox.write).map(|path| folder.join(path));
    let mut allowed = READABLE.map(PathBuf::from).into_iter().chain(own);
    let file = resolve(file);
    allowed.any(|path| file.starts_with(resolve(&path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readable_files_are_known() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        std::fs::create_dir(folder.join("data")).unwrap();
        std::os::unix::fs::symlink("data", folder.join("link")).unwrap();
        std::fs::write(folder.join("data/gateway.yaml"), "").unwrap();
        let sandbox =
            |read: &str| UpstreamSandbox { read: vec![read.into()], ..Default::default() };
        let may_read =
            |read: &str, file: &str| super::may_read(&sandbox(read), &folder, &folder.join(file));
        assert!(may_read("data", "data/gateway.yaml"));
        assert!(may_read("link", "data/gateway.yaml") && may_read("data", "link/gateway.yaml"));
        assert!(!may_read("dat", "data/gateway.yaml") && !may_read("data", "gateway.yaml"));
        assert!(super::may_read(&sandbox("data"), &folder, Path::new("/opt/guard/gateway.yaml")));
    }

    #[test]
    fn system_paths_are_documented() {
        let page =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/how-to/serve-many-servers.md");
        let page = std::fs::read_to_string(page).unwrap();
        let (_, list) = page.split_once("Each sandbox also allows").unwrap();
        let (list, _) = list.split_once("Paths of this list").unwrap();
        let mut documented: Vec<&str> = list
            .split('`')
            .skip(1)
            .step_by(2)
            .filter(|text| text.starts_with('/') && *text != "/etc")
            .collect();
        let mut allowed = [READABLE.as_slice(), &[WRITABLE]].concat();
        documented.sort_unstable();
        allowed.sort_unstable();
        assert_eq!(documented, allowed);
    }
}
