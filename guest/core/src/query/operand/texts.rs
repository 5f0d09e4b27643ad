//! Texts that are joined from fields: `first || ' ' || last`, `[First Name] + ' ' + [Last Name]`,
//! `CONCAT(first, ' ', last)`.

use super::Operand;
use super::arithmetic::Expression;
use super::text_part::{JoinedText, NullParts, Piece, TextPart};
use crate::query::code::parts;
use crate::query::field::FieldName;
use crate::query::reader::Reader;

impl Operand {
    /// Reads parts that `||` or `+` joins, at least one of which is a text in quotes. Beside `+`, a
    /// quoted text without letters and digits is needed, because quotes may enclose the name of a
    /// field. `None`, with nothing read, if something else is next.
    pub(super) fn concatenation(reader: &mut Reader<'_>) -> Option<Self> {
        let start = reader.position();
        let mut rest = reader.clone();
        let mut parts = vec![part(&mut rest, false)?];
        let sign = ["||", "+"].into_iter().find(|sign| rest.clone().eat(sign))?;
        if sign == "||" {
            parts = vec![part(&mut reader.clone(), true)?];
        }
        while rest.eat(sign) {
            rest.count_part().ok()?;
            parts.push(part(&mut rest, sign == "||")?);
        }
        let is_separator = |part: &TextPart| {
            let is_text = part.field.is_none();
            is_text && (sign == "||" || !part.text.iter().any(|text| has_letters(text)))
        };
        let has_field = parts.iter().any(|part| part.field.is_some());
        // `a + b + ' '` adds numbers first in some languages.
        let adds_fields = sign == "+" && parts.iter().take(2).all(|part| part.field.is_some());
        if adds_fields || parts.len() < 2 || !has_field || !parts.iter().any(is_separator) {
            return None;
        }
        *reader = rest;
        let text = JoinedText::new(parts, NullParts::Null, sign == "+");
        Some(Self::joining(text, reader.since(start)))
    }

    /// Reads the arguments of a function whose value is a text, after the opening parenthesis.
    pub(super) fn text(reader: &mut Reader<'_>, word: &str) -> Result<Self, String> {
        match word {
            "concat" | "concat_ws" => Self::concat(reader, word),
            _ => Self::piece(reader, word),
        }
    }

    /// Reads the arguments of `CONCAT(first, ' ', last)` or `CONCAT_WS(' ', first, last)`, after
    /// the opening parenthesis.
    fn concat(reader: &mut Reader<'_>, word: &str) -> Result<Self, String> {
        let start = reader.position();
        let mut parts = Vec::new();
        loop {
            reader.count_part()?;
            let Some(part) = part(reader, true) else {
                return Err(reader.error("a field or a text in quotes is expected here"));
            };
            parts.push(part);
            if !reader.eat(",") {
                break;
            }
        }
        let name = format!("{word}({})", reader.since(start));
        reader.close()?;
        let nulls = if word == "concat_ws" {
            match parts.remove(0) {
                TextPart { text: Some(separator), .. } => NullParts::Separated(separator),
                _ => return Err(reader.error("concat_ws begins with a text in single quotes")),
            }
        } else {
            NullParts::Unclear
        };
        if !parts.iter().any(|part| part.field.is_some()) {
            return Err(reader.error(&format!("{word} takes at least one field")));
        }
        Ok(Self::joining(JoinedText::new(parts, nulls, false), &name))
    }

    /// Reads the arguments of `split_part(email, '@', 2)`, `substring_index(email, '@', -1)` or
    /// `split(email, '@')[1]`, after the opening parenthesis. Indexes in brackets count from 0, the
    /// others from 1.
    fn piece(reader: &mut Reader<'_>, word: &str) -> Result<Self, String> {
        let start = reader.position();
        let field = Self::read(reader)?;
        let usage = "write split_part(field, '@', 2), or split(field, '@')[0] for the first part";
        let separator = if reader.eat(",") { reader.quoted()? } else { None };
        let separator = separator.as_deref().and_then(plain_separator);
        let Some(separator) = separator else { return Err(reader.error(usage)) };
        let is_zero_based = word == "split";
        let index = match word {
            "split" => {
                reader.close()?;
                let is_open = reader.eat("[");
                let _ = reader.keyword(&["offset", "safe_offset"]).is_some() && reader.eat("(");
                let index = signed(reader).filter(|_| is_open);
                let _ = reader.eat(")");
                index.filter(|_| reader.eat("]"))
            }
            _ => {
                let number = if reader.eat(",") { signed(reader) } else { None };
                reader.close()?;
                // A part from the start counts from 1.
                let index = number.map(|number| if number > 0 { number - 1 } else { number });
                // `substring_index` returns all text before a separator.
                let is_one = number.is_some_and(|number| number.abs() == 1);
                index.filter(|_| number != Some(0) && (word == "split_part" || is_one))
            }
        };
        let Some(index) = index else { return Err(reader.error(usage)) };
        let name = format!("{word}({}", reader.since(start));
        let part = TextPart::of_piece(field, Piece { separator, index, is_zero_based });
        Ok(Self::joining(JoinedText::new(vec![part], NullParts::Null, false), &name))
    }

    fn joining(text: JoinedText, name: &str) -> Self {
        let computed = Some(Box::new(Expression::Text(text)));
        Self { computed, ..Self::new(FieldName::of_key(name)) }
    }

    /// Returns true if `||` joins the parts of a text, which is OR in other languages.
    pub(in crate::query) fn joins_with_bars(&self) -> bool {
        let is_text = matches!(self.computed.as_deref(), Some(Expression::Text(_)));
        is_text && parts(&self.name.verbatim, "||").len() > 1
    }
}

fn has_letters(text: &str) -> bool {
    text.chars().any(char::is_alphanumeric)
}

/// Returns a separator whose signs may be escaped, as some languages write regular expressions:
/// `\\.`. `None` for an empty one, and for other expressions.
fn plain_separator(text: &str) -> Option<String> {
    let mut plain = String::new();
    let mut signs = text.chars();
    while let Some(sign) = signs.next() {
        let escaped = if sign == '\\' { signs.next() } else { None };
        match escaped {
            Some(escaped) if escaped.is_ascii_punctuation() => plain.push(escaped),
            Some(_) => return None,
            None if text.chars().count() > 1 && "[](){}*+?^$|".contains(sign) => return None,
            None => plain.push(sign),
        }
    }
    (!plain.is_empty()).then_some(plain)
}

/// Reads a whole number, which may have a minus sign. `None` if none is next.
fn signed(reader: &mut Reader<'_>) -> Option<i64> {
    let sign = if reader.eat("-") { -1 } else { 1 };
    let word = reader.peek_word();
    let number = word.parse::<i64>().ok()?;
    reader.eat(word);
    Some(sign * number)
}

/// Reads a field or a quoted text. If `is_text`, single quotes enclose texts only. `None` if
/// neither is next.
fn part(reader: &mut Reader<'_>, is_text: bool) -> Option<TextPart> {
    reader.skip_space();
    let mark = reader.peek()?;
    let start = reader.position();
    if let Some(text) = reader.quoted().ok()? {
        let is_end = !reader.rest().starts_with(['.', '[']);
        let is_text = is_text && mark == '\'' || reader.is_function() && mark != '`';
        if is_end && (is_text || !has_letters(&text)) {
            return Some(TextPart::of_text(text));
        }
        reader.reset(start);
        let field = Some(Box::new(Operand::read(reader).ok()?));
        // A backquote encloses names only.
        let text = Some(text).filter(|_| is_end && mark != '`');
        return Some(TextPart { text, field, is_unclear: false, piece: None });
    }
    let is_name = mark.is_alphabetic() || "_[$@".contains(mark);
    let field = Operand::read(reader).ok().filter(|_| is_name)?;
    Some(TextPart { text: None, field: Some(Box::new(field)), is_unclear: false, piece: None })
}
