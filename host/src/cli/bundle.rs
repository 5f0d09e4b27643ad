//! `context-guard bundle`: creates and verifies signed bundles for a fleet.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use clap::{Args, Subcommand};
use context_guard::bundle::{
    self, Contents, Error, SecretKey, public_keys, read_layout, write_layout,
};
use context_guard::keys::MIN_KEY_BYTES;
use context_guard::policy::Source;
use serde_json::{Value, json};

use super::{GuardOptions, UsageError};

const AFTER_HELP: &str = "\
Examples:
  context-guard bundle key --file bundle.key                      make the key pair, once; keep the file secret
  context-guard bundle create --key bundle.key --policy policy.yaml --output guard.bundle
                                                                  sign a policy; its number is the time
  context-guard bundle create --key bundle.key --policy policy.yaml --component guard.wasm --oci layout
                                                                  sign a policy with a component, as an OCI layout
  context-guard bundle verify guard.bundle --public-key RWQ…      check it, and show what it has

A gateway reads the bundle from a URL, a key in Redis, a file or an OCI layout:

  bundle:
    source: https://config.example/guard.bundle     # or store:guard-bundle, or a path
    publicKeys: [RWQ…]

`redis-cli -x SET guard-bundle < guard.bundle` writes the key for store:guard-bundle.
A bundle is a minisign signature of four lines and the signed JSON: minisign verifies it too.";

/// Create and verify signed bundles of policy, component and signing keys for a fleet.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Bundle {
    #[command(subcommand)]
    command: BundleCommand,
}

#[derive(Subcommand)]
enum BundleCommand {
    /// Create a key pair: a file that signs bundles, and the public key for `bundle.publicKeys`,
    /// which is printed.
    Key {
        /// The new file of the secret key. An existing file is never replaced.
        #[arg(long, value_name = "FILE", default_value = "bundle.key")]
        file: PathBuf,
        /// Print JSON: {"file", "publicKey"}.
        #[arg(long)]
        json: bool,
    },
    /// Create and sign a bundle. The policy is compiled first: a bundle with a faulty one is never
    /// made.
    Create(Create),
    /// Verify the signature of a bundle, and show its number and parts.
    Verify {
        /// The bundle: a file, or the folder of an OCI layout.
        bundle: PathBuf,
        /// A minisign public key that may have signed it. May be repeated.
        #[arg(long, value_name = "KEY", required = true)]
        public_key: Vec<String>,
        /// Refuse the bundle unless its number is larger than this one.
        #[arg(long, value_name = "NUMBER")]
        after: Option<u64>,
        /// The file of the secret: also verify that it decrypts the signing keys.
        #[arg(long, value_name = "FILE")]
        secret: Option<PathBuf>,
        /// Print JSON: {"valid", "number", "digest", "policy", "component", "signingKeys"}.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args)]
struct Create {
    /// The key that signs: a file of `bundle key`, or of `minisign -G -W`.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// The number, larger than that of all bundles before. By default the time in seconds.
    #[arg(long)]
    number: Option<u64>,
    /// The policy: a .yaml, .json or .toml file. Without it, each gateway keeps that of its file.
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// The guard component. Without it, each gateway keeps its own.
    #[arg(long, value_name = "FILE")]
    component: Option<PathBuf>,
    /// A file of signing keys, one on each line; the first one signs.
    #[arg(long, value_name = "FILE", requires = "secret")]
    signing_keys: Option<PathBuf>,
    /// A file with the secret that encrypts the signing keys. Gateways have it in `bundle.secret`.
    #[arg(long, value_name = "FILE")]
    secret: Option<PathBuf>,
    /// The file of the bundle.
    #[arg(long, short, value_name = "FILE", required_unless_present = "oci")]
    output: Option<PathBuf>,
    /// The folder of an OCI layout for the bundle. It is created if it is missing.
    #[arg(long, value_name = "FOLDER")]
    oci: Option<PathBuf>,
    /// Print JSON: {"number", "digest", "policy", "component", "signingKeys", "bytes"}.
    #[arg(long)]
    json: bool,
}

impl Bundle {
    pub(crate) fn run(self) -> Result<ExitCode> {
        match self.command {
            BundleCommand::Key { file, json } => new_key(&file, json),
            BundleCommand::Create(create) => create.run(),
            BundleCommand::Verify { bundle, public_key, after, secret, json } => {
                verify(&bundle, &public_key, after, secret.as_deref(), json)
            }
        }
    }
}

fn file_error(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    |source| Error::File { path, source }
}

fn new_key(file: &Path, json: bool) -> Result<ExitCode> {
    let (key, text) = SecretKey::generate()?;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut open = options.open(file).map_err(file_error(file))?;
    open.write_all(text.as_bytes()).map_err(file_error(file))?;
    if json {
        say!("{}", json!({"file": file, "publicKey": key.public_text()}));
    } else {
        eprintln!(
            "context-guard: the secret key is in {}. the public key for bundle.publicKeys:",
            file.display()
        );
        say!("{}", key.public_text());
    }
    Ok(ExitCode::SUCCESS)
}

impl Create {
    fn run(self) -> Result<ExitCode> {
        let key = SecretKey::read(&self.key)?;
        let number = match self.number {
            Some(number) => number,
            None => SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs(),
        };
        if self.policy.is_none() && self.component.is_none() && self.signing_keys.is_none() {
            return Err(UsageError(
                "an empty bundle: pass --policy, --component or --signing-keys".to_owned(),
            )
            .into());
        }
        let policy = self.policy.as_ref().map(|file| Source::read(file)).transpose()?;
        let component =
            self.component.as_ref().map(|file| std::fs::read(file).map_err(file_error(file)));
        let component = component.transpose()?;
        // Compiles the component, and the policy with it.
        let guard = GuardOptions { policy: self.policy.clone(), component: self.component.clone() };
        for warning in guard.check()?.0 {
            eprintln!("context-guard: warning: {}: {}", warning.path(), warning.reason);
        }
        let policy = policy.map(|policy| serde_json::from_str(&policy.json())).transpose()?;
        let mut contents = Contents::new(
            Some(policy.unwrap_or_default()).filter(|_| self.policy.is_some()),
            component,
        );
        if let (Some(file), Some(secret)) = (&self.signing_keys, &self.secret) {
            let keys = signing_keys(file)?;
            contents = contents.with_signing_keys(&keys, &read_secret(secret)?)?;
        }
        let bundle = bundle::Bundle::new(number, contents)?;
        let bytes = bundle.sign(&key)?;
        // The key of another pair would be noticed by the gateways only.
        bundle::Bundle::open(&bytes, &public_keys(&[key.public_text()])?)?;
        if let Some(file) = &self.output {
            std::fs::write(file, &bytes).map_err(file_error(file))?;
        }
        if let Some(folder) = &self.oci {
            write_layout(folder, &bytes, number)?;
        }
        let mut report = describe(&bundle);
        if let Some(report) = report.as_object_mut().filter(|_| self.json) {
            report.insert("bytes".to_owned(), bytes.len().into());
            say!("{}", json!(report));
        } else {
            say!(
                "bundle {number}: {}, {} bytes, signed by {}",
                parts(&bundle),
                bytes.len(),
                key.public_text()
            );
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn read_secret(file: &Path) -> Result<Vec<u8>> {
    let text = std::fs::read_to_string(file).map_err(file_error(file))?;
    let secret = text.trim_end_matches(['\r', '\n']);
    if secret.len() < MIN_KEY_BYTES {
        let reason = format!("{}: a secret needs at least {MIN_KEY_BYTES} bytes", file.display());
        return Err(Error::Invalid(reason).into());
    }
    Ok(secret.as_bytes().to_vec())
}

fn signing_keys(file: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(file).map_err(file_error(file))?;
    let keys = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let keys: Vec<String> = keys.map(str::to_owned).collect();
    if keys.is_empty() || keys.iter().any(|key| key.len() < MIN_KEY_BYTES) {
        let reason = format!(
            "{}: signing keys need at least {MIN_KEY_BYTES} bytes each, one on each line",
            file.display()
        );
        return Err(Error::Invalid(reason).into());
    }
    Ok(keys)
}

fn verify(
    path: &Path,
    keys: &[String],
    after: Option<u64>,
    secret: Option<&Path>,
    json: bool,
) -> Result<ExitCode> {
    let keys = public_keys(keys).map_err(|error| UsageError(error.to_string()))?;
    let bytes = if path.is_dir() {
        read_layout(path)?
    } else {
        std::fs::read(path).map_err(file_error(path))?
    };
    let checked = bundle::Bundle::open(&bytes, &keys).and_then(|bundle| {
        if let Some(after) = after.filter(|after| bundle.number <= *after) {
            return Err(Error::Refused(format!(
                "the bundle has number {}, which is not larger than {after}",
                bundle.number
            )));
        }
        Ok(bundle)
    });
    let secret = secret.map(read_secret).transpose()?;
    let checked = checked.and_then(|bundle| {
        if secret.is_some() {
            bundle.contents.signing_keys(secret.as_deref())?;
        }
        Ok(bundle)
    });
    match checked {
        Ok(bundle) if json => say!("{}", describe(&bundle)),
        Ok(bundle) => say!("bundle {}: {}", bundle.number, parts(&bundle)),
        Err(error) => {
            if json {
                say!("{}", json!({"valid": false, "reason": error.to_string()}));
            }
            return Err(error.into());
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn describe(bundle: &bundle::Bundle) -> Value {
    json!({
        "valid": true,
        "number": bundle.number,
        "digest": bundle.digest,
        "policy": bundle.contents.policy,
        "component": bundle.contents.component.as_ref().map(|bytes| context_guard::engine::digest(bytes)),
        "signingKeys": bundle.contents.has_signing_keys(),
    })
}

/// Describes the parts of a bundle for the terminal.
fn parts(bundle: &bundle::Bundle) -> String {
    let contents = &bundle.contents;
    let parts = [
        (contents.policy.is_some(), "policy"),
        (contents.component.is_some(), "component"),
        (contents.has_signing_keys(), "signing keys"),
    ];
    let named: Vec<&str> = parts.iter().filter(|(has, _)| *has).map(|(_, name)| *name).collect();
    named.join(", ")
}
