//! Words and letters that name severities.

use super::severity_level::Severity;

/// The length of the longest word that names a severity, in bytes.
pub(super) const MAX_WORD_BYTES: usize = 13;

/// Returns the severity that a word names, ignoring case. `None` for other words.
#[must_use]
#[inline(never)]
pub fn severity_of_word(word: &[u8]) -> Option<Severity> {
    // Most words of a line begin with other letters.
    if !b"efcspawidtvn".contains(&(word.first()? | 0x20)) {
        return None;
    }
    match lower_case(word)?.get(..word.len())? {
        b"error" | b"erro" | b"eror" | b"err" | b"errs" | b"fatal" | b"fata" | b"ftl"
        | b"critical" | b"crit" | b"severe" | b"panic" | b"dpanic" | b"pani" | b"emerg"
        | b"emergency" | b"emrg" | b"alert" | b"alrt" | b"fail" | b"fault" => Some(Severity::Error),
        b"warn" | b"warning" | b"wrn" | b"wng" | b"wrng" => Some(Severity::Warn),
        b"info" | b"inf" | b"information" | b"informational" | b"debug" | b"debu" | b"dbg"
        | b"dbug" | b"trace" | b"trce" | b"trc" | b"verbose" | b"vrb" | b"notice" | b"noti"
        | b"notification" | b"fine" | b"finer" | b"finest" | b"default" => Some(Severity::Other),
        _ => None,
    }
}

/// Returns the severity for an ambiguous word, such as `failed` or `note`. `None` for other words.
pub(super) fn severity_of_weak_word(word: &[u8]) -> Option<Severity> {
    match lower_case(word)?.get(..word.len())? {
        b"failure" | b"failed" => Some(Severity::Error),
        b"log" | b"note" | b"config" | b"system" | b"detail" | b"hint" | b"statement"
        | b"context" | b"success" => Some(Severity::Other),
        _ => None,
    }
}

/// Returns the severity for a word that names one only among severities: an alarm of
/// telecommunications (ITU-T X.733), a risk, or an unusual abbreviation. `None` for other words.
pub(super) fn severity_of_contextual_word(word: &[u8]) -> Option<Severity> {
    match lower_case(word)?.get(..word.len())? {
        b"major" | b"high" | b"exc" => Some(Severity::Error),
        b"minor" | b"medium" | b"moderate" | b"war" | b"caution" => Some(Severity::Warn),
        b"normal" | b"low" | b"cleared" | b"clear" | b"indeterminate" | b"not" | b"status"
        | b"action" | b"audit" | b"message" => Some(Severity::Other),
        _ => None,
    }
}

/// Returns the severity of a single letter, as in logs of Android and klog. `None` for other
/// letters.
pub(super) fn severity_of_letter(letter: u8) -> Option<Severity> {
    match letter {
        b'E' | b'F' | b'C' => Some(Severity::Error),
        b'W' => Some(Severity::Warn),
        b'I' | b'D' | b'V' | b'T' | b'N' => Some(Severity::Other),
        _ => None,
    }
}

/// Returns a word in lower case, followed by zeros. `None` if it is too short or too long to name
/// a severity.
fn lower_case(word: &[u8]) -> Option<[u8; MAX_WORD_BYTES]> {
    let mut lower = [0; MAX_WORD_BYTES];
    for (to, from) in lower.iter_mut().zip(word) {
        *to = from.to_ascii_lowercase();
    }
    (3..=MAX_WORD_BYTES).contains(&word.len()).then_some(lower)
}
