//! Names of fields in expressions, and the values that they have in records.

mod alike;
mod log;
mod path;
mod row;

pub(super) use self::path::FieldPath;
use self::row::is_record;
use super::known_fields::unknown;
use super::reader::{Reader, is_word_character};
use super::records::RecordSet;
use crate::json::outline::{NodeId, Outline};
use crate::json::scan::Kind;

/// The suffix of the name of a list whose elements are filtered.
const FILTER: &str = "[?]";

/// A segment of a field name, as the caller wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum NameSegment {
    /// A key. Several segments may be one key that contains dots.
    Key(String),
    /// The element of a list at this index. A negative index counts from the end.
    Index(i64),
}

/// A step from a value of a record to a value inside it. A list is passed by all of its elements,
/// unless the step is an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FieldStep {
    Key(String),
    Index(i64),
}

/// The name of a field in an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FieldName {
    segments: Vec<NameSegment>,
    /// The name as the caller wrote it.
    pub(super) verbatim: String,
}

impl FieldName {
    /// Reads a field name such as `price.total`, `labels[*].name`, `$.kind` or `"a b".c`.
    ///
    /// # Errors
    /// Returns a message for the caller if no name follows.
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, String> {
        reader.skip_space();
        let start = reader.position();
        let mut segments = Vec::new();
        // `$`, `@` and `.` are the record itself in other languages.
        let _ = reader.eat("$") || reader.eat("@.");
        loop {
            // `a?.b` and `a&.b`, as JavaScript and Ruby write paths through absent values.
            let is_optional = ["?.", "&."].iter().any(|sign| reader.rest().starts_with(sign));
            if (!segments.is_empty() && is_optional && reader.next().is_some()) || reader.eat(".") {
                continue;
            }
            if reader.peek() == Some('[') && !Self::is_slice(reader.rest()) {
                reader.next();
                segments.extend(Self::bracket(reader)?);
                continue;
            }
            if !segments.is_empty() && reader.peek().is_some_and(char::is_whitespace) {
                break;
            }
            if let Some(key) = reader.quoted()? {
                segments.push(NameSegment::Key(key));
                continue;
            }
            let word = Self::word(reader);
            if word.is_empty() {
                break;
            }
            let is_get = word == "get" && !segments.is_empty();
            let key = if is_get { Self::argument_of_get(reader) } else { None };
            segments.push(NameSegment::Key(key.unwrap_or(word)));
        }
        let verbatim = reader.since(start).to_owned();
        if segments.is_empty() && !matches!(verbatim.as_str(), "$" | "." | "@") {
            reader.reset(start);
            return Err(reader.error("the name of a field is expected here"));
        }
        if let Err(reason) = reader.check_variable(&verbatim) {
            reader.reset(start);
            return Err(reason);
        }
        let verbatim = match verbatim.strip_prefix("@.").filter(|_| reader.is_function()) {
            Some(name) => name.to_owned(),
            None => verbatim,
        };
        Ok(Self { segments, verbatim })
    }

    /// Reads `('key')`, the argument of Python's `get`. `None`, with nothing read, if something
    /// else is next.
    fn argument_of_get(reader: &mut Reader<'_>) -> Option<String> {
        let mut rest = reader.clone();
        let is_call = rest.rest().starts_with('(') && rest.eat("(");
        let key = rest.quoted().ok().flatten().filter(|_| is_call && rest.eat(")"))?;
        *reader = rest;
        Some(key)
    }

    /// Returns true if a text begins with a slice of characters, such as `[:7]`.
    fn is_slice(text: &str) -> bool {
        let inside = text.get(1..).and_then(|rest| rest.split_once(']'));
        inside.is_some_and(|(inside, _)| {
            inside.len() > 1
                && inside.contains(':')
                && inside.chars().all(|c| c.is_ascii_digit() || c == ':')
        })
    }

    /// Reads the rest of a name after an opening bracket. `None` if it adds no segment, such as
    /// `*]`.
    fn bracket(reader: &mut Reader<'_>) -> Result<Option<NameSegment>, String> {
        let key = reader.quoted()?;
        let mut inside = String::new();
        while let Some(next) = reader.peek().filter(|next| *next != ']') {
            inside.push(next);
            reader.next();
        }
        if !reader.eat("]") {
            return Err(reader.error("a closing bracket is missing"));
        }
        match (key, inside.trim()) {
            (Some(key), "") => Ok(Some(NameSegment::Key(key))),
            (None, "" | "*" | ":") => Ok(None),
            (None, index) => {
                // Ruby writes `[:name]`.
                let symbol = index
                    .strip_prefix(':')
                    .filter(|name| name.starts_with(|c: char| c.is_alphabetic() || c == '_'));
                let index = symbol.unwrap_or(index);
                // SQL Server writes `[Body Mass (g)]`.
                let is_key = index.chars().all(|c| is_word_character(c) || " ()/%.#-".contains(c));
                match index.parse() {
                    Ok(index) => Ok(Some(NameSegment::Index(index))),
                    Err(_) if is_key => Ok(Some(NameSegment::Key(index.to_owned()))),
                    Err(_) => {
                        Err(reader.error(&format!("[{index}] is neither an index, [*] nor a key")))
                    }
                }
            }
            (Some(_), _) => Err(reader.error("a bracket holds one key, one index or *")),
        }
    }

    fn word(reader: &mut Reader<'_>) -> String {
        let mut word = String::new();
        while let Some(next) = reader.peek() {
            // `-`, `/`, `@`, `#` and `$` occur inside keys.
            let inside = matches!(next, '-' | '/' | '@' | '#' | '$');
            // `$=` is an operator.
            let is_operator = reader.rest().starts_with("$=");
            let joins = next == ':' && !word.is_empty() && reader.is_prefix_end(is_sign);
            if is_operator || (!is_word_character(next) && !inside && !joins) {
                break;
            }
            word.push(next);
            reader.next();
        }
        word
    }

    /// Returns the keys of the name.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().filter_map(|segment| match segment {
            NameSegment::Key(key) => Some(key.as_str()),
            NameSegment::Index(_) => None,
        })
    }

    /// Creates a name with a single key.
    pub(super) fn of_key(key: &str) -> Self {
        Self { segments: vec![NameSegment::Key(key.to_owned())], verbatim: key.to_owned() }
    }

    /// Creates the name of a list whose elements are filtered.
    pub(super) fn of_filter(name: &str) -> Self {
        let name = name.strip_prefix("@.").unwrap_or(name);
        let keys = name.split('.').map(|key| NameSegment::Key(key.to_owned()));
        Self { segments: keys.collect(), verbatim: format!("{name}{FILTER}") }
    }

    /// Returns true if the name was created by [`Self::of_filter`].
    pub(super) fn is_filter(&self) -> bool {
        self.verbatim.ends_with(FILTER)
    }

    /// Splits off the last key, which may be the name of a method. `None` if the name has no other
    /// key.
    pub(super) fn split_last(mut self) -> Option<(Self, String)> {
        let Some(NameSegment::Key(last)) = self.segments.pop() else { return None };
        let verbatim = self.verbatim.strip_suffix(&last)?.trim_end_matches(['.', '?', '&']);
        self.verbatim = verbatim.to_owned();
        (!self.segments.is_empty()).then_some((self, last))
    }

    /// Splits off the first key, which may be the name of a record. `None` if the name has no other
    /// key.
    pub(super) fn split_first(&self) -> Option<(&str, Self)> {
        let Some((NameSegment::Key(first), rest)) = self.segments.split_first() else {
            return None;
        };
        let verbatim = self.verbatim.clone();
        let rest = Self { segments: rest.to_vec(), verbatim };
        (!rest.segments.is_empty()).then_some((first, rest))
    }

    /// Returns the name with the word `word` appended to its last key, as in `First Name`.
    pub(super) fn with_word(mut self, word: &str) -> Self {
        if let Some(NameSegment::Key(key)) = self.segments.last_mut() {
            *key = format!("{key} {word}");
        }
        self.verbatim = format!("{} {word}", self.verbatim);
        self
    }

    /// Returns the steps to the field in the records. A key may contain dots. Ignores the case of
    /// keys if no record has the field in the given case.
    ///
    /// # Errors
    /// Returns a message for the caller if no record has the field.
    pub(super) fn resolve(
        &self,
        records: &RecordSet<'_>,
        all: &[NodeId],
    ) -> Result<FieldPath, String> {
        self.find(records, all)
            .ok_or_else(|| unknown(records, all, self.verbatim.trim_end_matches(FILTER)))
    }

    /// Returns the steps to the field in the records. `None` if no record has it.
    pub(super) fn find(&self, records: &RecordSet<'_>, all: &[NodeId]) -> Option<FieldPath> {
        // The records may be values without fields.
        let is_scalar = |id: &NodeId| {
            records
                .outline
                .node(*id)
                .is_some_and(|node| matches!(node.kind, Kind::Scalar | Kind::String))
        };
        let has_scalars = all.iter().any(is_scalar);
        let is_value = matches!(self.verbatim.as_str(), "value" | "$" | "." | "@" | "item")
            || self.segments == [NameSegment::Key("@".to_owned())];
        if is_value && has_scalars {
            return Some(FieldPath::new(Vec::new()));
        }
        // The names of an answer's list are not part of its records.
        let list: Vec<NameSegment> =
            records.list_names().into_iter().map(NameSegment::Key).collect();
        let items = [NameSegment::Key("items".to_owned())];
        let strip = |prefix: &[NameSegment]| self.segments.strip_prefix(prefix);
        let of_record = || match self.segments.split_first() {
            Some((NameSegment::Key(first), rest)) if is_record(first, &list) => {
                Some(rest).filter(|rest| !rest.is_empty())
            }
            _ => None,
        };
        let within =
            strip(&list).filter(|_| !list.is_empty()).or_else(|| strip(&items)).or_else(of_record);
        for segments in [Some(self.segments.as_slice()), within].into_iter().flatten() {
            for fold in [false, true] {
                let mut found =
                    all.iter().filter_map(|id| resolve(&records.outline, *id, segments, fold));
                if let Some(mut steps) = found.next() {
                    steps.reverse();
                    return Some(FieldPath::new(steps));
                }
            }
        }
        let of_path = || {
            let segments = self.split_keys()?;
            let mut found = [false, true].into_iter().flat_map(|fold| {
                let segments = &segments;
                all.iter().filter_map(move |id| resolve(&records.outline, *id, segments, fold))
            });
            let mut steps = found.next()?;
            steps.reverse();
            Some(FieldPath::new(steps))
        };
        self.of_log(records, all).or_else(of_path)
    }

    /// Returns the segments with their keys split at the separators of other languages:
    /// `cost__amount` of Django, `orbit/@type` of XPath, `'cost.amount'` in quotes. `None` if it
    /// has none.
    fn split_keys(&self) -> Option<Vec<NameSegment>> {
        let mut segments = Vec::new();
        for segment in &self.segments {
            let NameSegment::Key(key) = segment else {
                segments.push(segment.clone());
                continue;
            };
            for part in key.split("__").flat_map(|part| part.split(['/', '.'])) {
                if part.is_empty() {
                    return None;
                }
                segments.push(NameSegment::Key(part.to_owned()));
            }
        }
        (segments.len() > self.segments.len()).then_some(segments)
    }
}

/// Returns true if an operator is next that cannot begin a value after a colon.
fn is_sign(reader: &mut Reader<'_>) -> bool {
    const SYMBOLS: [&str; 9] = ["=", "!=", "<", ">", "~", "^=", "$=", ":\"", ":'"];
    const WORDS: [&str; 12] = [
        "is null",
        "is not null",
        "in",
        "not in",
        "like",
        "not like",
        "contains",
        "matches",
        "has",
        "between",
        "startswith",
        "endswith",
    ];
    SYMBOLS.iter().any(|symbol| reader.eat(symbol)) || reader.keyword(&WORDS).is_some()
}

/// Returns the steps from a value to the field `segments`, in reverse order. Ignores the case of
/// keys if `fold`. `None` if the value has no such field.
fn resolve(
    outline: &Outline<'_>,
    id: NodeId,
    segments: &[NameSegment],
    fold: bool,
) -> Option<Vec<FieldStep>> {
    let Some((first, rest)) = segments.split_first() else { return Some(Vec::new()) };
    let node = outline.node(id)?;
    match (node.kind, first) {
        (Kind::Array, NameSegment::Index(index)) => {
            let mut steps = resolve(outline, element(outline, id, *index)?, rest, fold)?;
            steps.push(FieldStep::Index(*index));
            Some(steps)
        }
        (Kind::Array, NameSegment::Key(_)) => {
            outline.children(id).find_map(|(child, _)| resolve(outline, child, segments, fold))
        }
        (Kind::Object, NameSegment::Key(key)) => {
            let mut key = key.clone();
            let mut rest = rest;
            loop {
                let (name, child) = member(outline, id, &key, fold).unzip();
                let steps = child.and_then(|child| resolve(outline, child, rest, fold));
                if let (Some(mut steps), Some(name)) = (steps, name) {
                    steps.push(FieldStep::Key(name));
                    return Some(steps);
                }
                // A key with dots: `beta.kubernetes.io/os`.
                let (NameSegment::Key(next), after) = rest.split_first()? else { return None };
                key = format!("{key}.{next}");
                rest = after;
            }
        }
        _ => None,
    }
}

fn member(outline: &Outline<'_>, id: NodeId, key: &str, fold: bool) -> Option<(String, NodeId)> {
    if !fold {
        return outline.member(id, key).map(|(child, _)| (key.to_owned(), child));
    }
    // Attributes of XML have the sign in JSON.
    let attribute = format!("@{key}");
    if let Some((child, _)) = outline.member(id, &attribute) {
        return Some((attribute, child));
    }
    // Searches of logs write the sign before each name.
    if let Some(name) = key.strip_prefix('@')
        && let Some((child, _)) = outline.member(id, name)
    {
        return Some((name.to_owned(), child));
    }
    let mut same = outline.children(id).filter_map(|(child, node)| {
        let name = outline.decoded(&node.key);
        (name.to_lowercase() == key.to_lowercase()).then_some((name, child))
    });
    let found = same.next()?;
    // Of two keys that differ in case only, neither is meant more than the other.
    same.next().is_none().then_some(found)
}

fn element(outline: &Outline<'_>, id: NodeId, index: i64) -> Option<NodeId> {
    let count = i64::from(outline.node(id)?.children);
    let index = usize::try_from(if index < 0 { count + index } else { index }).ok()?;
    outline.children(id).nth(index).map(|(child, _)| child)
}
