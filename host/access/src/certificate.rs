//! The name in a client certificate, which identifies a principal.

use std::sync::Arc;

use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// The name of the client whose certificate the TLS handshake has verified. The listener adds it to
/// the extensions of each request of the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientName(Arc<str>);

impl ClientName {
    /// Returns the name in a certificate (DER): `uri:`, `dns:` or `email:` with the first
    /// alternative name of the first of these kinds that it has, else `subject:` with its subject
    /// (RFC 4514). `None` if it has none of these, or the name contains control characters.
    ///
    /// The prefix keeps names of different kinds apart, because authorities check each kind in
    /// another way.
    #[must_use]
    pub fn of_certificate(certificate: &[u8]) -> Option<Self> {
        let certificate = Certificate::from_der(certificate).ok()?;
        let content = certificate.tbs_certificate();
        let alternatives = match content.get_extension::<SubjectAltName>() {
            Ok(found) => found.map(|(_, names)| names.0).unwrap_or_default(),
            Err(_) => return None,
        };
        let first =
            |select: fn(&GeneralName) -> Option<String>| alternatives.iter().find_map(select);
        let name = first(uri).or_else(|| first(dns)).or_else(|| first(email)).or_else(|| {
            let subject = content.subject();
            (!subject.is_empty()).then(|| format!("subject:{subject}"))
        })?;
        // They would make two names look alike in logs.
        (!name.contains(char::is_control)).then(|| Self(name.into()))
    }

    /// Returns the principal: `cert:` and the name.
    pub(super) fn principal(&self) -> Arc<str> {
        format!("cert:{}", self.0).into()
    }
}

fn uri(name: &GeneralName) -> Option<String> {
    let GeneralName::UniformResourceIdentifier(uri) = name else { return None };
    Some(format!("uri:{uri}"))
}

/// Returns a DNS name in lower case, because its case has no meaning (RFC 4343).
fn dns(name: &GeneralName) -> Option<String> {
    let GeneralName::DnsName(name) = name else { return None };
    Some(format!("dns:{}", name.to_string().to_ascii_lowercase()))
}

fn email(name: &GeneralName) -> Option<String> {
    let GeneralName::Rfc822Name(address) = name else { return None };
    Some(format!("email:{address}"))
}
