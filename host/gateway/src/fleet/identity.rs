//! The identity of a replica: an Ed25519 key that is derived from a signing key.
//!
//! Both sides of a connection present a raw public key (RFC 7250) in a TLS 1.3 handshake. A replica
//! trusts the keys that it can derive itself, so a fleet needs no certificates.

use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use tokio_rustls::rustls::client::AlwaysResolvesClientRawPublicKeys;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring, verify_tls13_signature_with_raw_key};
use tokio_rustls::rustls::pki_types::{
    CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use tokio_rustls::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use tokio_rustls::rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig,
    SignatureScheme,
};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// The context of the key derivation, so that keys for other purposes differ.
const PURPOSE: &[u8] = b"context-guard fleet identity 1";
/// The start of a PKCS #8 document (RFC 8410) with an Ed25519 private key of 32 bytes.
const PKCS8_PREFIX: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];
/// The ALPN protocol of connections between replicas.
const ALPN: &[u8] = b"h2";

/// The identity of this replica, and the identities that it trusts.
pub(super) struct Identity {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

impl Identity {
    /// Derives the identity from the first of the secrets. Replicas with any of the secrets are
    /// trusted.
    pub(super) fn derive(secrets: &[Vec<u8>]) -> Result<Self, Error> {
        let provider = Arc::new(ring::default_provider());
        let keys: Vec<CertifiedKey> =
            secrets.iter().map(|secret| key(secret)).collect::<Result<_, _>>()?;
        let trusted = keys.iter().filter_map(|key| key.cert.first().cloned()).collect();
        let verifier = Arc::new(PeerVerifier { trusted, provider: Arc::clone(&provider) });
        let none = || Error::General("there is no signing key".to_owned());
        let own = Arc::new(keys.into_iter().next().ok_or_else(none)?);
        let mut server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(Arc::clone(&verifier) as Arc<dyn ClientCertVerifier>)
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::clone(&own))));
        server.alpn_protocols = vec![ALPN.to_vec()];
        // A resumed session would not show that the peer still has a key.
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(own)));
        client.alpn_protocols = vec![ALPN.to_vec()];
        // The name is that of no host: the key alone identifies a replica.
        client.enable_sni = false;
        Ok(Self { server: Arc::new(server), client: Arc::new(client) })
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.server))
    }

    pub(super) fn connector(&self) -> TlsConnector {
        TlsConnector::from(Arc::clone(&self.client))
    }
}

/// Derives the key pair of a secret. The public key replaces a certificate.
fn key(secret: &[u8]) -> Result<CertifiedKey, Error> {
    let general = |reason: &str| Error::General(reason.to_owned());
    let mut seed = Hmac::<Sha256>::new_from_slice(secret).map_err(|_| general("invalid secret"))?;
    seed.update(PURPOSE);
    let document = [PKCS8_PREFIX.as_slice(), &seed.finalize().into_bytes()].concat();
    let key = ring::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(document))?;
    let public = key.public_key().ok_or_else(|| general("the key has no public key"))?;
    let public = CertificateDer::from(public.to_vec());
    Ok(CertifiedKey::new(vec![public], key))
}

/// Trusts a peer if its public key is in the list.
#[derive(Debug)]
struct PeerVerifier {
    trusted: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
}

impl PeerVerifier {
    fn check(&self, public: &CertificateDer<'_>) -> Result<(), Error> {
        let is_trusted = self.trusted.iter().any(|trusted| trusted == public);
        let refused = Error::InvalidCertificate(CertificateError::UnknownIssuer);
        is_trusted.then_some(()).ok_or(refused)
    }

    fn check_signature(
        &self,
        message: &[u8],
        public: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let public = SubjectPublicKeyInfoDer::from(public.as_ref());
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature_with_raw_key(message, &public, signature, algorithms)
    }

    /// Returns an error. Handshakes before TLS 1.3 cannot happen, because only version 1.3 is
    /// enabled.
    fn no_tls12() -> Error {
        Error::General("replicas use TLS 1.3".to_owned())
    }
}

impl ServerCertVerifier for PeerVerifier {
    fn verify_server_cert(
        &self,
        public: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(public).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Self::no_tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        public: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, public, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for PeerVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        public: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(public).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Self::no_tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        public: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, public, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    fn identity(secrets: &[&str]) -> Identity {
        let secrets: Vec<Vec<u8>> = secrets.iter().map(|one| one.as_bytes().to_vec()).collect();
        Identity::derive(&secrets).unwrap()
    }

    /// Returns true if a replica with the secrets `client` reaches one with the secrets `server`.
    async fn connects(client: &[&str], server: &[&str]) -> bool {
        let (near, far) = tokio::io::duplex(1 << 16);
        let (connector, acceptor) = (identity(client).connector(), identity(server).acceptor());
        let name = ServerName::try_from("replica").unwrap();
        let serve = async {
            let mut stream = acceptor.accept(far).await?;
            stream.write_all(b"x").await?;
            stream.flush().await
        };
        let connect = async {
            let mut stream = connector.connect(name, near).await?;
            stream.read_exact(&mut [0]).await
        };
        let (served, connected) = tokio::join!(serve, connect);
        served.is_ok() && connected.is_ok()
    }

    #[tokio::test]
    async fn replicas_need_a_common_key() {
        assert!(connects(&["one"], &["one"]).await);
        assert!(connects(&["two", "one"], &["one", "two"]).await, "during a rotation");
        assert!(!connects(&["two"], &["one"]).await);
        assert!(!connects(&["two", "one"], &["one"]).await, "the server does not trust the client");
        assert!(!connects(&["one"], &["two", "one"]).await, "the client does not trust the server");
    }

    #[tokio::test]
    async fn client_without_a_key_is_refused() {
        let (near, far) = tokio::io::duplex(1 << 16);
        let (own, acceptor) = (identity(&["one"]), identity(&["one"]).acceptor());
        let provider = Arc::new(ring::default_provider());
        let trusted = vec![key(b"one").unwrap().cert.remove(0)];
        let verifier = Arc::new(PeerVerifier { trusted, provider: Arc::clone(&provider) });
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        let connect = async {
            let connector = TlsConnector::from(Arc::new(config));
            let name = ServerName::try_from("replica").unwrap();
            connector.connect(name, near).await?.read_exact(&mut [0]).await
        };
        let (accepted, connected) = tokio::join!(acceptor.accept(far), connect);
        assert!(accepted.is_err() && connected.is_err());
        drop(own);
    }
}
