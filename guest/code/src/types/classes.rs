//! Removes types from the heads and the members of classes.

use super::Remover;
use super::tokens::TokenKind;

/// Modifiers of class members in TypeScript only.
const TYPE_MODIFIERS: [&str; 7] =
    ["public", "private", "protected", "readonly", "abstract", "override", "declare"];
/// Modifiers of class members in both JavaScript and TypeScript.
const MODIFIERS: [&str; 6] = ["static", "async", "get", "set", "accessor", "*"];

impl Remover<'_> {
    /// Removes the types of the class whose keyword has the index `at`. Types inside its methods
    /// and values are removed later. Returns the index of the next token to visit.
    pub(super) fn class(&mut self, at: usize) -> usize {
        let is_abstract = at.checked_sub(1).filter(|before| self.is(*before, "abstract"));
        if let Some(before) = is_abstract {
            self.remove(before, at);
        }
        let mut open = at + 1;
        while !self.is(open, "{") {
            open = match self.tokens.get(open) {
                None => return at + 1,
                Some(token) if token.is("(") => self.closing(open).map_or(open + 1, |end| end + 1),
                Some(token) if token.is("<") => match self.angle_end(open, 0) {
                    Some(end) => {
                        self.remove(open, end);
                        end
                    }
                    None => open + 1,
                },
                Some(token) if token.is("implements") => {
                    let mut end = open + 1;
                    while let Some(next) = self.type_at(end, 0) {
                        end = next + 1;
                        if !self.is(next, ",") {
                            end = next;
                            break;
                        }
                    }
                    self.remove(open, end);
                    end
                }
                Some(_) => open + 1,
            };
        }
        if let Some(close) = self.closing(open) {
            let mut member = open + 1;
            while member < close {
                member = self.member(member, close).max(member + 1);
            }
        }
        open + 1
    }

    /// Returns true if the token at index `at` can be the name of a member, or begin it.
    fn begins_name(&self, at: usize) -> bool {
        self.tokens.get(at).is_some_and(|token| {
            token.kind != TokenKind::Mark || matches!(token.text, "[" | "{" | "*")
        })
    }

    /// Removes the types of the member at `from`. Returns the index of the token after it.
    fn member(&mut self, from: usize, close: usize) -> usize {
        let (mut at, mut is_declaration) = (from, false);
        loop {
            let is_any = |words: &[&str]| words.iter().any(|word| self.is(at, word));
            if !self.begins_name(at + 1) || self.is(at, "[") {
                break;
            }
            if is_any(&TYPE_MODIFIERS) {
                is_declaration |= is_any(&["abstract", "declare"]);
                self.remove(at, at + 1);
            } else if !is_any(&MODIFIERS) {
                break;
            }
            at += 1;
        }
        if self.is(at, "{") {
            // A static block.
            return self.closing(at).map_or(at, |end| end + 1);
        }
        // The name. That of an index signature is `[key: type]`.
        let is_computed = self.is(at, "[");
        is_declaration |= is_computed && self.is_word(at + 1) && self.is(at + 2, ":");
        at = if is_computed { self.closing(at).unwrap_or(at) + 1 } else { at + 1 };
        if self.is(at, "?") || self.is(at, "!") {
            self.remove(at, at + 1);
            at += 1;
        }
        if self.is(at, "<")
            && let Some(end) = self.angle_end(at, 0)
        {
            self.remove(at, end);
            at = end;
        }
        if self.is(at, "(") {
            let Some(end) = self.closing(at) else { return at + 1 };
            let body = self.signature(at, end);
            if self.is(body, "{") {
                return self.closing(body).map_or(body, |end| end + 1);
            }
            // A signature without a body.
            is_declaration = true;
            at = body;
        } else if let Some(end) = self.annotation(at, at) {
            at = end;
        }
        let end = self.value_end(at, close);
        if is_declaration {
            self.remove(from, end);
        }
        end
    }

    /// Returns the index of the token after the value of a field and its semicolon.
    fn value_end(&self, mut at: usize, close: usize) -> usize {
        let from = at;
        while at < close {
            let Some(token) = self.tokens.get(at) else { break };
            if token.is(";") {
                return at + 1;
            }
            let before = at.checked_sub(1).and_then(|before| self.tokens.get(before));
            let follows_value = before.is_some_and(super::Token::ends_expression);
            let is_new = token.begins_line && (token.kind != TokenKind::Mark || token.is("["));
            if is_new && (follows_value || at == from) {
                return at;
            }
            let nested = ["(", "[", "{"].iter().any(|mark| token.is(mark));
            at = if nested { self.closing(at).unwrap_or(at) + 1 } else { at + 1 };
        }
        close
    }
}
