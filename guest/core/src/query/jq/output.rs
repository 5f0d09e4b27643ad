//! The results of programs as JSON.

use jaq_json::{Num, Val};

use super::limits::{MAX_DEPTH, Stop};

/// The results of a program as JSON, up to a maximum size.
pub(super) struct Output {
    bytes: Vec<u8>,
    count: usize,
    max_bytes: usize,
}

impl Output {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { bytes: Vec::new(), count: 0, max_bytes }
    }

    /// Returns the number of results.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Appends a result. Fails if the results exceed the maximum size.
    pub(super) fn push(&mut self, value: &Val) -> Result<(), Stop> {
        if self.count > 0 {
            self.bytes.push(b',');
        }
        self.count += 1;
        self.write(value, 0)
    }

    /// Returns the single result, or a JSON list of several.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        match self.count {
            1 => self.bytes,
            _ => [b"[".as_slice(), &self.bytes, b"]"].concat(),
        }
    }

    fn write(&mut self, value: &Val, depth: usize) -> Result<(), Stop> {
        if self.bytes.len() > self.max_bytes {
            return Err(Stop::Output);
        }
        if depth > MAX_DEPTH {
            return Err(Stop::Depth);
        }
        match value {
            Val::Null => self.bytes.extend_from_slice(b"null"),
            Val::Bool(value) => self.bytes.extend_from_slice(value.to_string().as_bytes()),
            Val::Num(number) => self.write_number(number),
            Val::TStr(text) | Val::BStr(text) => self.write_text(text),
            Val::Arr(list) => {
                self.bytes.push(b'[');
                for (at, value) in list.iter().enumerate() {
                    if at > 0 {
                        self.bytes.push(b',');
                    }
                    self.write(value, depth + 1)?;
                }
                self.bytes.push(b']');
            }
            Val::Obj(object) => {
                self.bytes.push(b'{');
                for (at, (key, value)) in object.iter().enumerate() {
                    if at > 0 {
                        self.bytes.push(b',');
                    }
                    match key {
                        Val::TStr(key) => self.write_text(key),
                        key => self.write_text(key.to_string().as_bytes()),
                    }
                    self.bytes.push(b':');
                    self.write(value, depth + 1)?;
                }
                self.bytes.push(b'}');
            }
        }
        Ok(())
    }

    fn write_text(&mut self, text: &[u8]) {
        self.bytes.extend(crate::json::text::quoted(&String::from_utf8_lossy(text)));
    }

    /// Writes a number. JSON has neither `NaN` nor infinity: jq writes null, and the largest
    /// number.
    fn write_number(&mut self, number: &Num) {
        let text = match number {
            Num::Float(float) if float.is_nan() => "null".to_owned(),
            Num::Float(float) if float.is_infinite() => {
                // All digits of these numbers exceed the range of some parsers.
                format!("{:e}", if *float > 0.0 { f64::MAX } else { f64::MIN })
            }
            // A whole result of a division has no decimal places, as in jq.
            Num::Float(float) if float.fract() == 0.0 && float.abs() < 1e17 => {
                format!("{float:.0}")
            }
            number => number.to_string(),
        };
        let text = if text == "-0" { "0" } else { &text };
        self.bytes.extend_from_slice(text.as_bytes());
    }
}
