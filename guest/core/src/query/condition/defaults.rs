//! Comparisons with a default for records that lack the field: `COALESCE(discount, 0) >= 10`.

use super::build::{negate, single};
use super::literal::{is_value, read_literal};
use super::operator::parse_operator;
use super::parse::Parser;
use super::{Check, Test};
use crate::query::operand::Operand;
use crate::query::reader::Reader;

/// The functions that return their first argument that is not null.
const FUNCTIONS: [&str; 4] = ["coalesce", "ifnull", "nvl", "isnull"];
/// The maximum number of arguments of such a function.
const MAX_ARGUMENTS: usize = 8;

impl Parser {
    /// Reads a comparison whose left side has a default for absent values. `None` if no such
    /// comparison is next.
    pub(super) fn with_default(&mut self, reader: &mut Reader<'_>) -> Result<Option<Test>, String> {
        let mut rest = reader.clone();
        let word = rest.peek_word();
        let is_call = FUNCTIONS.iter().any(|name| name.eq_ignore_ascii_case(word));
        if !is_call || !rest.eat(word) || !rest.eat("(") {
            return Ok(None);
        }
        let mut fields = Vec::new();
        let mut default = None;
        while default.is_none() && fields.len() < MAX_ARGUMENTS {
            if is_value(&rest) {
                default = Some(read_literal(&mut rest, false)?);
            } else {
                fields.push(self.operand(&mut rest)?);
            }
            if !rest.eat(",") {
                break;
            }
        }
        // `isnull(x)` is a test by itself.
        if fields.is_empty() || (fields.len() == 1 && default.is_none()) {
            return Ok(None);
        }
        rest.close()?;
        let Some((sign, is_negated)) = parse_operator(&mut rest) else {
            return Err(rest.error("an operator is expected here"));
        };
        let after = rest.position();
        // From the last argument to the first.
        let mut test = None;
        for field in fields.into_iter().rev() {
            rest.reset(after);
            let is_null = || Test::leaf(field.clone(), Check::IsNull);
            let default = default.take().map(Box::new);
            let own = self.compare(&mut rest, Operand { default, ..field.clone() }, sign)?;
            test = Some(match test {
                None => own,
                Some(other) => Test::Any(vec![
                    Test::All(vec![negate(is_null()), own]),
                    Test::All(vec![is_null(), other]),
                ]),
            });
        }
        *reader = rest;
        let test = single(test.into_iter().collect(), Test::All);
        Ok(Some(if is_negated { negate(test) } else { test }))
    }
}
