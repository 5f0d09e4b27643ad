//! The replica that owns something which an id refers to, such as the process of a session.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use context_guard_sealing::NONCE_BYTES;
use serde::{Deserialize, Serialize};

use super::keys::{DerivedKeys, FleetKeys};

/// The owner under which the keys of tags are derived. It is no principal, because it has a space.
const TAGS: &[u8] = b"owner tags";
/// The context in which tags are sealed.
const CONTEXT: &[u8] = b"owner";
/// The character between the tag of an owner and the id that it belongs to. Neither has it.
pub(crate) const OWNER_MARK: char = '~';

/// A replica, from its start to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    /// The host and port at which other replicas reach it.
    #[serde(rename = "a")]
    pub(crate) address: String,
    /// A random number of the process: its successor at the same address has another one.
    #[serde(rename = "i")]
    pub(crate) instance: u64,
}

impl Owner {
    /// Returns this process as an owner.
    pub(super) fn new(address: String) -> Self {
        let mut random = [0u8; 8];
        // Without random numbers the process could not encrypt either, so no id would be given.
        let _ = getrandom::fill(&mut random);
        Self { address, instance: u64::from_le_bytes(random) }
    }
}

/// The tag of this replica in ids. It is encrypted, so that clients neither see addresses nor
/// choose the ones that replicas connect to. Empty without a fleet.
#[derive(Clone, Default)]
pub(crate) struct OwnerTag(Option<Arc<TagState>>);

struct TagState {
    keys: Arc<FleetKeys>,
    owner: OnceLock<Owner>,
    /// The tag, with the keys that sealed it.
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

    /// Returns the tag with the mark after it, to which an id is appended. Empty without a fleet.
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

/// Returns the owner in a tag, if one of the keys sealed it.
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
