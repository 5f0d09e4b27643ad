//! Signature verification for `jsonwebtoken` with ring, the library that TLS also uses.

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result};
use jsonwebtoken::signature::{Error, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind, EncodingKey};
use ring::signature::{
    self as algorithms, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
};

/// Installs ring as the cryptography library of `jsonwebtoken` in this process.
pub(super) fn install() {
    static PROVIDER: CryptoProvider = CryptoProvider {
        signer_factory: refuse_to_sign,
        verifier_factory: verifier,
        // These derive a public key from a private one, or a thumbprint. Verification calls
        // neither.
        key_utils: KeyUtils::new_unimplemented(),
    };
    // It fails if the provider is installed already: the first call has done all there is to do.
    let _ = PROVIDER.install_default();
}

fn refuse_to_sign(_: &Algorithm, _: &EncodingKey) -> Result<Box<dyn JwtSigner>> {
    Err(ErrorKind::InvalidAlgorithm.into())
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    // Without this check, a token could name an algorithm that belongs to another kind of key.
    if algorithm.family() != key.family() {
        return Err(ErrorKind::InvalidKeyFormat.into());
    }
    Ok(Box::new(RingVerifier { algorithm: *algorithm, key: key.clone() }))
}

struct RingVerifier {
    algorithm: Algorithm,
    key: DecodingKey,
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        let verified = match self.key.kind() {
            DecodingKeyKind::RsaModulusExponent { n, e } => match rsa(self.algorithm) {
                Some(rsa) => RsaPublicKeyComponents { n, e }.verify(rsa, message, signature),
                None => Err(ring::error::Unspecified),
            },
            DecodingKeyKind::SecretOrDer(bytes) => match curve(self.algorithm) {
                Some(curve) => UnparsedPublicKey::new(curve, bytes).verify(message, signature),
                None => Err(ring::error::Unspecified),
            },
        };
        verified.map_err(|_| Error::new())
    }
}

fn rsa(algorithm: Algorithm) -> Option<&'static RsaParameters> {
    Some(match algorithm {
        Algorithm::RS256 => &algorithms::RSA_PKCS1_2048_8192_SHA256,
        Algorithm::RS384 => &algorithms::RSA_PKCS1_2048_8192_SHA384,
        Algorithm::RS512 => &algorithms::RSA_PKCS1_2048_8192_SHA512,
        Algorithm::PS256 => &algorithms::RSA_PSS_2048_8192_SHA256,
        Algorithm::PS384 => &algorithms::RSA_PSS_2048_8192_SHA384,
        Algorithm::PS512 => &algorithms::RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}

fn curve(algorithm: Algorithm) -> Option<&'static dyn algorithms::VerificationAlgorithm> {
    Some(match algorithm {
        // JWS signatures are the two integers side by side (RFC 7518, 3.4), not ASN.1.
        Algorithm::ES256 => &algorithms::ECDSA_P256_SHA256_FIXED,
        Algorithm::ES384 => &algorithms::ECDSA_P384_SHA384_FIXED,
        Algorithm::EdDSA => &algorithms::ED25519,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
    use jsonwebtoken::{Validation, decode};
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
    use serde_json::{Value, json};

    fn token(algorithm: &str, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
        let part = |value: Value| BASE64.encode(value.to_string());
        let head = part(json!({"alg": algorithm, "typ": "JWT"}));
        let signed = format!("{head}.{}", part(json!({"sub": "alice", "exp": 4_000_000_000u64})));
        let signature = BASE64.encode(sign(signed.as_bytes()));
        format!("{signed}.{signature}")
    }

    fn accepts(token: &str, key: &DecodingKey, algorithm: Algorithm) -> bool {
        install();
        let mut validation = Validation::new(algorithm);
        validation.validate_aud = false;
        decode::<Value>(token, key, &validation).is_ok()
    }

    #[test]
    fn signatures_are_verified() {
        let random = SystemRandom::new();
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
        let pair = Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap();
        let ed25519 = DecodingKey::from_ed_der(pair.public_key().as_ref());
        let signed = token("EdDSA", |message| pair.sign(message).as_ref().to_vec());
        assert!(accepts(&signed, &ed25519, Algorithm::EdDSA));

        let curve = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(curve, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(curve, pkcs8.as_ref(), &random).unwrap();
        let p256 = DecodingKey::from_ec_der(pair.public_key().as_ref());
        let sign = |message: &[u8]| pair.sign(&random, message).unwrap().as_ref().to_vec();
        let signed = token("ES256", sign);
        assert!(accepts(&signed, &p256, Algorithm::ES256));

        // A forged signature, a key of another kind, and another algorithm for the same kind.
        assert!(!accepts(&token("ES256", |_| vec![1; 64]), &p256, Algorithm::ES256));
        assert!(!accepts(&signed, &ed25519, Algorithm::ES256));
        assert!(!accepts(&signed, &p256, Algorithm::ES384));
    }
}
