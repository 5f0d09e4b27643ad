//! The TLS settings of the listener and of upstreams.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

/// Certificates and key of the listener in PEM format. All files are read again when they change.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Tls {
    /// The certificate with its chain.
    pub cert: PathBuf,
    /// The private key.
    pub key: PathBuf,
    /// The certificate authorities of clients. With it, clients need a certificate of one of them,
    /// or the handshake fails. Without `access.keys` and `access.jwt`, the name in the certificate
    /// is the principal.
    #[serde(default)]
    pub client_ca: Option<PathBuf>,
    /// The certificate revocation lists of all authorities in the chains of clients. Certificates
    /// that they revoke are refused, and those of an authority without a current list.
    #[serde(default)]
    pub client_crl: Option<PathBuf>,
}

/// The TLS settings of requests to an upstream, in PEM format. All files are read again when they
/// change.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct UpstreamTls {
    /// The certificate authorities that may issue the certificate of the upstream, instead of those
    /// of the system.
    pub ca: Option<PathBuf>,
    /// The client certificate of the gateway, with its chain. The requests of an OAuth login and
    /// for tokens do not use it.
    pub cert: Option<PathBuf>,
    /// The private key of `cert`.
    pub key: Option<PathBuf>,
}
