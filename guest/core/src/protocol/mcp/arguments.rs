//! The guard's own arguments on tools: told apart from the tool's, read, and taken out before the call goes on.

use serde_json::Value;

use super::facts::ToolFacts;
use crate::json::Span;
use crate::json::scan::Scanner;
use crate::json::text::Form;
use crate::policy::Limits;
use crate::shape::plan::Wish;

/// Plain names; each is also taken as `_guard_` + name and as a member of `_guard`. Their order is that of [`ToolFacts::own`].
pub const NAMES: [&str; 5] = ["cursor", "limit", "pages", "startLine", "endLine"];
/// The object that may hold all of them.
pub const OBJECT: &str = "_guard";
const PREFIX: &str = "_guard_";

/// What the guard was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guarded {
    /// A cursor.
    pub cursor: Option<String>,
    /// Everything else.
    pub wish: Wish,
}

/// A call's arguments, sorted.
#[derive(Debug, Default)]
pub struct Sorted {
    /// The guard's.
    pub guarded: Guarded,
    /// The arguments without them, where any were there.
    pub rest: Option<Vec<u8>>,
}

/// Sorts the arguments at `span` of `bytes`. `facts` are none for a tool that is not known.
///
/// # Errors
/// With a sentence for the caller, where one of the guard's has a value that cannot be.
pub fn sort(
    bytes: &[u8],
    span: &Span,
    facts: Option<&ToolFacts>,
    limits: &Limits,
) -> Result<Sorted, String> {
    let mut scanner = Scanner::starting_at(bytes, Form::Raw, span.start);
    let mut sorted = Sorted::default();
    let (mut kept, mut taken, mut wrong) = (Vec::new(), false, None);
    let scan = scanner.object(|scanner, key| {
        let value = scanner.skip()?;
        let name = scanner.decode(&key);
        match guarded_name(&name, facts, limits) {
            Some(guarded) => {
                taken = true;
                let value: Value =
                    serde_json::from_slice(scanner.bytes(&value)).unwrap_or(Value::Null);
                if let Err(reason) = sorted.guarded.set(guarded, &value, limits) {
                    wrong.get_or_insert(reason);
                }
            }
            None => kept.push(scanner.bytes(&(key.start - 1..value.end))),
        }
        Ok(())
    });
    if scan.is_err() || !taken {
        return Ok(Sorted::default());
    }
    sorted.rest = Some([b"{".as_slice(), &kept.join(&b','), b"}"].concat());
    match wrong {
        Some(reason) => Err(reason),
        None => Ok(sorted),
    }
}

/// The guard's name for an argument; none where it is the tool's.
fn guarded_name<'n>(name: &'n str, facts: Option<&ToolFacts>, limits: &Limits) -> Option<&'n str> {
    let position = |name: &str| NAMES.iter().position(|known| *known == name);
    if name == OBJECT {
        return Some(name);
    }
    if let Some(plain) = name.strip_prefix(PREFIX) {
        return position(plain).map(|_| plain);
    }
    let at = position(name)?;
    let free = facts.map_or(limits.plain_arguments, |facts| facts.own & (1 << at) == 0);
    free.then_some(name)
}

impl Guarded {
    /// Sets an argument of the guard by its plain name.
    ///
    /// # Errors
    /// With a sentence for the caller.
    pub fn set(&mut self, name: &str, value: &Value, limits: &Limits) -> Result<(), String> {
        match name {
            OBJECT => {
                let members =
                    value.as_object().ok_or("_guard must be an object, such as {\"limit\": 20}")?;
                for (name, value) in members {
                    if !NAMES.contains(&name.as_str()) {
                        return Err(format!(
                            "_guard has no member {name}; it takes {}",
                            NAMES.join(", ")
                        ));
                    }
                    self.set(name, value, limits)?;
                }
            }
            "cursor" => {
                let cursor = value.as_str().ok_or("invalid cursor format: a cursor is a string that an earlier answer gave as nextCursor")?;
                self.cursor = Some(cursor.to_owned());
            }
            "limit" => self.wish.limit = number(name, value, limits.max_page_size)?,
            "pages" => self.wish.pages = number(name, value, 100)?,
            "startLine" => self.wish.start_line = number(name, value, u64::MAX)?,
            _ => self.wish.end_line = number(name, value, u64::MAX)?,
        }
        if self.wish.end_line > 0 && self.wish.start_line > self.wish.end_line {
            return Err(format!(
                "startLine {} is after endLine {}",
                self.wish.start_line, self.wish.end_line
            ));
        }
        Ok(())
    }
}

/// A whole number from 1 to `most`. Models write numbers as strings at times: those are taken too.
fn number(name: &str, value: &Value, most: u64) -> Result<u64, String> {
    let number = match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    match number {
        Some(number) if number > most => Err(format!("{name} exceeds maximum of {most}")),
        Some(number) if number > 0 => Ok(number),
        _ => Err(format!(
            "{name} must be a whole number from 1{}",
            if most == u64::MAX { String::new() } else { format!(" to {most}") }
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(arguments: &str, facts: Option<&ToolFacts>) -> Result<Sorted, String> {
        sort(arguments.as_bytes(), &(0..arguments.len()), facts, &Limits::default())
    }

    #[test]
    fn the_tools_own_parameters_stay() {
        let facts = ToolFacts { own: 0b10, ..ToolFacts::default() };
        let read = sorted(r#"{"limit":900, "cursor":"c","_guard_limit":7, "q":"x"}"#, Some(&facts))
            .unwrap();
        assert_eq!(read.rest.unwrap(), br#"{"limit":900,"q":"x"}"#);
        assert_eq!((read.guarded.cursor.as_deref(), read.guarded.wish.limit), (Some("c"), 7));
    }

    #[test]
    fn on_unknown_tools_only_prefixed_names_are_the_guards() {
        assert!(sorted(r#"{"limit":5,"cursor":"theirs"}"#, None).unwrap().rest.is_none());
        assert_eq!(sorted(r#"{"_guard":{"limit":5}}"#, None).unwrap().rest.unwrap(), b"{}");
    }

    #[test]
    fn wrong_values_are_named() {
        let known = ToolFacts::default();
        for (arguments, reason) in [
            (r#"{"limit":201}"#, "limit exceeds maximum of 200"),
            (r#"{"limit":0}"#, "limit must be a whole number from 1 to 200"),
            (r#"{"limit":-3}"#, "limit must be a whole number from 1 to 200"),
            (r#"{"limit":"many"}"#, "limit must be a whole number from 1 to 200"),
            (
                r#"{"cursor":5}"#,
                "invalid cursor format: a cursor is a string that an earlier answer gave as nextCursor",
            ),
            (r#"{"startLine":9,"endLine":3}"#, "startLine 9 is after endLine 3"),
        ] {
            assert_eq!(sorted(arguments, Some(&known)).unwrap_err(), reason);
        }
    }
}
