//! Cursors, in two formats.
//!
//! The short format is base64url without padding, about 28 characters. It has the snapshot's name,
//! the position, the minute of issue, and six bytes of a MAC. The signed format is
//! `base64url(payload JSON) "." base64url(HMAC-SHA256)`, about 115 characters, and can hold the
//! upstream call to repeat.
//!
//! Both MACs cover all of the cursor and the principal. The snapshot's name covers the endpoint,
//! because its first part is a keyed tag of principal and endpoint. A cursor therefore works only
//! with the tool that issued it and with `context_guard_read`.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::Mac as _;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::key::{Keys, feed};
use super::short::{self, ShortCursor};
use crate::encoding::CursorFormat;

const VERSION: u8 = 1;
/// The maximum difference between the clocks of two guards, in milliseconds.
const MAX_CLOCK_DIFFERENCE_MS: u64 = 60_000;
/// The length of the MAC of the signed format, in bytes.
const MAC_BYTES: usize = 32;
/// The name of the snapshot in placeholders.
const PLACEHOLDER_SNAPSHOT: &str = "mQ6wgRwu_JWg";
/// The time of issue in placeholders: ten digits, as from 2001 to 2286.
const PLACEHOLDER_TIME: u64 = 2_932_642_020;
/// The MAC in placeholders.
const PLACEHOLDER_SIGNATURE: &str = "96MbpFNZgxVw0br1AGZMGenXu4Z8RxFetu_8XOq4B6E";

/// The value of [`Cursor::whole`] with which a selection of fields continues with complete records.
pub const ALL_FIELDS: u64 = 2;

/// A position in a stored answer (a snapshot), from which a later call continues to read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    #[serde(rename = "v")]
    pub(crate) version: u8,
    /// The name of the snapshot.
    #[serde(rename = "s")]
    pub snapshot: String,
    /// The position at which the next part starts: the number of a list item, or a byte offset in a
    /// text.
    #[serde(rename = "o")]
    pub offset: u64,
    /// The number of bytes of the item at `offset` that were already shown, if it is larger than a
    /// page.
    #[serde(rename = "b", default, skip_serializing_if = "is_zero")]
    pub within: u64,
    /// The number of items per page, if the caller requested one. 0 for the default of the policy.
    #[serde(rename = "l", default, skip_serializing_if = "is_zero")]
    pub limit: u64,
    /// The byte offset at which the requested range of a text ends. 0 for the end of the text.
    #[serde(rename = "z", default, skip_serializing_if = "is_zero")]
    pub end: u64,
    /// If the previous page was condensed, the number of its first item plus one, so that
    /// `fields=all` can show that page again in full. Otherwise 0.
    #[serde(rename = "f", default, skip_serializing_if = "is_zero")]
    pub first: u64,
    /// 1 if later parts must be shown without condensing, [`ALL_FIELDS`] if they also have the
    /// fields that a selection left out, otherwise 0.
    #[serde(rename = "w", default, skip_serializing_if = "is_zero")]
    pub whole: u64,
    /// The upstream call to repeat. `None` if the answer is stored.
    #[serde(rename = "r", default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<Replay>,
    /// Time of issue in seconds since 1970, rounded up. The short format rounds it up to minutes.
    #[serde(rename = "t")]
    pub issued: u64,
}

/// A tool call that a cursor repeats. The name of the cursor's snapshot is a keyed digest of the
/// expected answer.
///
/// The guard's arguments are stored separately, because the guard may no longer know the tool's own
/// argument names later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replay {
    /// The name of the upstream; may be empty.
    #[serde(rename = "u", default)]
    pub upstream: String,
    /// The name of the tool.
    #[serde(rename = "n")]
    pub name: String,
    /// The verbatim JSON of the tool's own arguments.
    #[serde(rename = "a")]
    pub arguments: String,
    /// The guard's arguments as a JSON object, with the names and values that
    /// [`crate::mcp::arguments::split`] found. Empty if the call had none.
    #[serde(rename = "g")]
    pub guard_arguments: String,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The reason why the guard does not serve a cursor. Its message is for the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CursorError {
    /// The cursor is malformed, forged, or of another principal or endpoint. One error covers all
    /// cases, so that a caller cannot probe for the cursors of others.
    #[error(
        "cursor_invalid: this cursor was not issued here for this tool and caller. Repeat the original call without a cursor to start again."
    )]
    Invalid,
    /// The cursor belongs to the caller, but has expired.
    #[error(
        "cursor_expired: this cursor is too old, and what it led to is no longer kept. Repeat the original call without a cursor to start again."
    )]
    Expired,
    /// The cursor belongs to the caller, but was issued more than a minute after the current time
    /// (short format: two minutes), because a clock was set back.
    #[error(
        "cursor_expired: the clock of this guard was set back since it issued this cursor. Repeat the original call without a cursor to start again."
    )]
    Future,
    /// The cursor belongs to the caller and is not too old, but the store does not have its data.
    #[error(
        "cursor_expired: this cursor is not too old, but what it led to is no longer kept: the store was full, was restarted, or could not be reached when it was cut. Repeat the original call without a cursor to start again."
    )]
    Gone,
    /// The cursor belongs to the caller, but the store cannot be reached.
    #[error(
        "cursor_unavailable: what this cursor leads to cannot be reached now. Try again in a moment, or repeat the original call without a cursor to start again."
    )]
    Unavailable,
    /// The cursor belongs to the caller, but the repeated upstream call returned another answer.
    #[error(
        "data_changed: what this cursor leads to is no longer what the first page was cut from. Repeat the original call without a cursor to start again."
    )]
    Changed,
}

impl CursorError {
    /// Returns the code of the error, which is the prefix of its message.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Invalid => "cursor_invalid",
            Self::Expired | Self::Future | Self::Gone => "cursor_expired",
            Self::Unavailable => "cursor_unavailable",
            Self::Changed => "data_changed",
        }
    }
}

impl Cursor {
    /// Creates a cursor to position `offset` of a snapshot. `now_ms` is the time of issue, in
    /// milliseconds since 1970.
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
            // Rounded up, so that no cursor expires early.
            issued: now_ms.div_ceil(1_000),
        }
    }

    /// Returns the cursor as text in a format, authenticated with the first key and bound to
    /// `principal`. A cursor with an upstream call to repeat is always in the signed format. So is
    /// one whose snapshot name does not have twelve characters.
    #[must_use]
    pub fn sign(&self, format: CursorFormat, keys: &Keys, principal: &str) -> String {
        let Some(key) = keys.all().next() else { return String::new() };
        if let Some(short) = self.short(format) {
            return short.seal(key, principal);
        }
        let payload = self.payload();
        let mut mac = key.clone();
        feed(&mut mac, principal, payload.as_bytes());
        let signature = URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes());
        format!("{payload}.{signature}")
    }

    /// Returns a text of the cursor's length in a format, with other digits for random and
    /// time-dependent parts. No key verifies it.
    ///
    /// Results are priced with it, because the number of tokens depends on the digits: 98 of 100
    /// signed cursors have 72 to 83 tokens of o200k. With the real cursor, two equal calls would
    /// show different excerpts.
    #[must_use]
    pub fn placeholder(&self, format: CursorFormat) -> String {
        let snapshot =
            PLACEHOLDER_SNAPSHOT.chars().cycle().take(self.snapshot.len()).collect::<String>();
        let cursor = Self { snapshot, issued: PLACEHOLDER_TIME, ..self.clone() };
        match cursor.short(format) {
            Some(short) => short.placeholder(),
            None => format!("{}.{PLACEHOLDER_SIGNATURE}", cursor.payload()),
        }
    }

    /// Returns the cursor in the short format. `None` if `format` is another one, or if the short
    /// format cannot hold the cursor.
    fn short(&self, format: CursorFormat) -> Option<ShortCursor> {
        if format != CursorFormat::Short || self.replay.is_some() {
            return None;
        }
        ShortCursor::new(
            &self.snapshot,
            [self.offset, self.within, self.limit, self.end, self.first, self.whole],
            self.issued,
        )
    }

    fn payload(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    /// Verifies and parses the text of a cursor. The MAC is checked in constant time before
    /// anything is parsed.
    ///
    /// # Errors
    /// Returns `Invalid` for a malformed or forged cursor, and for one of another principal.
    /// Returns `Expired` or `Future` only for cursors of this principal. The endpoint is not
    /// checked here, but with [`Keys::owns`].
    pub fn verify(
        text: &str,
        keys: &Keys,
        principal: &str,
        now_ms: u64,
        ttl_ms: u64,
    ) -> Result<Self, CursorError> {
        let text = text.trim();
        let (cursor, rounding_ms) = match text.split_once('.') {
            Some((payload, signature)) => {
                (Self::open_signed(payload, signature, keys, principal), 0)
            }
            None => (Self::open_short(text, keys, principal, now_ms), 60_000),
        };
        let cursor = cursor.ok_or(CursorError::Invalid)?;
        let issued_ms = cursor.issued.saturating_mul(1_000);
        if issued_ms > now_ms.saturating_add(MAX_CLOCK_DIFFERENCE_MS + rounding_ms) {
            // Its age would remain unknown, and it would outlive its lifetime.
            return Err(CursorError::Future);
        }
        if now_ms > issued_ms.saturating_add(ttl_ms) {
            return Err(CursorError::Expired);
        }
        Ok(cursor)
    }

    /// Returns true if a text has the form of a cursor, genuine or not.
    #[must_use]
    pub fn is_like(text: &str) -> bool {
        let Some((payload, signature)) = text.split_once('.') else {
            return ShortCursor::is_like(text);
        };
        let is_signed =
            URL_SAFE_NO_PAD.decode(signature).is_ok_and(|signature| signature.len() == MAC_BYTES);
        let parsed = || {
            let payload = URL_SAFE_NO_PAD.decode(payload).ok()?;
            serde_json::from_slice::<Self>(&payload).ok()
        };
        is_signed && parsed().is_some()
    }

    /// Verifies and parses a cursor in the signed format. `None` if it is invalid.
    fn open_signed(payload: &str, signature: &str, keys: &Keys, principal: &str) -> Option<Self> {
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        let is_genuine = keys.all().any(|key| {
            let mut mac = key.clone();
            feed(&mut mac, principal, payload.as_bytes());
            mac.verify_slice(&signature).is_ok()
        });
        let payload = is_genuine.then(|| URL_SAFE_NO_PAD.decode(payload).ok()).flatten()?;
        let cursor: Self = serde_json::from_slice(&payload).ok()?;
        (cursor.version == VERSION).then_some(cursor)
    }

    /// Verifies and parses a cursor in the short format. `None` if it is invalid.
    fn open_short(text: &str, keys: &Keys, principal: &str, now_ms: u64) -> Option<Self> {
        let short = ShortCursor::open(text, keys, principal)?;
        let [offset, within, limit, end, first, whole] = short.fields;
        let snapshot = short.snapshot();
        let issued = short::issued(short.minute, now_ms / 1_000);
        let cursor = Self::new(&snapshot, offset, issued.saturating_mul(1_000));
        Some(Self { within, limit, end, first, whole, ..cursor })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::snapshot::Scope;
    use crate::tokens::{Estimator, Profile};

    fn keys(secret: &[u8]) -> Keys {
        Keys::new([secret]).unwrap()
    }

    const SHORT: CursorFormat = CursorFormat::Short;
    const SIGNED: CursorFormat = CursorFormat::Signed;
    const FORMATS: [CursorFormat; 2] = [SHORT, SIGNED];

    /// The name of a snapshot.
    const NAME: &str = "AbCdEfGhIjKl";
    /// A whole minute, so that both formats represent it exactly.
    const NOW: u64 = 1_760_000_040_000;
    const TTL: u64 = 600_000;

    #[test]
    fn cursors_have_the_documented_length() {
        let sign =
            |format| Cursor::new(NAME, 50, NOW).sign(format, &keys(b"0123456789abcdef"), "a");
        assert!((100..=120).contains(&sign(SIGNED).len()), "{}", sign(SIGNED));
        assert!((25..=28).contains(&sign(SHORT).len()), "{}", sign(SHORT));
    }

    #[test]
    fn placeholder_costs_as_much_as_most_cursors() {
        let profiles = [Profile::O200k, Profile::Cl100k, Profile::ClaudeLegacy];
        for profile in profiles.into_iter().filter(|profile| profile.is_built_in()) {
            let estimator = Estimator { profile, ..Estimator::default() };
            for (format, offset) in FORMATS
                .iter()
                .flat_map(|format| [5, 50, 500, 5_000].map(|offset| (*format, offset)))
            {
                let mut costlier = 0;
                for number in 0..2_000_u64 {
                    let keys = keys(format!("secret of 16 bytes {number}").as_bytes());
                    let scope = Scope { principal: "alice", endpoint: "server::tool" };
                    let name = keys.snapshot(scope, 0, 0);
                    let cursor = Cursor::new(&name, offset, NOW + number * 77_777_000);
                    let (text, placeholder) =
                        (cursor.sign(format, &keys, ""), cursor.placeholder(format));
                    assert_eq!(text.len(), placeholder.len());
                    let (real, priced) =
                        (estimator.cost(text.as_bytes()), estimator.cost(placeholder.as_bytes()));
                    costlier += u32::from(real > priced);
                }
                assert!(
                    (100..=900).contains(&costlier),
                    "{profile:?} {format:?} {offset}: {costlier} cost more"
                );
            }
        }
    }

    #[test]
    fn placeholder_depends_on_the_position_only() {
        let cursor = |name, now_ms| Cursor::new(name, 50, now_ms);
        let keys = keys(b"0123456789abcdef");
        for format in FORMATS {
            let text = cursor(NAME, NOW).placeholder(format);
            assert_eq!(text, cursor("0123456789-_", NOW + TTL).placeholder(format));
            assert_eq!(Cursor::verify(&text, &keys, "", NOW, TTL), Err(CursorError::Invalid));
        }
    }

    #[test]
    fn own_cursors_verify_until_they_expire() {
        let keys = keys(b"0123456789abcdef");
        for format in FORMATS {
            let cursor = Cursor { limit: 9, first: 3, ..Cursor::new(NAME, 70_000, NOW) };
            let text = cursor.sign(format, &keys, "alice");
            let verify = |by, at| Cursor::verify(&text, &keys, by, at, TTL);
            assert_eq!(verify("alice", NOW + TTL), Ok(cursor));
            assert_eq!(verify("alice", NOW + TTL + 1), Err(CursorError::Expired));
            assert_eq!(verify("bob", NOW + TTL + 1), Err(CursorError::Invalid));
        }
    }

    #[test]
    fn form_of_cursors_is_recognized() {
        for format in FORMATS {
            for offset in [0, 1, 300, 70_000] {
                let cursor = Cursor { limit: offset / 7, ..Cursor::new(NAME, offset, NOW) };
                let text = cursor.sign(format, &keys(b"0123456789abcdef"), "alice");
                assert!(Cursor::is_like(&text), "{text}");
                assert!(
                    !Cursor::is_like(&format!("{text}x"))
                        && !Cursor::is_like(text.get(1..).unwrap())
                );
            }
        }
        for text in [
            "",
            "Pet",
            "schema.json",
            "https://json-schema.org/draft/2020-12/schema",
            "CreateUserRequestWithDetails",
            "definitions.AccountHolderDetail",
            "0a1b2c3d4e5f60718293a4b5c6d7e8f9",
            "f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
        ] {
            assert!(!Cursor::is_like(text), "{text}");
        }
    }

    #[test]
    fn short_cursors_live_no_shorter() {
        let keys = keys(b"0123456789abcdef");
        for second in 0..120_000 {
            let issued = NOW + second * 977;
            let text = Cursor::new(NAME, 7, issued).sign(SHORT, &keys, "");
            let verify = |at| Cursor::verify(&text, &keys, "", at, TTL).map(|_| ());
            assert_eq!(verify(issued), Ok(()));
            assert_eq!(verify(issued + TTL), Ok(()));
            assert_eq!(verify(issued + TTL + 61_000), Err(CursorError::Expired));
        }
    }

    #[test]
    fn cursors_from_the_future_are_refused() {
        let keys = keys(b"0123456789abcdef");
        let verify = |format, issued| {
            let text = Cursor::new(NAME, 7, issued).sign(format, &keys, "alice");
            Cursor::verify(&text, &keys, "alice", NOW, TTL).map(|_| ())
        };
        assert_eq!(verify(SIGNED, NOW + MAX_CLOCK_DIFFERENCE_MS), Ok(()));
        assert_eq!(verify(SIGNED, NOW + MAX_CLOCK_DIFFERENCE_MS + 1_000), Err(CursorError::Future));
        assert_eq!(verify(SIGNED, u64::MAX), Err(CursorError::Future));
        assert_eq!(verify(SHORT, NOW + MAX_CLOCK_DIFFERENCE_MS), Ok(()));
        assert_eq!(verify(SHORT, NOW + 3 * 60_000), Err(CursorError::Future));
    }

    #[test]
    fn keys_rotate_without_breaking_cursors() {
        for format in FORMATS {
            let text = Cursor::new(NAME, 7, NOW).sign(format, &keys(b"old old old old old"), "");
            let rotated =
                Keys::new([b"new new new new new".as_slice(), b"old old old old old"]).unwrap();
            assert!(Cursor::verify(&text, &rotated, "", NOW, TTL).is_ok());
            assert_eq!(
                Cursor::verify(&text, &keys(b"new new new new new"), "", NOW, TTL),
                Err(CursorError::Invalid)
            );
        }
    }

    #[test]
    fn replay_cursors_are_in_the_signed_format() {
        let call = Replay {
            upstream: "u".into(),
            name: "n".into(),
            arguments: "{}".into(),
            guard_arguments: "{\"limit\":5}".into(),
        };
        let cursor = Cursor { replay: Some(call), ..Cursor::new(NAME, 7, NOW) };
        let keys = keys(b"0123456789abcdef");
        let text = cursor.sign(SHORT, &keys, "");
        assert_eq!(Cursor::verify(&text, &keys, "", NOW, TTL), Ok(cursor));
    }

    proptest! {
        #[test]
        fn forged_cursors_are_rejected(
            at in 0usize..110,
            flip in 1u8..=255,
            is_short: bool,
            garbage in "\\PC{0,200}",
        ) {
            let keys = keys(b"0123456789abcdef");
            let format = if is_short { SHORT } else { SIGNED };
            let mut forged = Cursor::new(NAME, 50, NOW).sign(format, &keys, "alice").into_bytes();
            let at = at % forged.len();
            forged[at] ^= flip;
            let forged = String::from_utf8_lossy(&forged).into_owned();
            // The last character of base64 without padding has unused bits, so a flip there may
            // decode to the same signature.
            let verdict = Cursor::verify(&forged, &keys, "alice", NOW, TTL);
            prop_assert!(verdict == Err(CursorError::Invalid) || at + 1 >= forged.trim().len());
            let verdict = Cursor::verify(&garbage, &keys, "alice", NOW, TTL);
            prop_assert_eq!(verdict, Err(CursorError::Invalid));
        }
    }
}
