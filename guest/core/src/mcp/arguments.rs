//! The guard's own arguments of a tool call: separates, parses and removes them.

mod ids;
mod unknown;
mod values;

pub use context_guard_protocol::argument::ARGUMENTS_OBJECT;
use context_guard_protocol::argument::{
    ARGUMENT_ALIASES, ARGUMENT_NAMES, ARGUMENT_PREFIX, PLAIN_NAME_COUNT, resolve_alias,
};
use serde_json::{Map, Value};

use self::ids::parse_ids;
use self::unknown::unknown_argument;
use self::values::{
    jq_path, jq_program, parse_expression, parse_number, parse_offset, parse_order,
    parse_projection, parse_text, parse_texts,
};
use super::tool_info::ToolInfo;
use crate::json::Span;
use crate::json::scan::Scanner;
use crate::json::text::Form;
use crate::policy::EndpointSettings;
use crate::query::Query;
use crate::query::condition::Condition;
use crate::query::response_mode::ResponseMode;
use crate::shape::context::RequestOptions;

/// The guard arguments that the schema of the read tool lists, which every model pays for. The read
/// tool accepts all other guard arguments too, except `since`.
pub const READ_ARGUMENTS: [&str; 11] = [
    "cursor",
    "fields",
    "path",
    "where",
    "aggregate",
    "jq",
    "grep",
    "context",
    "limit",
    "startLine",
    "endLine",
];
/// The name of the argument that permits truncation marks in the other arguments.
pub const VERBATIM_ARGUMENT: &str = "_guard_verbatim";

/// The arguments for the guard in a tool call, parsed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuardArguments {
    /// The cursor of an earlier answer whose next part the caller requests.
    pub cursor: Option<String>,
    /// A cursor of an earlier answer of the same call, with which to compare the new one.
    pub since: Option<String>,
    /// The arguments that set the size of the answer, such as `limit`.
    pub options: RequestOptions,
    /// The arguments that select data, such as `fields`.
    pub query: Query,
}

/// The arguments of a tool call, separated into those for the guard and those for the tool.
#[derive(Debug, Default)]
pub struct SplitArguments {
    /// The arguments for the guard.
    pub guarded: GuardArguments,
    /// The arguments for the guard as a JSON object, for [`GuardArguments::parse_separated`]. Empty
    /// if there are none.
    pub separated: String,
    /// The arguments for the tool as a JSON object. `None` if the call has no arguments for the
    /// guard, so that they are forwarded unchanged.
    pub rest: Option<Vec<u8>>,
}

/// The tool that a call names, which determines the arguments that are for the guard.
#[derive(Clone, Copy, Debug)]
pub enum ArgumentOwner<'f> {
    /// The guard's own read tool: all arguments are for the guard.
    ReadTool,
    /// A tool of the upstream, with the information stored when it was listed, if any.
    Tool(Option<&'f ToolInfo>),
}

/// Splits the arguments of a tool call into those for the guard and those for the tool. `span` is
/// the span of the JSON object of arguments in `bytes`.
///
/// # Errors
/// Returns a message for the caller if one of the guard's arguments has an invalid value, or is
/// given twice. The read tool also refuses arguments that it does not have.
pub fn split(
    bytes: &[u8],
    span: &Span,
    owner: ArgumentOwner<'_>,
    settings: &EndpointSettings,
) -> Result<SplitArguments, String> {
    let mut scanner = Scanner::starting_at(bytes, Form::Raw, span.start);
    let (mut kept, mut taken) = (Vec::new(), Map::new());
    let (mut unknown, mut twice) = (None, None);
    let scan = scanner.object(|scanner, key| {
        let value = scanner.skip_value()?;
        let name = scanner.decode(&key);
        match guarded_name(&name, owner, settings) {
            Some(guarded) => {
                let value = serde_json::from_slice(scanner.bytes(&value)).unwrap_or(Value::Null);
                if taken.insert(guarded.to_owned(), value).is_some() {
                    twice = Some(guarded.to_owned());
                }
            }
            None => {
                if matches!(owner, ArgumentOwner::ReadTool) && unknown.is_none() {
                    unknown = Some(name);
                }
                kept.push(scanner.bytes(&(key.start - 1..value.end)));
            }
        }
        Ok(())
    });
    if let Some(name) = twice {
        let other = ARGUMENT_ALIASES.iter().filter(|(_, known)| *known == name);
        let other: Vec<String> = other.map(|(alias, _)| format!(" or {alias}")).collect();
        return Err(format!(
            "{name} is given twice: give one of {name}, {ARGUMENT_PREFIX}{name}{}",
            other.concat()
        ));
    }
    if let Some(name) = unknown {
        return Err(unknown_argument("context_guard_read", &name));
    }
    if scan.is_err() || taken.is_empty() {
        return Ok(SplitArguments::default());
    }
    let guarded = GuardArguments::parse(&taken, owner, settings)?;
    let rest = Some([b"{".as_slice(), &kept.join(&b','), b"}"].concat());
    Ok(SplitArguments { guarded, separated: Value::Object(taken).to_string(), rest })
}

/// Returns true if an argument counts as absent: null or, for a caller that sends all advertised
/// arguments (`has_all`), an empty value or 0. Clients with strict schemas cannot omit an argument.
fn is_unset(value: &Value, has_all: bool) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => has_all && text.is_empty(),
        Value::Array(values) => has_all && values.is_empty(),
        Value::Number(number) => has_all && number.as_f64() == Some(0.0),
        _ => false,
    }
}

/// Returns the name of an argument for the guard, without prefix, and without an alias. `None` if
/// the argument is for the tool.
fn guarded_name<'n>(
    name: &'n str,
    owner: ArgumentOwner<'_>,
    settings: &EndpointSettings,
) -> Option<&'n str> {
    let position = |name: &str| ARGUMENT_NAMES.iter().position(|known| *known == name);
    if name == ARGUMENTS_OBJECT {
        return Some(name);
    }
    if name == VERBATIM_ARGUMENT {
        return Some(name);
    }
    if let Some(plain) = name.strip_prefix(ARGUMENT_PREFIX) {
        let plain = resolve_alias(plain);
        return position(plain).map(|_| plain);
    }
    let name = match owner {
        ArgumentOwner::ReadTool => resolve_alias(name),
        ArgumentOwner::Tool(_) => name,
    };
    let at = position(name)?;
    let free = match owner {
        ArgumentOwner::ReadTool => true,
        ArgumentOwner::Tool(Some(facts)) => {
            at < PLAIN_NAME_COUNT && facts.own_parameters & (1 << at) == 0
        }
        ArgumentOwner::Tool(None) => at < PLAIN_NAME_COUNT && settings.plain_arguments,
    };
    free.then_some(name)
}

impl GuardArguments {
    /// Parses the guard's arguments that [`split`] separated from those of a tool.
    ///
    /// # Errors
    /// Returns a message for the caller if one of them has an invalid value.
    pub fn parse_separated(separated: &str, settings: &EndpointSettings) -> Result<Self, String> {
        if separated.is_empty() {
            return Ok(Self::default());
        }
        let values = serde_json::from_str(separated)
            .map_err(|_| "the guard's arguments are not a JSON object".to_owned())?;
        Self::parse(&values, ArgumentOwner::Tool(None), settings)
    }

    /// Parses the guard's arguments in a call of the tool `owner`. Their names have no prefix.
    fn parse(
        values: &Map<String, Value>,
        owner: ArgumentOwner<'_>,
        settings: &EndpointSettings,
    ) -> Result<Self, String> {
        let advertised = match owner {
            ArgumentOwner::ReadTool => READ_ARGUMENTS.as_slice(),
            ArgumentOwner::Tool(_) => ARGUMENT_NAMES.get(..PLAIN_NAME_COUNT).unwrap_or_default(),
        };
        let mut parsed = Self::default();
        parsed.set_all(values, advertised, settings)?;
        parsed.check_since(owner)?;
        parsed.query.separate_statement()?;
        parsed.query.separate_condition();
        parsed.query.validate().map(|()| parsed)
    }

    /// Sets the guard arguments `values`, whose names have no prefix. `advertised` are the argument
    /// names that the caller knows from the tool's schema.
    fn set_all(
        &mut self,
        values: &Map<String, Value>,
        advertised: &[&str],
        settings: &EndpointSettings,
    ) -> Result<(), String> {
        let has_all = advertised.iter().all(|name| values.contains_key(*name));
        let mut present = values.iter().filter(|(_, value)| !is_unset(value, has_all));
        present.try_for_each(|(name, value)| self.set(name, value, settings))?;
        let given = |name: &str| values.get(name).filter(|value| !is_unset(value, has_all));
        let (order, offset) = (given("sort"), given("offset"));
        if order.is_some() || offset.is_some() {
            self.query.separate_statement()?;
        }
        if let Some(order) = order {
            self.query.add_order(&parse_order(order)?)?;
        }
        match offset {
            Some(value) => self.query.add_offset(parse_offset(value)?),
            None => Ok(()),
        }
    }

    /// Returns an error if `since` is used with the read tool, or with arguments that select data.
    fn check_since(&self, owner: ArgumentOwner<'_>) -> Result<(), String> {
        if self.since.is_none() {
            return Ok(());
        }
        if matches!(owner, ArgumentOwner::ReadTool) {
            return Err("since compares a new answer with an earlier one: repeat the call of the tool itself, with _guard: {\"since\": \"<cursor of the earlier answer>\"}".to_owned());
        }
        if self.cursor.is_some() || !self.query.is_empty() || self.options.ranged() {
            return Err("\"since\" compares whole answers and cannot be combined with \"cursor\", \"lines\" or a query: query the cursor of its answer".to_owned());
        }
        Ok(())
    }

    /// Sets the guard argument `name`, given without prefix, to `value`. `settings` determine the
    /// maximum of `limit`. Ignores `sort`, which depends on the other arguments.
    ///
    /// # Errors
    /// Returns a message for the caller if the value is invalid.
    pub fn set(
        &mut self,
        name: &str,
        value: &Value,
        settings: &EndpointSettings,
    ) -> Result<(), String> {
        match name {
            VERBATIM_ARGUMENT => {}
            // Clients with strict schemas cannot omit the argument.
            ARGUMENTS_OBJECT if value.as_str().is_some_and(|text| text.trim().is_empty()) => {}
            ARGUMENTS_OBJECT => {
                // Its schema is a string, but models write an object as often.
                let parsed = value.as_str().and_then(|text| serde_json::from_str(text).ok());
                let members = parsed
                    .as_ref()
                    .unwrap_or(value)
                    .as_object()
                    .ok_or("_guard must be a JSON object, such as {\"limit\": 20}")?;
                let mut resolved = Map::new();
                for (name, value) in members {
                    let known = resolve_alias(name);
                    if !ARGUMENT_NAMES.contains(&known) {
                        return Err(unknown_argument(ARGUMENTS_OBJECT, name));
                    }
                    if resolved.insert(known.to_owned(), value.clone()).is_some() {
                        return Err(format!("_guard has {known} twice, once by another name"));
                    }
                }
                self.set_all(&resolved, &READ_ARGUMENTS, settings)?;
            }
            "cursor" => {
                let cursor = value.as_str().ok_or("invalid cursor format: a cursor is a string that an earlier answer gave as nextCursor")?;
                self.cursor = Some(cursor.to_owned());
            }
            "since" => self.since = Some(parse_text(name, value)?),
            "limit" => self.options.limit = parse_number(name, value, settings.max_page_size)?,
            "pages" => self.options.pages = parse_number(name, value, 100)?,
            "startLine" => self.options.start_line = parse_number(name, value, u64::MAX)?,
            "endLine" => self.options.end_line = parse_number(name, value, u64::MAX)?,
            "fields" => {
                let fields = match value {
                    Value::String(fields) => fields.clone(),
                    Value::Object(members) => parse_projection(members)?,
                    _ => parse_texts(name, value)?.join(","),
                };
                if fields.trim() == "all" {
                    self.options.whole = true;
                } else {
                    self.query.fields = Some(fields);
                }
            }
            "response_mode" => {
                let mode = value.as_str().and_then(ResponseMode::from_name);
                self.query.mode =
                    Some(mode.ok_or("response_mode must be ids_only, metadata, preview or full")?);
            }
            "filter_ids" => self.query.filter_ids = parse_ids(name, value)?,
            "min_score" => {
                let score = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok());
                let score = score
                    .filter(|score| score.is_finite())
                    .ok_or("min_score must be a number, such as 0.5")?;
                self.query.min_score = Some(score.to_string());
            }
            "path" => {
                let path = value
                    .as_str()
                    .ok_or("path must be a string, such as /items/0 or $.items[*].name")?;
                match jq_program(path) {
                    Some(program) => set_once(&mut self.query.jq, program, "jq")?,
                    None => match jq_path(path) {
                        Some(plain) => self.query.path = Some(plain),
                        None if path.starts_with('.') => {
                            set_once(&mut self.query.jq, path.to_owned(), "jq")?;
                        }
                        None => self.query.path = Some(path.to_owned()),
                    },
                }
            }
            "jq" => {
                let program = parse_text(name, value)?;
                self.query.jq = Some(jq_program(&program).unwrap_or(program));
            }
            "ignoreCase" => {
                let flag = value.as_bool().or_else(|| value.as_str()?.trim().parse().ok());
                self.query.ignore_case =
                    Some(flag.ok_or("ignoreCase must be true or false; without it, a pattern in lower case matches any case")?);
            }
            "context" => {
                let is_zero = value.as_u64() == Some(0);
                self.query.context = Some(if is_zero { 0 } else { parse_number(name, value, 50)? });
            }
            "grep" => self.query.grep = Some(parse_text(name, value)?),
            // They belong to the other arguments, and are added after them.
            "sort" | "offset" => {}
            "aggregate" => self.query.aggregate = Some(parse_expression(name, value)?),
            _ => {
                let condition = parse_expression(name, value)?;
                match jq_program(&condition) {
                    Some(program) => set_once(&mut self.query.jq, program, "jq")?,
                    None if is_jq_filter(&condition) => {
                        set_once(&mut self.query.jq, condition, "jq")?;
                    }
                    None => set_once(&mut self.query.condition, condition, "where")?,
                }
            }
        }
        if self.options.end_line > 0 && self.options.start_line > self.options.end_line {
            return Err(format!(
                "startLine {} is after endLine {}",
                self.options.start_line, self.options.end_line
            ));
        }
        Ok(())
    }
}

/// Sets a part of the query.
///
/// # Errors
/// Returns a message for the caller if another argument has set it.
fn set_once(slot: &mut Option<String>, text: String, name: &str) -> Result<(), String> {
    if slot.is_some() {
        return Err(format!(
            "two arguments set {name}: give it once, and sort and offset beside it"
        ));
    }
    *slot = Some(text);
    Ok(())
}

/// Returns true if a condition is a jq program: it begins with a dot, and cannot be parsed as a
/// condition.
fn is_jq_filter(text: &str) -> bool {
    text.trim_start().starts_with('.')
        && !text.trim_start().starts_with(".where(")
        && Condition::parse(text).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(arguments: &str, facts: Option<&ToolInfo>) -> Result<SplitArguments, String> {
        split(
            arguments.as_bytes(),
            &(0..arguments.len()),
            ArgumentOwner::Tool(facts),
            &EndpointSettings::default(),
        )
    }

    #[test]
    fn own_parameters_of_a_tool_are_kept() {
        let facts = ToolInfo { own_parameters: 0b10, ..ToolInfo::default() };
        let read = sorted(r#"{"limit":900, "cursor":"c","_guard_limit":7, "q":"x"}"#, Some(&facts))
            .unwrap();
        assert_eq!(read.rest.unwrap(), br#"{"limit":900,"q":"x"}"#);
        assert_eq!((read.guarded.cursor.as_deref(), read.guarded.options.limit), (Some("c"), 7));
    }

    #[test]
    fn unknown_tools_need_prefixed_names() {
        assert!(sorted(r#"{"limit":5,"cursor":"theirs"}"#, None).unwrap().rest.is_none());
        assert_eq!(sorted(r#"{"_guard":{"limit":5}}"#, None).unwrap().rest.unwrap(), b"{}");
    }

    #[test]
    fn names_of_jq_are_paths() {
        let query = |path: &str| {
            let arguments = serde_json::json!({"_guard": {"path": path}}).to_string();
            sorted(&arguments, None).unwrap().guarded.query
        };
        for (path, expected) in [
            (".", "$"),
            (".a.b_1", "$['a']['b_1']"),
            (".items[0].\"a b\"", "$['items'][0]['a b']"),
            (".items[].id", "$['items'][*]['id']"),
            (".[\"x.y\"].z[-1]", "$[\"x.y\"]['z'][-1]"),
            (".a.[2]", "$['a'][2]"),
        ] {
            let query = query(path);
            assert_eq!((query.path.as_deref(), query.jq), (Some(expected), None), "{path}");
        }
        for program in ["..", ".a | length", ".a?", ".[1:2]", ".a // 1", ".a-.b", ".[.x]"] {
            let query = query(program);
            assert_eq!((query.path, query.jq.as_deref()), (None, Some(program)));
        }
    }

    #[test]
    fn arguments_are_given_once() {
        for (arguments, reason) in [
            (r#"{"_guard":{"path":".a | .b","jq":"map(.c)"}}"#, "two arguments set jq"),
            (r#"{"_guard":{"filter":"id = 2","where":"id = 1"}}"#, "where twice"),
            (r#"{"_guard":{"offset":2,"filter_ids":["a"]}}"#, "offset skips"),
            (r#"{"_guard":{"offset":2,"aggregate":"count"}}"#, "offset skips"),
        ] {
            let refusal = sorted(arguments, None).unwrap_err();
            assert!(refusal.contains(reason), "{arguments}: {refusal}");
        }
        let zero = sorted(r#"{"_guard":{"offset":0,"aggregate":"count"}}"#, None).unwrap();
        assert_eq!(zero.guarded.query.condition, None);
    }

    #[test]
    fn common_words_belong_to_the_read_tool() {
        let facts = ToolInfo::default();
        assert!(
            sorted(r#"{"path":"/x","grep":"y","where":"z"}"#, Some(&facts)).unwrap().rest.is_none()
        );
        let text = r#"{"path":"/x","fields":["id","name"]}"#;
        let read = split(
            text.as_bytes(),
            &(0..text.len()),
            ArgumentOwner::ReadTool,
            &EndpointSettings::default(),
        )
        .unwrap();
        assert_eq!(
            (read.guarded.query.path.as_deref(), read.guarded.query.fields.as_deref()),
            (Some("/x"), Some("id,name"))
        );
        let all = sorted(r#"{"fields":"all"}"#, Some(&facts)).unwrap().guarded;
        assert!(all.options.whole && all.query.is_empty());
    }

    #[test]
    fn clients_with_strict_schemas_send_empty_values() {
        let empty = |name: &&str| match *name {
            "cursor" => (name.to_string(), Value::from("c")),
            "limit" | "pages" | "startLine" | "endLine" | "context" | "min_score" => {
                (name.to_string(), 0.into())
            }
            "filter_ids" => (name.to_string(), Value::Array(Vec::new())),
            _ => (name.to_string(), "".into()),
        };
        let read = |names: &[&str], owner| {
            let text = Value::Object(names.iter().map(empty).collect()).to_string();
            split(text.as_bytes(), &(0..text.len()), owner, &EndpointSettings::default())
        };
        let expected = GuardArguments { cursor: Some("c".to_owned()), ..GuardArguments::default() };
        let all = read(&READ_ARGUMENTS, ArgumentOwner::ReadTool).unwrap();
        assert_eq!(all.guarded, expected);
        assert!(read(&["cursor", "grep"], ArgumentOwner::ReadTool).is_err());
        let tool = ToolInfo::default();
        let plain = &ARGUMENT_NAMES[..PLAIN_NAME_COUNT];
        assert_eq!(read(plain, ArgumentOwner::Tool(Some(&tool))).unwrap().guarded, expected);
        let object: Map<String, Value> = READ_ARGUMENTS.iter().map(empty).collect();
        let object = sorted(&serde_json::json!({ARGUMENTS_OBJECT: object}).to_string(), None);
        assert_eq!(object.unwrap().guarded, expected);
        // The schema of `_guard` is a string.
        for text in ["", "{}"] {
            let none = sorted(&serde_json::json!({ARGUMENTS_OBJECT: text}).to_string(), None);
            assert_eq!(none.unwrap().guarded, GuardArguments::default());
        }
        let text = sorted(r#"{"_guard":"{\"limit\":7}"}"#, None).unwrap();
        assert_eq!(text.guarded.options.limit, 7);
        assert_eq!(sorted(r#"{"_guard":null}"#, None).unwrap().rest.unwrap(), b"{}");
    }

    #[test]
    fn orders_are_part_of_the_condition_or_the_totals() {
        for (arguments, condition, aggregate) in [
            (r#"{"sort":"-price"}"#, Some("order by price desc"), None),
            (r#"{"sort":["a.b:asc","-c"]}"#, Some("order by a.b asc, c desc"), None),
            (
                r#"{"order_by":{"a":-1},"where":{"b":{"$gt":5}}}"#,
                Some("b > 5 order by a desc"),
                None,
            ),
            (
                r#"{"sort":"n desc","aggregate":"count as n by a"}"#,
                None,
                Some("count as n by a order by n desc"),
            ),
        ] {
            let query = sorted(&format!("{{\"_guard\":{arguments}}}"), None).unwrap().guarded.query;
            let found = (query.condition.as_deref(), query.aggregate.as_deref());
            assert_eq!(found, (condition, aggregate), "{arguments}");
        }
    }

    #[test]
    fn wrong_values_are_named() {
        let known = ToolInfo::default();
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
            (
                r#"{"response_mode":"short"}"#,
                "response_mode must be ids_only, metadata, preview or full",
            ),
            (
                r#"{"filter_ids":[]}"#,
                "filter_ids must be a list of 1 to 1000 names, or a string with commas between them",
            ),
            (r#"{"_guard":"limit=5"}"#, "_guard must be a JSON object, such as {\"limit\": 20}"),
            (r#"{"_guard":{"grep":""}}"#, "grep must be a string that is not empty"),
            (
                r#"{"_guard":{"sort":5}}"#,
                "sort must name fields, such as \"-price\" or \"price desc, name\"",
            ),
            (
                r#"{"_guard":{"sort":"-a","where":"b=1 order by c"}}"#,
                "where has an order or a limit already: leave out sort",
            ),
            (
                r#"{"_guard":{"sort":"-a","grep":"b"}}"#,
                "sort orders records, and has no effect with grep: write where instead of it",
            ),
        ] {
            assert_eq!(sorted(arguments, Some(&known)).unwrap_err(), reason);
        }
    }
}
