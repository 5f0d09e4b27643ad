//! The identity of a revision at all replicas of a fleet. The number of a revision only counts the
//! deployments of one process.

use super::Origin;
use crate::engine::digest;

/// The length of an identity, in hexadecimal digits.
const ID_DIGITS: usize = 16;

/// The number and the salt of the bundle from which a revision was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BundleLabel {
    /// The number of the bundle.
    pub number: u64,
    /// The random text of the bundle, from which replicas determine the sessions of a trial.
    pub salt: String,
}

/// Returns the identity of a revision, and the salt of its trial.
pub(super) fn identify(origin: &Origin) -> (String, u64) {
    let Origin { component, policy, bundle, .. } = origin;
    // The number is a part: a bundle that was rolled back may be published again with another one.
    let number = bundle.as_ref().map(|bundle| bundle.number);
    let mut id = digest(format!("{component} {policy} {number:?}").as_bytes());
    let salt = match bundle {
        Some(bundle) => digest(bundle.salt.as_bytes()),
        None => id.clone(),
    };
    id.truncate(ID_DIGITS);
    let salt = salt.get(..ID_DIGITS).and_then(|hex| u64::from_str_radix(hex, 16).ok());
    (id, salt.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(policy: &str, bundle: Option<(u64, &str)>) -> Origin {
        Origin {
            source: String::new(),
            version: String::new(),
            component: "c".to_owned(),
            policy: policy.to_owned(),
            since_ms: 0,
            bundle: bundle.map(|(number, salt)| BundleLabel { number, salt: salt.to_owned() }),
        }
    }

    #[test]
    fn identity_covers_contents_and_number() {
        let id = |policy: &str, bundle| identify(&origin(policy, bundle)).0;
        assert_eq!(id("p", Some((1, "a"))), id("p", Some((1, "b"))));
        assert_ne!(id("p", Some((1, "a"))), id("p", Some((2, "a"))));
        assert_ne!(id("p", None), id("q", None));
    }

    #[test]
    fn salt_is_that_of_the_bundle() {
        let salt = |policy: &str, bundle| identify(&origin(policy, bundle)).1;
        assert_eq!(salt("p", Some((1, "a"))), salt("q", Some((2, "a"))));
        assert_ne!(salt("p", Some((1, "a"))), salt("p", Some((1, "b"))));
        assert_ne!(salt("p", None), salt("q", None));
    }
}
