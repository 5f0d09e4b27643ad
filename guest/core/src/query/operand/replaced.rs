//! Values that replace null, and values that null replaces: `COALESCE(discount, 0)`, `NULLIF(price,
//! 0)`.

use super::Operand;
use crate::query::literal::Literal;
use crate::query::reader::Reader;
use crate::query::value::Value;

/// The functions that replace null.
pub(super) const DEFAULTS: [&str; 3] = ["coalesce", "ifnull", "nvl"];

impl Operand {
    /// Reads the arguments of `coalesce(x, 0)` or `nullif(x, 0)`, after the opening parenthesis.
    pub(super) fn replacing(reader: &mut Reader<'_>, word: &str) -> Result<Self, String> {
        let operand = match Self::computed(reader) {
            Some(computed) => computed,
            None => Self::read(reader)?,
        };
        let literal = if reader.eat(",") { literal(reader)? } else { None };
        let Some(literal) = literal.filter(|_| operand.default.is_none() && operand.null.is_none())
        else {
            return Err(reader
                .error(&format!("{word} takes a field and a value here, such as {word}(x, 0)")));
        };
        reader.close()?;
        let literal = Some(Box::new(literal));
        Ok(match word {
            "nullif" => Self { null: literal, ..operand },
            _ => Self { default: literal, ..operand },
        })
    }

    /// Returns a value after its replacement.
    pub(in crate::query) fn replaced<'v>(&self, value: Value<'v>) -> Value<'v> {
        let is_null = |null: &Literal| null.equals(&value) == Some(true);
        if self.null.as_deref().is_some_and(is_null) {
            return Value::Null;
        }
        match &self.default {
            Some(default) if value == Value::Null => {
                let flag = default.boolean().filter(|_| !default.is_quoted);
                flag.map_or_else(|| default.value().into_owned(), Value::Bool)
            }
            _ => value,
        }
    }
}

/// Reads a text in quotes, a number, `true` or `false`. `None` if something else is next.
fn literal(reader: &mut Reader<'_>) -> Result<Option<Literal>, String> {
    if let Some(text) = reader.quoted()? {
        return Ok(Some(Literal::new(text, true)));
    }
    reader.skip_space();
    let rest = reader.rest();
    let word = rest.get(..rest.find([')', ',', ' ']).unwrap_or(rest.len())).unwrap_or_default();
    let literal = Literal::new(word.to_owned(), false);
    let is_value = literal.number().is_some() || literal.boolean().is_some();
    Ok((is_value && reader.eat(word)).then_some(literal))
}
