//! Session ids that every replica of a fleet can read, but no client.
//!
//! An id is the internal id of the session, which telemetry uses, followed by an encrypted
//! description. The key is derived for one principal, so that an id of another principal is as
//! invalid as a forged one.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use context_guard_sealing::NONCE_BYTES;
use serde::{Deserialize, Serialize};

use super::keys::DerivedKeys;
use super::owner::Owner;
use crate::protocol_mode::ClientInfo;

/// The version of the format. An id of another version is invalid, and its client must initialize
/// again.
const VERSION: u8 = 1;
/// The length of the internal id at the start of a token, in bytes.
pub(crate) const ID_BYTES: usize = 32;

/// The part of the gateway that serves a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum SessionKind {
    /// The aggregator. Holds the ids of the sessions with upstreams.
    #[serde(rename = "a")]
    Aggregated(Vec<UpstreamSessionId>),
    /// The single upstream, which issued this session id.
    #[serde(rename = "p")]
    Passed(String),
}

/// The session of a client with one upstream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UpstreamSessionId {
    #[serde(rename = "n")]
    pub(crate) upstream: String,
    #[serde(rename = "s")]
    pub(crate) id: String,
    #[serde(rename = "v")]
    pub(crate) version: String,
}

/// The description of a session, from which a replica restores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionDescription {
    /// The internal id of the session, which telemetry uses.
    pub(crate) id: String,
    pub(crate) owner: Owner,
    /// True if only the session's owner can serve it.
    pub(crate) is_bound: bool,
    /// The time at which the id was issued, in seconds since 1970.
    pub(crate) issued: u64,
    pub(crate) kind: SessionKind,
    pub(crate) client: ClientInfo,
    /// False if the description of the client is too long for the id, and is in the store instead.
    pub(super) has_details: bool,
}

impl SessionDescription {
    /// Returns the description of a session that begins now.
    pub(crate) fn new(
        id: String,
        owner: Owner,
        is_bound: bool,
        kind: SessionKind,
        client: ClientInfo,
    ) -> Self {
        Self { id, owner, is_bound, issued: now(), kind, client, has_details: true }
    }

    /// Returns true if the aggregator serves the session.
    pub(crate) fn is_aggregated(&self) -> bool {
        matches!(self.kind, SessionKind::Aggregated(_))
    }

    /// Returns the id of the session at the replica or upstream that serves it.
    pub(crate) fn internal_id(&self) -> &str {
        match &self.kind {
            SessionKind::Aggregated(_) => &self.id,
            SessionKind::Passed(id) => id,
        }
    }

    /// Returns the description without the data that its record in the store contains.
    pub(super) fn without_details(&self) -> Self {
        let kind = match &self.kind {
            SessionKind::Aggregated(_) => SessionKind::Aggregated(Vec::new()),
            passed => passed.clone(),
        };
        let client = ClientInfo {
            version: self.client.version.clone(),
            capabilities: String::new(),
            implementation: String::new(),
        };
        Self { kind, client, has_details: false, ..self.clone() }
    }
}

/// The encrypted part of a session id.
#[derive(Serialize, Deserialize)]
struct Sealed {
    #[serde(rename = "v")]
    version: u8,
    #[serde(rename = "o")]
    owner: Owner,
    #[serde(rename = "b")]
    is_bound: bool,
    #[serde(rename = "t")]
    issued: u64,
    #[serde(rename = "k")]
    kind: SessionKind,
    #[serde(rename = "p")]
    protocol: String,
    /// The capabilities and the implementation of the client, as raw JSON.
    #[serde(rename = "c")]
    client: Option<(String, String)>,
}

/// The record in the store of a session whose description is too long for an id.
#[derive(Serialize, Deserialize)]
struct Record {
    kind: SessionKind,
    capabilities: String,
    implementation: String,
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Returns the time since a session id was issued.
pub(super) fn age(state: &SessionDescription) -> Duration {
    Duration::from_secs(now().saturating_sub(state.issued))
}

/// Returns the name of a session's record in the store.
pub(super) fn record_name(id: &str) -> String {
    format!("session-{id}")
}

/// Returns the name of the store entry which records that a session has ended.
pub(super) fn end_name(id: &str) -> String {
    format!("ended-{id}")
}

/// Returns the record of a session for the store. `None` if it cannot be serialized.
pub(super) fn record(state: &SessionDescription) -> Option<Vec<u8>> {
    let ClientInfo { capabilities, implementation, .. } = state.client.clone();
    serde_json::to_vec(&Record { kind: state.kind.clone(), capabilities, implementation }).ok()
}

/// Adds the data in the record of a session to `state`. `None` if the record is invalid.
pub(super) fn add_details(state: &mut SessionDescription, record: &[u8]) -> Option<()> {
    let Record { kind, capabilities, implementation } = serde_json::from_slice(record).ok()?;
    state.kind = kind;
    state.client.capabilities = capabilities;
    state.client.implementation = implementation;
    state.has_details = true;
    Some(())
}

/// Returns the session id for the client. `None` if it cannot be encrypted.
pub(super) fn seal(
    keys: &DerivedKeys,
    principal: &str,
    state: &SessionDescription,
) -> Option<String> {
    let key = keys.ids.first()?.key(principal.as_bytes()).ok()?;
    let ClientInfo { version, capabilities, implementation } = state.client.clone();
    let sealed = Sealed {
        version: VERSION,
        owner: state.owner.clone(),
        is_bound: state.is_bound,
        issued: state.issued,
        kind: state.kind.clone(),
        protocol: version,
        client: state.has_details.then_some((capabilities, implementation)),
    };
    let mut bytes = serde_json::to_vec(&sealed).ok()?;
    let nonce = key.seal(state.id.as_bytes(), &mut bytes).ok()?;
    bytes.extend(nonce);
    Some(format!("{}{}", state.id, URL_SAFE_NO_PAD.encode(bytes)))
}

/// Decrypts the session that a session id describes. `None` if none of the keys sealed the id for
/// this principal.
pub(super) fn open(keys: &DerivedKeys, principal: &str, token: &str) -> Option<SessionDescription> {
    let (id, sealed) = token.split_at_checked(ID_BYTES)?;
    let sealed = URL_SAFE_NO_PAD.decode(sealed).ok()?;
    let (sealed, nonce) = sealed.split_last_chunk::<NONCE_BYTES>()?;
    let open = |secret: &context_guard_sealing::KeyMaterial| {
        secret.key(principal.as_bytes()).ok()?.open(id.as_bytes(), nonce, sealed)
    };
    let sealed: Sealed = serde_json::from_slice(&keys.ids.iter().find_map(open)?).ok()?;
    if sealed.version != VERSION {
        return None;
    }
    let has_details = sealed.client.is_some();
    let (capabilities, implementation) = sealed.client.unwrap_or_default();
    Some(SessionDescription {
        id: id.to_owned(),
        owner: sealed.owner,
        is_bound: sealed.is_bound,
        issued: sealed.issued,
        kind: sealed.kind,
        client: ClientInfo { version: sealed.protocol, capabilities, implementation },
        has_details,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(secrets: &[&str]) -> DerivedKeys {
        DerivedKeys::derive(secrets.iter().map(|secret| secret.as_bytes().to_vec()).collect())
    }

    fn state(capabilities: &str) -> SessionDescription {
        let client = ClientInfo {
            version: "2025-11-25".to_owned(),
            capabilities: capabilities.to_owned(),
            implementation: r#"{"name":"test","version":"1"}"#.to_owned(),
        };
        let upstream = UpstreamSessionId {
            upstream: "files".to_owned(),
            id: "5b1e7c1a-65e0-4f3d-9d39-0f2b7a0f7a57".to_owned(),
            version: "2025-06-18".to_owned(),
        };
        let kind = SessionKind::Aggregated(vec![upstream]);
        let owner = Owner::new("10.0.0.7:8810".to_owned());
        SessionDescription::new("x".repeat(ID_BYTES), owner, false, kind, client)
    }

    #[test]
    fn id_is_bound_to_principal_and_keys() {
        let (one, state) = (keys(&["one"]), state("{}"));
        let token = seal(&one, "ann", &state).unwrap();
        assert!(token.len() < 500 && !token.contains("files"), "{} bytes", token.len());
        assert_eq!(open(&one, "ann", &token), Some(state.clone()));
        assert_eq!(open(&one, "bob", &token), None);
        assert_eq!(open(&keys(&["two", "one"]), "ann", &token), Some(state));
        assert_eq!(open(&keys(&["two"]), "ann", &token), None);
    }

    #[test]
    fn changed_ids_are_invalid() {
        let keys = keys(&["one"]);
        let token = seal(&keys, "ann", &state("{}")).unwrap();
        for at in 0..token.len() {
            let mut changed = token.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(open(&keys, "ann", &String::from_utf8(changed).unwrap()), None, "{at}");
            assert_eq!(open(&keys, "ann", token.get(..at).unwrap()), None, "{at} bytes");
        }
        assert_eq!(open(&keys, "ann", "ä".repeat(40).as_str()), None);
    }

    #[test]
    fn long_description_is_a_record() {
        let keys = keys(&["one"]);
        let long = state(&format!(r#"{{"experimental":{{"x":"{}"}}}}"#, "y".repeat(4_000)));
        let record = record(&long).unwrap();
        let token = seal(&keys, "ann", &long.without_details()).unwrap();
        assert!(token.len() < 400, "{} bytes", token.len());
        let mut found = open(&keys, "ann", &token).unwrap();
        assert!(!found.has_details && found != long);
        add_details(&mut found, &record).unwrap();
        assert_eq!(found, long);
        assert!(add_details(&mut found, b"{}").is_none());
    }
}
