//! Operands as conditions and totals show them.

use super::names::FUNCTIONS;
use super::{FieldFunction, Operand};

impl std::fmt::Display for Operand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let field = match &self.computed {
            Some(expression) => match expression.date_unit() {
                Some(unit) => format!("{} ({unit})", self.name.verbatim),
                None => self.name.verbatim.clone(),
            },
            None => self.field.to_string(),
        };
        if let Some(default) = &self.default {
            let own = Self { default: None, ..self.clone() };
            return write!(f, "COALESCE({own}, {default})");
        }
        if let Some(null) = &self.null {
            let own = Self { null: None, ..self.clone() };
            return write!(f, "NULLIF({own}, {null})");
        }
        match self.function {
            None => write!(f, "{field}"),
            Some(FieldFunction::Slice(from, until)) if until == usize::MAX => {
                write!(f, "{field}[{from}:]")
            }
            Some(FieldFunction::Slice(0, until)) => write!(f, "{field}[:{until}]"),
            Some(FieldFunction::Slice(from, until)) => write!(f, "{field}[{from}:{until}]"),
            Some(FieldFunction::Round(decimals)) if decimals > 0 => {
                write!(f, "round({field}, {decimals})")
            }
            Some(FieldFunction::Date(part)) => write!(f, "{}({field})", part.name()),
            Some(FieldFunction::List(list)) => write!(f, "{}({field})", list.name()),
            Some(FieldFunction::Count) => write!(f, "length({field})"),
            Some(function) => {
                let name = FUNCTIONS.iter().find(|(_, known)| *known == function);
                write!(f, "{}({field})", name.map_or("", |(name, _)| name))
            }
        }
    }
}
