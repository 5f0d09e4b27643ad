//! The format of a bundle: a minisign signature of four lines, then the signed payload in JSON.
//!
//! So `head -n 4` of a bundle is its signature file, and `tail -n +5` the file that it signs:
//! minisign verifies a bundle without this program.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use context_guard_sealing::to_hex;
use minisign_verify::{PublicKey, Signature};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Error, MAX_BUNDLE_BYTES, Result, SecretKey, digest, signed_keys};

/// The version of the payload's format.
const FORMAT: u32 = 1;

/// The parts that a bundle deploys. The gateway file provides parts that are missing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contents {
    /// The policy.
    pub policy: Option<Map<String, Value>>,
    /// The bytes of the guard component.
    pub component: Option<Vec<u8>>,
    /// The signing keys, encrypted for the gateways.
    sealed_keys: Option<Vec<u8>>,
}

impl Contents {
    /// Returns contents without signing keys.
    #[must_use]
    pub fn new(policy: Option<Map<String, Value>>, component: Option<Vec<u8>>) -> Self {
        Self { policy, component, sealed_keys: None }
    }

    /// Returns these contents with signing keys. Gateways decrypt the keys with `secret`.
    ///
    /// # Errors
    /// The keys cannot be encrypted.
    pub fn with_signing_keys(mut self, keys: &[String], secret: &[u8]) -> Result<Self> {
        self.sealed_keys = Some(signed_keys::seal(keys, secret)?);
        Ok(self)
    }

    /// Returns true if the contents have signing keys.
    #[must_use]
    pub fn has_signing_keys(&self) -> bool {
        self.sealed_keys.is_some()
    }

    /// Returns the signing keys, decrypted with `secret`. `None` if the contents have no signing
    /// keys.
    ///
    /// # Errors
    /// [`Error::Refused`] if `secret` is `None` or not the secret that encrypted them.
    pub fn signing_keys(&self, secret: Option<&[u8]>) -> Result<Option<Vec<String>>> {
        let Some(sealed) = &self.sealed_keys else { return Ok(None) };
        let secret = secret.ok_or_else(|| {
            Error::Refused("it has signing keys, and bundle.secret is not set".to_owned())
        })?;
        signed_keys::open(sealed, secret).map(Some)
    }
}

/// A bundle that was verified, or that will be signed.
#[derive(Clone, Debug, PartialEq)]
pub struct Bundle {
    /// The number of the bundle. A gateway never accepts a smaller number than that of the last
    /// bundle.
    pub number: u64,
    /// A random text from which all gateways determine the sessions of a canary.
    pub salt: String,
    /// The parts to deploy.
    pub contents: Contents,
    /// The SHA-256 digest of the signed payload, in hexadecimal.
    pub digest: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Payload {
    format: u32,
    number: u64,
    salt: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    policy: Option<Map<String, Value>>,
    /// The bytes of the component, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    component: Option<String>,
    /// The encrypted signing keys, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    signing_keys: Option<String>,
}

impl Payload {
    fn bytes(bundle: &Bundle) -> Vec<u8> {
        let Contents { policy, component, sealed_keys } = &bundle.contents;
        let payload = Self {
            format: FORMAT,
            number: bundle.number,
            salt: bundle.salt.clone(),
            policy: policy.clone(),
            component: component.as_ref().map(|bytes| STANDARD.encode(bytes)),
            signing_keys: sealed_keys.as_ref().map(|bytes| STANDARD.encode(bytes)),
        };
        let mut bytes = serde_json::to_vec(&payload).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }
}

/// Parses minisign public keys in base64.
///
/// # Errors
/// [`Error::Invalid`] if a text is not such a key.
pub fn public_keys(texts: &[String]) -> Result<Vec<PublicKey>> {
    let key = |text: &String| {
        PublicKey::from_base64(text.trim()).map_err(|error| {
            Error::Invalid(format!("invalid minisign public key {text:?}: {error}"))
        })
    };
    texts.iter().map(key).collect()
}

impl Bundle {
    /// Creates a bundle with a random salt.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn new(number: u64, contents: Contents) -> Result<Self> {
        let mut salt = [0u8; 16];
        SystemRandom::new()
            .fill(&mut salt)
            .map_err(|_| Error::Invalid("the system has no random numbers".to_owned()))?;
        let mut bundle = Self { number, salt: to_hex(&salt), contents, digest: String::new() };
        bundle.digest = digest(&Payload::bytes(&bundle));
        Ok(bundle)
    }

    /// Signs the bundle. Returns its bytes, with the signature.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the result exceeds [`MAX_BUNDLE_BYTES`].
    pub fn sign(&self, key: &SecretKey) -> Result<Vec<u8>> {
        let payload = Payload::bytes(self);
        let comment = format!("context-guard bundle number:{}", self.number);
        let mut bytes = key.sign(&payload, &comment).into_bytes();
        bytes.extend(payload);
        if bytes.len() > MAX_BUNDLE_BYTES {
            return Err(Error::Invalid(format!(
                "the bundle has {} bytes; gateways read at most {MAX_BUNDLE_BYTES}",
                bytes.len()
            )));
        }
        Ok(bytes)
    }

    /// Verifies the signature of a bundle with `keys`, and parses the bundle.
    ///
    /// # Errors
    /// [`Error::Refused`] if none of the keys verifies the signature, [`Error::Invalid`] if the
    /// bytes are not a bundle.
    pub fn open(bytes: &[u8], keys: &[PublicKey]) -> Result<Self> {
        let (signature, payload) = split(bytes).ok_or_else(not_a_bundle)?;
        let signature = Signature::decode(signature).map_err(|_| not_a_bundle())?;
        // Signatures of the payload itself and of its BLAKE2b digest are both sound.
        if !keys.iter().any(|key| key.verify(payload, &signature, true).is_ok()) {
            return Err(Error::Refused(
                "no key in bundle.publicKeys verifies the bundle's signature: sign it again, or add its public key"
                    .to_owned(),
            ));
        }
        // Nothing of the payload is parsed before its signature is verified.
        let parsed: Payload = serde_json::from_slice(payload)
            .map_err(|error| Error::Invalid(format!("the bundle cannot be read: {error}")))?;
        if parsed.format != FORMAT {
            return Err(Error::Invalid(format!(
                "the bundle has format {}, and this program reads format {FORMAT}: update the gateways first",
                parsed.format
            )));
        }
        let decode = |text: Option<String>| {
            let decoded = text.map(|text| STANDARD.decode(text)).transpose();
            decoded.map_err(|error| Error::Invalid(format!("the bundle cannot be read: {error}")))
        };
        let contents = Contents {
            policy: parsed.policy,
            component: decode(parsed.component)?,
            sealed_keys: decode(parsed.signing_keys)?,
        };
        let digest = digest(payload);
        Ok(Self { number: parsed.number, salt: parsed.salt, contents, digest })
    }
}

fn not_a_bundle() -> Error {
    Error::Invalid(
        "not a bundle: it begins with no minisign signature; `context-guard bundle create` makes one"
            .to_owned(),
    )
}

/// Splits a bundle into the four lines of its signature and the payload. `None` if there are no
/// such lines.
fn split(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let line_ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at);
    // A signature line has about 100 bytes: other files are not searched to their end.
    let end = line_ends.take_while(|at| *at < 4_096).nth(3)?;
    let (signature, payload) = bytes.split_at_checked(end + 1)?;
    Some((std::str::from_utf8(signature).ok()?, payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents() -> Contents {
        let policy = serde_json::from_str(r#"{"hardCap": 9000}"#).unwrap();
        Contents { policy: Some(policy), component: Some(vec![0, 1, 2]), sealed_keys: None }
    }

    fn keys(key: &SecretKey) -> Vec<PublicKey> {
        public_keys(&[key.public_text()]).unwrap()
    }

    #[test]
    fn signed_bundle_is_read() {
        let (key, _) = SecretKey::generate().unwrap();
        let bundle = Bundle::new(12, contents()).unwrap();
        let read = Bundle::open(&bundle.sign(&key).unwrap(), &keys(&key)).unwrap();
        assert_eq!(read, bundle);
    }

    #[test]
    fn every_changed_byte_is_refused() {
        let (key, _) = SecretKey::generate().unwrap();
        let bytes = Bundle::new(1, contents()).unwrap().sign(&key).unwrap();
        // The first line is a comment that is not signed.
        let start = bytes.iter().position(|byte| *byte == b'\n').unwrap();
        for at in start..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(Bundle::open(&changed, &keys(&key)).is_err(), "byte {at}");
        }
        for at in [0, start, bytes.len() - 1] {
            assert!(Bundle::open(&bytes[..at], &keys(&key)).is_err(), "{at} bytes");
        }
    }

    #[test]
    fn another_key_is_refused() {
        let (key, _) = SecretKey::generate().unwrap();
        let (other, _) = SecretKey::generate().unwrap();
        let bytes = Bundle::new(1, contents()).unwrap().sign(&other).unwrap();
        assert!(matches!(Bundle::open(&bytes, &keys(&key)), Err(Error::Refused(_))));
        let both = [keys(&key), keys(&other)].concat();
        assert!(Bundle::open(&bytes, &both).is_ok());
    }

    #[test]
    fn signing_keys_need_their_secret() {
        let keys = ["a key of the fleet".to_owned()];
        let contents = contents().with_signing_keys(&keys, b"secret").unwrap();
        assert_eq!(contents.signing_keys(Some(b"secret")).unwrap().unwrap(), keys);
        assert!(contents.signing_keys(Some(b"other")).is_err());
        assert!(contents.signing_keys(None).is_err());
        let (key, _) = SecretKey::generate().unwrap();
        let bytes = Bundle::new(1, contents).unwrap().sign(&key).unwrap();
        assert!(!bytes.windows(10).any(|window| window == b"of the fle"));
    }
}
