//! The short format of cursors.
//!
//! Layout: nine bytes of the snapshot's name; two bytes of the minute of issue; a byte with one bit
//! for each of six fields; each present field as a LEB128 number; six bytes of a MAC.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use sha2::Sha256;

use super::key::{Keys, feed};

/// The length of a snapshot's name in bytes: 12 characters of base64.
const NAME_BYTES: usize = 9;
/// The length of the MAC in bytes. With 10^9 guesses, the chance that one passes is 1 in 280,000,
/// and it then names an arbitrary snapshot.
const MAC_BYTES: usize = 6;
/// The maximum length of a cursor in characters. Longer texts are not decoded.
const MAX_CHARS: usize = 120;
/// The number of fields of a cursor that hold positions and sizes.
const FIELDS: usize = 6;
/// The MAC in placeholders.
const PLACEHOLDER_MAC: [u8; MAC_BYTES] = [0x96, 0xbd, 0xa4, 0x17, 0x57, 0xe5];
/// The domain separator of the MAC. The signed format has none, and its payload never begins with
/// this one.
const DOMAIN: &[u8] = b"short:";

/// The content of a cursor in the short format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ShortCursor {
    name: [u8; NAME_BYTES],
    /// The minute of issue since 1970, modulo 65,536, which is 45 days.
    pub(super) minute: u16,
    /// Positions and sizes, in the order of the cursor's fields.
    pub(super) fields: [u64; FIELDS],
}

impl ShortCursor {
    /// Creates a cursor. `issued` is in seconds since 1970. `None` if `snapshot` is not a name of
    /// twelve characters.
    pub(super) fn new(snapshot: &str, fields: [u64; FIELDS], issued: u64) -> Option<Self> {
        let name = URL_SAFE_NO_PAD.decode(snapshot).ok()?.try_into().ok()?;
        Some(Self { name, minute: minute(issued), fields })
    }

    /// Returns the name of the snapshot.
    pub(super) fn snapshot(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.name)
    }

    /// Returns the cursor as text, authenticated with `key` and bound to `principal`.
    pub(super) fn seal(&self, key: &Hmac<Sha256>, principal: &str) -> String {
        let mut bytes = self.to_bytes();
        let mac = authenticate(key, principal, &bytes).finalize().into_bytes();
        bytes.extend(mac.iter().take(MAC_BYTES));
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Returns a text of the cursor's form, with a MAC that no key produces.
    pub(super) fn placeholder(&self) -> String {
        let mut bytes = self.to_bytes();
        bytes.extend(PLACEHOLDER_MAC);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Verifies and parses a cursor. Checks the MAC in constant time before it parses anything.
    /// `None` if the cursor is invalid.
    pub(super) fn open(text: &str, keys: &Keys, principal: &str) -> Option<Self> {
        if text.len() > MAX_CHARS {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (body, mac) = bytes.split_at_checked(bytes.len().checked_sub(MAC_BYTES)?)?;
        let is_genuine = keys
            .all()
            .any(|key| authenticate(key, principal, body).verify_truncated_left(mac).is_ok());
        is_genuine.then(|| Self::from_bytes(body)).flatten()
    }

    /// Returns true if a text has the form of a cursor, genuine or not.
    pub(super) fn is_like(text: &str) -> bool {
        let bytes = if text.len() > MAX_CHARS { None } else { URL_SAFE_NO_PAD.decode(text).ok() };
        let length = bytes.as_ref().and_then(|bytes| bytes.len().checked_sub(MAC_BYTES));
        let body = bytes.as_deref().zip(length).and_then(|(bytes, length)| bytes.get(..length));
        // Only one spelling of a number is written.
        body.is_some_and(|body| Self::from_bytes(body).is_some_and(|read| read.to_bytes() == body))
    }

    fn from_bytes(body: &[u8]) -> Option<Self> {
        let (name, rest) = body.split_first_chunk::<NAME_BYTES>()?;
        let (minute, rest) = rest.split_first_chunk::<2>()?;
        let (present, mut rest) = rest.split_first()?;
        let mut fields = [0; FIELDS];
        for (at, field) in fields.iter_mut().enumerate() {
            if present >> at & 1 == 1 {
                (*field, rest) = read_number(rest)?;
            }
        }
        rest.is_empty().then_some(Self { name: *name, minute: u16::from_le_bytes(*minute), fields })
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.name.to_vec();
        bytes.extend(self.minute.to_le_bytes());
        let present =
            self.fields.iter().rev().fold(0, |bits, field| bits << 1 | u8::from(*field > 0));
        bytes.push(present);
        for field in self.fields.iter().filter(|field| **field > 0) {
            write_number(&mut bytes, *field);
        }
        bytes
    }
}

fn authenticate(key: &Hmac<Sha256>, principal: &str, body: &[u8]) -> Hmac<Sha256> {
    let mut mac = key.clone();
    feed(&mut mac, principal, &[DOMAIN, body].concat());
    mac
}

/// Returns `issued` (seconds since 1970) as minutes, rounded up, modulo 2^16. Rounding up prevents
/// early expiry.
fn minute(issued: u64) -> u16 {
    (issued.div_ceil(60) & 0xFFFF) as u16
}

/// Returns the time of issue in seconds since 1970: the time within 22 days of `now` that has this
/// minute.
pub(super) fn issued(minute_of_issue: u16, now: u64) -> u64 {
    // The difference to now, from -32,768 to 32,767 minutes.
    let difference = minute_of_issue.wrapping_sub(minute(now)) as i16;
    (now.div_ceil(60) * 60).saturating_add_signed(i64::from(difference) * 60)
}

/// Appends a number as LEB128: seven bits per byte, the lowest first.
fn write_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number > 0x7F {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Reads a LEB128 number. Returns it with the bytes after it. `None` if it has no end in ten bytes.
/// Bits above the 64th are dropped.
fn read_number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0_u64;
    for (at, byte) in bytes.iter().enumerate().take(10) {
        number |= u64::from(byte & 0x7F).checked_shl(7 * u32::try_from(at).ok()?)?;
        if byte & 0x80 == 0 {
            return Some((number, bytes.get(at + 1..)?));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use hmac::KeyInit;
    use proptest::prelude::*;

    use super::*;

    const SECRET: &[u8] = b"0123456789abcdef";

    proptest! {
        #[test]
        fn every_cursor_is_read_as_it_was_written(
            name: [u8; NAME_BYTES],
            minute: u16,
            fields: [u64; FIELDS],
            present: [bool; FIELDS],
        ) {
            let mut fields = fields;
            for (field, present) in fields.iter_mut().zip(present) {
                *field *= u64::from(present);
            }
            let cursor = ShortCursor { name, minute, fields };
            let text = cursor.seal(&Hmac::new_from_slice(SECRET).unwrap(), "alice");
            let keys = Keys::new([SECRET]).unwrap();
            prop_assert_eq!(ShortCursor::open(&text, &keys, "alice"), Some(cursor));
            prop_assert_eq!(ShortCursor::open(&text, &keys, "bob"), None);
        }
    }

    #[test]
    fn minute_of_issue_is_found_near_now() {
        let now = 1_790_000_030;
        for age in [0, 1, 59, 60, 600, 86_400, 20 * 86_400] {
            let found = issued(minute(now - age), now);
            assert!((now - age..now - age + 60).contains(&found), "{age}: {found}");
        }
        assert!((now + 300..now + 360).contains(&issued(minute(now + 300), now)));
    }
}
