//! Parses the arguments of the catalogue's own tools.

use context_guard_catalogue::arguments::check;
use context_guard_catalogue::document::Json;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Number;
use serde_json::value::RawValue;

use super::{CallParameters, Catalogue, CatalogueResult};
use crate::catalogue::CatalogueStep;
use crate::catalogue::definitions::{MetaTool, schema};

/// The greatest integer that all JSON parsers read exactly.
const MAX_INTEGER: f64 = 9_007_199_254_740_991.0;

impl Catalogue<'_> {
    /// Parses the arguments of a call of a catalogue tool. Fails with the error for the model.
    pub(super) fn arguments<'m, T: Deserialize<'m>>(
        &self,
        tool: MetaTool,
        parameters: &CallParameters<'m>,
    ) -> CatalogueResult<T> {
        let text = parameters.arguments.map_or("{}", RawValue::get);
        serde_json::from_str(text).map_err(|error| {
            let value = Json::parse(text).unwrap_or_default();
            self.argument_error(&self.schema(tool), value, &error)
        })
    }

    /// Parses the arguments of a call of a catalogue tool. Also accepts numbers in other forms, as
    /// some models write them: `5.0` and `"5"` for 5. Fails with the error for the model.
    pub(super) fn own_arguments<T: DeserializeOwned>(
        &self,
        tool: MetaTool,
        parameters: &CallParameters<'_>,
    ) -> CatalogueResult<T> {
        let text = parameters.arguments.map_or("{}", RawValue::get);
        if let Ok(arguments) = serde_json::from_str(text) {
            return Ok(arguments);
        }
        let schema = self.schema(tool);
        let value = with_numbers(&schema, Json::parse(text).unwrap_or_default());
        serde_json::from_str(&value.to_string())
            .map_err(|error| self.argument_error(&schema, value, &error))
    }

    /// Returns the schema of a catalogue tool, without other members.
    fn schema(&self, tool: MetaTool) -> Json {
        let mut schema = Json::parse(&schema(tool, &self.request.settings())).unwrap_or_default();
        if let Json::Object(members) = &mut schema {
            members.push(("additionalProperties".to_owned(), Json::Bool(false)));
        }
        schema
    }

    /// Returns the error for the model: a line for each wrong argument, with its name, the expected
    /// type and the value. `error` is the one of the parser.
    fn argument_error(
        &self,
        schema: &Json,
        mut value: Json,
        error: &serde_json::Error,
    ) -> CatalogueStep {
        if let Json::Object(members) = &mut value {
            // The forms that are accepted, but that the schema does not show to models.
            members.retain(|(name, value)| *value != Json::Null && name != "arguments");
            for (name, value) in members {
                if matches!(name.as_str(), "queries" | "names") && value.as_str().is_some() {
                    *value = Json::Array(vec![std::mem::take(value)]);
                }
            }
        }
        let errors = check(schema, &value);
        if !errors.is_empty() {
            return self.bad_request(errors.join("\n"));
        }
        let text = error.to_string();
        let reason = text.split(" at line ").next().unwrap_or_default();
        self.bad_request(format!("invalid arguments: {reason}"))
    }
}

/// Returns the arguments with the numbers that the schema requires: numbers replace texts that are
/// numbers, and integers replace equal numbers such as `5.0`.
fn with_numbers(schema: &Json, mut arguments: Json) -> Json {
    let Json::Object(members) = &mut arguments else { return arguments };
    for (name, value) in members {
        let property = schema.get("properties").and_then(|properties| properties.get(name));
        let kind = property.and_then(|property| property.get("type")).and_then(Json::as_str);
        if !matches!(kind, Some("integer" | "number")) {
            continue;
        }
        let number = match &*value {
            Json::Number(number) => number.as_f64(),
            Json::String(text) => text.parse().ok(),
            _ => None,
        };
        let is_whole = |number: f64| number.fract() == 0.0 && (0.0..=MAX_INTEGER).contains(&number);
        let converted = match number {
            Some(number) if kind == Some("integer") && is_whole(number) => {
                format!("{number:.0}").parse::<u64>().ok().map(Number::from)
            }
            Some(number) if kind == Some("number") => Number::from_f64(number),
            _ => None,
        };
        if let Some(number) = converted {
            *value = Json::Number(number);
        }
    }
    arguments
}
