//! The parts of a text that is joined from fields.

use super::Operand;
use crate::json::outline::{NodeId, Outline};
use crate::query::reader::is_word_character;
use crate::query::records::RecordSet;
use crate::query::value::{Value, quote};

/// A text that is joined from parts.
#[derive(Clone, Debug)]
pub(in crate::query) struct JoinedText {
    pub(super) parts: Vec<TextPart>,
    pub(super) nulls: NullParts,
    /// True if a part is null in some records. False before [`JoinedText::bind`].
    has_null: bool,
}

/// The meaning of a part that is null.
#[derive(Clone, Debug)]
pub(super) enum NullParts {
    /// The whole text is null, as in SQL.
    Null,
    /// The whole text is null here, and other databases leave the part out.
    Unclear,
    /// The part is left out, with this separator.
    Separated(String),
}

/// A part of a joined text. With a text and a field, it is the field if a record has it.
#[derive(Clone, Debug)]
pub(in crate::query) struct TextPart {
    pub(super) text: Option<String>,
    pub(super) field: Option<Box<Operand>>,
    /// True if a text in quotes cannot be told from the name of a field.
    pub(super) is_unclear: bool,
    /// The piece of the text that is the part. `None` for the whole text.
    pub(super) piece: Option<Piece>,
}

/// A piece of a text between separators.
#[derive(Clone, Debug)]
pub(in crate::query) struct Piece {
    pub(super) separator: String,
    /// The index of the piece, from 0. Negative indexes count from the end, from -1.
    pub(super) index: i64,
    /// True if the caller counts from 0, as not all languages do.
    pub(super) is_zero_based: bool,
}

impl Piece {
    /// Returns the piece of a text. `None` if the text has too few pieces.
    fn cut<'t>(&self, text: &'t str) -> Option<&'t str> {
        let at = usize::try_from(self.index.unsigned_abs()).ok()?;
        let separator = self.separator.as_str();
        match self.index < 0 {
            true => text.rsplit(separator).nth(at.checked_sub(1)?),
            false => text.split(separator).nth(at),
        }
    }
}

impl TextPart {
    pub(super) fn of_text(text: String) -> Self {
        Self { text: Some(text), field: None, is_unclear: false, piece: None }
    }

    pub(super) fn of_piece(field: Operand, piece: Piece) -> Self {
        Self { text: None, field: Some(Box::new(field)), is_unclear: false, piece: Some(piece) }
    }

    /// Finds the path of the field in the records.
    ///
    /// # Errors
    /// Returns a message for the caller if no record has a field, or if the part may be a text or a
    /// field.
    fn bind(&mut self, records: &RecordSet<'_>, all: &[NodeId]) -> Result<(), String> {
        let Some(field) = &mut self.field else { return Ok(()) };
        match (field.bind(records, all), &self.text) {
            (Err(_), Some(_)) => self.field = None,
            (Err(reason), None) => return Err(reason),
            (Ok(()), Some(text)) if self.is_unclear => {
                return Err(format!(
                    "{0} is a text, and the name of a field: write [{text}] for the field, or {0} in single quotes in concat(…) for the text",
                    quote(text)
                ));
            }
            (Ok(()), _) => self.text = None,
        }
        Ok(())
    }

    /// Returns the text of the part. An empty option inside is null. `None` if a field has several
    /// values, or is a list or an object.
    fn value(&self, outline: &Outline<'_>, id: NodeId) -> Option<Option<String>> {
        let Some(field) = &self.field else { return Some(self.text.clone()) };
        let (mut text, mut is_known, mut count) = (None, true, 0);
        field.visit(outline, id, &mut |value: Value<'_>| {
            text = value.text().map(str::to_owned);
            is_known = text.is_some() || value == Value::Null;
            count += 1;
        });
        let text = match &self.piece {
            Some(piece) => text.and_then(|text| piece.cut(&text).map(str::to_owned)),
            None => text,
        };
        (is_known && count < 2).then_some(text)
    }
}

impl JoinedText {
    /// Creates a text from its parts. A text in quotes beside the name of a field without quotes is
    /// unclear if it may be another one: always if `is_sum`, otherwise if the name needs no quotes.
    pub(super) fn new(mut parts: Vec<TextPart>, nulls: NullParts, is_sum: bool) -> Self {
        let has_name = parts.iter().any(|part| part.field.is_some() && part.text.is_none());
        for part in &mut parts {
            let needs_quotes =
                part.text.as_ref().is_some_and(|text| !text.chars().all(is_word_character));
            part.is_unclear = has_name && part.text.is_some() && (is_sum || !needs_quotes);
        }
        Self { parts, nulls, has_null: false }
    }

    /// Calls `visit` with each field.
    pub(super) fn each_field<'t>(&'t self, visit: impl FnMut(&'t Operand)) {
        self.parts.iter().filter_map(|part| part.field.as_deref()).for_each(visit);
    }

    /// Removes the first `depth` steps of the paths of all fields.
    pub(super) fn strip(&mut self, depth: usize) {
        let fields = self.parts.iter_mut().filter_map(|part| part.field.as_deref_mut());
        fields.for_each(|field| field.strip(depth));
    }

    /// Finds the paths of the fields in the records.
    ///
    /// # Errors
    /// Returns a message for the caller if no record has a field, or if no part is a field.
    pub(super) fn bind(&mut self, records: &RecordSet<'_>, all: &[NodeId]) -> Result<(), String> {
        self.parts.iter_mut().try_for_each(|part| part.bind(records, all))?;
        if !self.parts.iter().any(|part| part.field.is_some()) {
            return Err("no part of the joined text is a field of the records".to_owned());
        }
        let is_null = |part: &TextPart, id| part.value(&records.outline, id) == Some(None);
        self.has_null = matches!(self.nulls, NullParts::Unclear)
            && all.iter().any(|id| self.parts.iter().any(|part| is_null(part, *id)));
        Ok(())
    }

    /// Returns a note on parts that are null, or on how they are counted. `None` if there are none,
    /// or all languages agree.
    pub(super) fn null_note(&self) -> Option<String> {
        let piece = self.parts.first().and_then(|part| part.piece.as_ref());
        if piece.is_some_and(|piece| piece.is_zero_based && piece.index > 0) {
            return Some("the parts of split are counted from 0".to_owned());
        }
        self.has_null.then(|| {
            "concat of a null is null here; concat_ws('', a, b) leaves nulls out".to_owned()
        })
    }

    /// Returns the text of all parts. `None` if a field has no value, or several.
    pub(super) fn joined(&self, outline: &Outline<'_>, id: NodeId) -> Option<String> {
        let mut texts = Vec::new();
        for part in &self.parts {
            match (part.value(outline, id)?, &self.nulls) {
                (Some(text), _) => texts.push(text),
                (None, NullParts::Separated(_)) => {}
                (None, _) => return None,
            }
        }
        let separator = match &self.nulls {
            NullParts::Separated(separator) => separator.as_str(),
            _ => "",
        };
        Some(texts.join(separator))
    }
}
