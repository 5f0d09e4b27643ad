//! The replica that owns the object of an id, such as a session, a stream or a suspended request.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use context_guard_sealing::NONCE_BYTES;
use serde::{Deserialize, Serialize};

use super::keys::{DerivedKeys, FleetKeys};

/// The principal name from which the keys of tags are derived. No principal has this name: those of
/// authenticated callers begin with their kind, such as `key:`.
const TAGS: &[u8] = b"owner tags";
/// The context in which tags are sealed.
const CONTEXT: &[u8] = b"owner";
/// The separator between the tag of an owner and the rest of an id. Neither part contains it.
pub(crate) const OWNER_MARK: char = '~';

/// One process of a replica.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    /// The host and port at which other replicas reach this one.
    #[serde(rename = "a")]
    pub(crate) address: String,
    /// A random number that identifies the process. Its successor at the same address has another
    /// number.
    #[serde(rename = "i")]
    pub(crate) instance: u64,
}

impl Owner {
    /// Returns this process as an owner, with a new random number.
    pub(super) fn new(address: String) -> Self {
        let mut random = [0u8; 8];
        // Without random numbers the process could not encrypt either, so no id would be given.
        let _ = getrandom::fill(&mut random);
        Self { address, instance: u64::from_le_bytes(random) }
    }
}

/// The tag of this replica, which begins its ids. It is encrypted, so that clients neither see
/// addresses nor choose the addresses to which replicas connect. Empty without a fleet.
#[derive(Clone, Default)]
pub(crate) struct OwnerTag(Option<Arc<TagState>>);

struct TagState {
    keys: Arc<FleetKeys>,
    owner: OnceLock<Owner>,
    /// The encrypted tag with [`OWNER_MARK`], and the keys that sealed it. `None` before its first
    /// use.
    sealed: Mutex<Option<(Arc<DerivedKeys>, Arc<str>)>>,
}

impl OwnerTag {
    pub(super) fn new(keys: Arc<FleetKeys>) -> Self {
        let state = TagState { keys, owner: OnceLock::new(), sealed: Mutex::default() };
        Self(Some(Arc::new(state)))
    }

    pub(super) fn set(&self, owner: Owner) {
        if let Some(state) = &self.0 {
            let _ = state.owner.set(owner);
        }
    }

    /// Returns the tag followed by [`OWNER_MARK`], the prefix of ids. Empty without a fleet.
    pub(crate) fn prefix(&self) -> Arc<str> {
        self.0.as_ref().and_then(|state| state.prefix()).unwrap_or_else(|| "".into())
    }
}

impl TagState {
    fn prefix(&self) -> Option<Arc<str>> {
        let owner = self.owner.get()?;
        let keys = self.keys.current();
        let mut sealed = self.sealed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((used, prefix)) = &*sealed
            && Arc::ptr_eq(used, &keys)
        {
            return Some(Arc::clone(prefix));
        }
        let prefix: Arc<str> = format!("{}{OWNER_MARK}", seal(&keys, owner)?).into();
        *sealed = Some((keys, Arc::clone(&prefix)));
        Some(prefix)
    }
}

fn seal(keys: &DerivedKeys, owner: &Owner) -> Option<String> {
    let key = keys.ids.first()?.key(TAGS).ok()?;
    let mut sealed = serde_json::to_vec(owner).ok()?;
    let nonce = key.seal(CONTEXT, &mut sealed).ok()?;
    sealed.extend(nonce);
    Some(URL_SAFE_NO_PAD.encode(sealed))
}

/// Decrypts the owner in a tag. `None` if none of the keys sealed the tag.
pub(super) fn open(keys: &DerivedKeys, tag: &str) -> Option<Owner> {
    let sealed = URL_SAFE_NO_PAD.decode(tag).ok()?;
    let (sealed, nonce) = sealed.split_last_chunk::<NONCE_BYTES>()?;
    let open = |secret: &context_guard_sealing::KeyMaterial| {
        secret.key(TAGS).ok()?.open(CONTEXT, nonce, sealed)
    };
    serde_json::from_slice(&keys.ids.iter().find_map(open)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_follow_the_keys() {
        let secrets = Arc::new(Mutex::new(vec![b"one".to_vec()]));
        let shared = Arc::clone(&secrets);
        let keys = Arc::new(FleetKeys::new(move || shared.lock().unwrap().clone()));
        let tag = OwnerTag::new(Arc::clone(&keys));
        assert_eq!(&*tag.prefix(), "", "the replica does not listen yet");
        let owner = Owner::new("10.0.0.7:8810".to_owned());
        tag.set(owner.clone());
        let prefix = tag.prefix();
        assert_eq!(tag.prefix(), prefix, "one tag for all ids");
        let sealed = prefix.strip_suffix(OWNER_MARK).unwrap();
        assert!(!sealed.contains(OWNER_MARK) && !sealed.contains("10.0.0.7"));
        assert_eq!(open(&keys.current(), sealed), Some(owner.clone()));
        let derived = |secrets: &[&str]| {
            DerivedKeys::derive(secrets.iter().map(|secret| secret.as_bytes().to_vec()).collect())
        };
        assert_eq!(open(&derived(&["two", "one"]), sealed), Some(owner), "a rotated key");
        assert_eq!(open(&derived(&["two"]), sealed), None);
        for at in 0..sealed.len() {
            let mut changed = sealed.as_bytes().to_vec();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(open(&keys.current(), &changed), None, "{changed}");
        }
    }
}
