//! Cursors: `base64url(payload JSON) "." base64url(HMAC-SHA256)`, no padding (R002).
//!
//! The MAC covers the encoded payload exactly as sent and the principal; the endpoint is covered through the snapshot's name, whose first part
//! is a keyed tag of principal and endpoint. So one cursor works both on the tool that gave it and on `context_guard_read`, and nowhere else.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::Mac;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::key::Keys;

const VERSION: u8 = 1;

/// A place in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    #[serde(rename = "v")]
    pub(crate) version: u8,
    /// The snapshot's name.
    #[serde(rename = "s")]
    pub snapshot: String,
    /// Where the next page begins: an item of a list, a byte of a text.
    #[serde(rename = "o")]
    pub offset: u64,
    /// Bytes of that item that were already shown, where it is larger than a page.
    #[serde(rename = "b", default, skip_serializing_if = "is_zero")]
    pub within: u64,
    /// Items a page, where the caller asked for another number than the policy's.
    #[serde(rename = "l", default, skip_serializing_if = "is_zero")]
    pub limit: u64,
    /// The byte at which a range of a text ends; 0: its end.
    #[serde(rename = "z", default, skip_serializing_if = "is_zero")]
    pub end: u64,
    /// Where the page before it began, plus one, if that page was condensed: `fields=all` reads it again, whole.
    #[serde(rename = "f", default, skip_serializing_if = "is_zero")]
    pub first: u64,
    /// 1: whole items and texts are read from here on, nothing condensed.
    #[serde(rename = "w", default, skip_serializing_if = "is_zero")]
    pub whole: u64,
    /// The call that its answer is fetched by again, where nothing is kept.
    #[serde(rename = "r", default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<Replay>,
    /// When it was issued, in seconds.
    #[serde(rename = "t")]
    pub issued: u64,
}

/// A call that can be made again (requirements, replay): whoever made it knows it already. What it must answer is in the snapshot's name, a keyed digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replay {
    /// The upstream; may be empty.
    #[serde(rename = "u", default)]
    pub upstream: String,
    /// The tool.
    #[serde(rename = "n")]
    pub name: String,
    /// Its arguments as they came, the guard's among them: JSON.
    #[serde(rename = "a")]
    pub arguments: String,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Why a cursor is not served. The text is what the model reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CursorError {
    /// Malformed, forged, another principal's or another endpoint's: not told apart.
    #[error(
        "cursor_invalid: this cursor was not issued here for this tool and caller. Repeat the original call without a cursor to start again."
    )]
    Invalid,
    /// Own, but past its time.
    #[error(
        "cursor_expired: this cursor is too old, and what it led to is no longer kept. Repeat the original call without a cursor to start again."
    )]
    Expired,
    /// Own, but the store that it leads to cannot be reached.
    #[error(
        "cursor_unavailable: what this cursor leads to cannot be reached now. Try again in a moment, or repeat the original call without a cursor to start again."
    )]
    Unavailable,
    /// Own, but the upstream answers otherwise by now.
    #[error(
        "data_changed: what this cursor leads to is no longer what the first page was cut from. Repeat the original call without a cursor to start again."
    )]
    Changed,
}

impl Cursor {
    /// A cursor to `offset` of a snapshot.
    #[must_use]
    pub fn new(snapshot: &str, offset: u64, now_ms: u64) -> Self {
        Self {
            version: VERSION,
            snapshot: snapshot.to_owned(),
            offset,
            within: 0,
            limit: 0,
            end: 0,
            first: 0,
            whole: 0,
            replay: None,
            issued: now_ms / 1_000,
        }
    }

    /// The cursor as text, signed with the first key. About 115 characters.
    #[must_use]
    pub fn sign(&self, keys: &Keys, principal: &str) -> String {
        let payload = URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default());
        let Some(key) = keys.all().next() else { return String::new() };
        let mut mac = key.clone();
        feed(&mut mac, principal, &payload);
        let signature = URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes());
        format!("{payload}.{signature}")
    }

    /// Reads a cursor. The MAC is checked, in constant time, before anything is parsed.
    ///
    /// # Errors
    /// [`CursorError`]; expired only where it is the caller's own.
    pub fn verify(
        text: &str,
        keys: &Keys,
        principal: &str,
        now_ms: u64,
        ttl_ms: u64,
    ) -> Result<Self, CursorError> {
        let (payload, signature) = text.trim().split_once('.').ok_or(CursorError::Invalid)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| CursorError::Invalid)?;
        let genuine = keys.all().any(|key| {
            let mut mac = key.clone();
            feed(&mut mac, principal, payload);
            mac.verify_slice(&signature).is_ok()
        });
        if !genuine {
            return Err(CursorError::Invalid);
        }
        let payload = URL_SAFE_NO_PAD.decode(payload).map_err(|_| CursorError::Invalid)?;
        let cursor: Self = serde_json::from_slice(&payload).map_err(|_| CursorError::Invalid)?;
        if cursor.version != VERSION {
            return Err(CursorError::Invalid);
        }
        if now_ms > cursor.issued.saturating_mul(1_000).saturating_add(ttl_ms) {
            return Err(CursorError::Expired);
        }
        Ok(cursor)
    }
}

fn feed(mac: &mut impl Mac, principal: &str, payload: &str) {
    mac.update(b"cursor");
    mac.update(&(principal.len() as u64).to_le_bytes());
    mac.update(principal.as_bytes());
    mac.update(payload.as_bytes());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys(secret: &[u8]) -> Keys {
        Keys::new([secret]).unwrap()
    }

    const NOW: u64 = 1_760_000_000_000;
    const TTL: u64 = 600_000;

    #[test]
    fn a_cursor_is_about_115_characters_and_shows_no_query() {
        let text =
            Cursor::new("AbCdEfGhIjKlMnOp", 50, NOW).sign(&keys(b"0123456789abcdef"), "alice");
        assert!((100..=120).contains(&text.len()), "{} {text}", text.len());
    }

    #[test]
    fn own_cursors_verify_until_they_expire() {
        let keys = keys(b"0123456789abcdef");
        let cursor = Cursor::new("snapshot", 7, NOW);
        let text = cursor.sign(&keys, "alice");
        assert_eq!(Cursor::verify(&text, &keys, "alice", NOW + TTL, TTL), Ok(cursor));
        assert_eq!(
            Cursor::verify(&text, &keys, "alice", NOW + TTL + 1, TTL),
            Err(CursorError::Expired)
        );
        assert_eq!(
            Cursor::verify(&text, &keys, "bob", NOW + TTL + 1, TTL),
            Err(CursorError::Invalid)
        );
    }

    #[test]
    fn keys_rotate_without_breaking_cursors() {
        let text = Cursor::new("snapshot", 7, NOW).sign(&keys(b"old old old old old"), "");
        let rotated =
            Keys::new([b"new new new new new".as_slice(), b"old old old old old"]).unwrap();
        assert!(Cursor::verify(&text, &rotated, "", NOW, TTL).is_ok());
        assert_eq!(
            Cursor::verify(&text, &keys(b"new new new new new"), "", NOW, TTL),
            Err(CursorError::Invalid)
        );
    }

    proptest! {
        #[test]
        fn forged_cursors_are_refused(at in 0usize..110, flip in 1u8..=255, garbage in "\\PC{0,200}") {
            let keys = keys(b"0123456789abcdef");
            let mut forged = Cursor::new("snapshotsnapshot", 50, NOW).sign(&keys, "alice").into_bytes();
            let at = at % forged.len();
            forged[at] ^= flip;
            let forged = String::from_utf8_lossy(&forged).into_owned();
            // Base64 without padding has spare bits in its last character: there the same signature has several spellings.
            let verdict = Cursor::verify(&forged, &keys, "alice", NOW, TTL);
            prop_assert!(verdict == Err(CursorError::Invalid) || at + 1 >= forged.trim().len());
            prop_assert_eq!(Cursor::verify(&garbage, &keys, "alice", NOW, TTL), Err(CursorError::Invalid));
        }
    }
}
