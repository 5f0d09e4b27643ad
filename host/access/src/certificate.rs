//! The name in a client certificate, which identifies a principal.

use std::sync::Arc;

use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// The client's name from the certificate that the TLS handshake has verified. The listener adds it
/// to the extensions of each request of the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientName(Arc<str>);

impl ClientName {
    /// Returns the name in a certificate (DER). It is the first alternative name of the kinds
    /// `uri:`, `dns:` and `email:`, in this order, otherwise `subject:` with the subject (RFC
    /// 4514). `None` if the certificate has none of these, or the name contains control characters.
    ///
    /// The prefix distinguishes names of different kinds, because authorities verify each kind in
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

/// Returns a DNS name in lower case, because DNS names are case-insensitive (RFC 4343).
fn dns(name: &GeneralName) -> Option<String> {
    let GeneralName::DnsName(name) = name else { return None };
    Some(format!("dns:{}", name.to_string().to_ascii_lowercase()))
}

fn email(name: &GeneralName) -> Option<String> {
    let GeneralName::Rfc822Name(address) = name else { return None };
    Some(format!("email:{address}"))
}
