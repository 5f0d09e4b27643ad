//! Certificate authorities, which issue and revoke certificates with OpenSSL.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use crate::artifacts;
use crate::gateway::Process;

/// The settings of an authority. It certifies a common name, then an organization.
const SETTINGS: &str = "[ca]\ndefault_ca = this\n[this]\ndatabase = index.txt\nserial = serial\n\
    crlnumber = serial\nnew_certs_dir = .\ncertificate = ca.pem\nprivate_key = ca.key\n\
    default_md = sha256\npolicy = any\nunique_subject = no\ndefault_crl_days = 2\n\
    [any]\ncommonName = optional\norganizationName = optional\n";

/// A certificate and its private key.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// The PEM file of the certificate.
    pub cert: PathBuf,
    /// The PEM file of the key.
    pub key: PathBuf,
}

/// A certificate authority in a folder.
pub struct Authority {
    folder: PathBuf,
}

impl Authority {
    /// Creates an authority in a new folder.
    ///
    /// # Errors
    /// OpenSSL fails.
    pub fn create(folder: PathBuf) -> Result<Self> {
        let authority = Self { folder };
        std::fs::create_dir_all(&authority.folder)?;
        std::fs::write(authority.path("ca.cnf"), SETTINGS)?;
        std::fs::write(authority.path("index.txt"), "")?;
        std::fs::write(authority.path("serial"), "1000\n")?;
        authority.run(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=ca \
             -keyout ca.key -out ca.pem",
        )?;
        Ok(authority)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn run(&self, arguments: &str) -> Result<()> {
        let mut command = Command::new("openssl");
        command.current_dir(&self.folder).args(arguments.split_whitespace());
        let output = command.output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "openssl {arguments}: {errors}");
        Ok(())
    }

    /// Returns the file with the certificate of the authority.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.path("ca.pem")
    }

    /// Issues a certificate that is valid now. `subject` is such as `/CN=alice`, and `extensions`
    /// has lines such as `subjectAltName=DNS:alice.example`. `file` names its files.
    ///
    /// # Errors
    /// OpenSSL fails.
    pub fn issue(&self, file: &str, subject: &str, extensions: &str) -> Result<Certificate> {
        self.issue_for(file, subject, extensions, "-days 2")
    }

    /// Issues a certificate that has expired.
    ///
    /// # Errors
    /// OpenSSL fails.
    pub fn issue_expired(&self, file: &str, subject: &str) -> Result<Certificate> {
        let validity = "-startdate 20240101000000Z -enddate 20240201000000Z";
        self.issue_for(file, subject, "", validity)
    }

    fn issue_for(
        &self,
        file: &str,
        subject: &str,
        extensions: &str,
        validity: &str,
    ) -> Result<Certificate> {
        self.run(&format!(
            "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj {subject} \
             -keyout {file}.key -out {file}.csr"
        ))?;
        let extensions = format!("basicConstraints=CA:FALSE\n{extensions}\n");
        std::fs::write(self.path("extensions"), extensions)?;
        self.run(&format!(
            "ca -batch -notext -config ca.cnf {validity} -extfile extensions -in {file}.csr \
             -out {file}.pem"
        ))?;
        let (cert, key) = (self.path(&format!("{file}.pem")), self.path(&format!("{file}.key")));
        Ok(Certificate { cert, key })
    }

    /// Issues the certificate of a server on this machine.
    ///
    /// # Errors
    /// OpenSSL fails.
    pub fn issue_server(&self) -> Result<Certificate> {
        let names = "subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth";
        self.issue("server", "/CN=localhost", names)
    }

    /// Revokes a certificate.
    ///
    /// # Errors
    /// OpenSSL fails.
    pub fn revoke(&self, certificate: &Certificate) -> Result<()> {
        self.run(&format!("ca -config ca.cnf -revoke {}", certificate.cert.display()))
    }

    /// Writes the list of revoked certificates.
    ///
    /// # Errors
    /// OpenSSL fails.
    pub fn write_revocations(&self, file: &Path) -> Result<()> {
        self.run(&format!("ca -config ca.cnf -gencrl -out {}", file.display()))
    }
}

/// A server on loopback that passes TLS connections to a plain port. It requires client
/// certificates.
pub struct TlsProxy {
    /// The process, which prints `client` and the common name for each connection.
    pub process: Process,
    /// Scheme and authority.
    pub base: String,
}

impl TlsProxy {
    /// Starts a server with this certificate, before the server at `target`, a URL with an address
    /// and a port. Clients need a certificate of `clients`.
    ///
    /// # Errors
    /// The server does not start.
    pub fn start(server: &Certificate, clients: &Authority, target: &str) -> Result<Self> {
        let port = target.trim_start_matches("http://").split(['/', ':']).nth(1);
        let mut command = Command::new(artifacts::node()?);
        command.arg(artifacts::root().join("tests/support/servers/tls_proxy.mjs"));
        command.env("KEY", &server.key).env("CERT", &server.cert).env("CA", clients.file());
        command.env("TARGET", port.unwrap_or_default());
        let process = Process::start(command, true, "https://")?;
        let base = process.output().lines().next().unwrap_or_default().to_owned();
        Ok(Self { process, base })
    }
}
