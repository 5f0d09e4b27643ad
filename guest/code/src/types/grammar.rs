//! Finds the ends of types.

use super::Remover;
use super::tokens::TokenKind;

/// The maximum nesting depth of types. Deeper types remain, and are syntax errors.
const MAX_DEPTH: usize = 64;
/// Words that may precede a type as a part of it.
const TYPE_OPERATORS: [&str; 6] = ["keyof", "typeof", "readonly", "unique", "infer", "asserts"];
/// Keywords that cannot begin a type.
const NO_TYPES: [&str; 8] = ["function", "return", "await", "async", "class", "if", "for", "while"];

impl Remover<'_> {
    /// Returns the index of the token after `<…>` at `at`. `None` if it does not enclose types.
    #[inline(never)]
    pub(super) fn angle_end(&self, at: usize, depth: usize) -> Option<usize> {
        let mut at = at + 1;
        loop {
            // `const T extends U = V` in type parameters.
            if self.is(at, "const") {
                at += 1;
            }
            at = self.type_at(at, depth + 1)?;
            for word in ["extends", "="] {
                if self.is(at, word) {
                    at = self.type_at(at + 1, depth + 1)?;
                }
            }
            if self.is(at, ",") {
                at += 1;
                if !self.is(at, ">") {
                    continue;
                }
            }
            return self.is(at, ">").then_some(at + 1);
        }
    }

    /// Returns the index of the token after the type at `at`. `None` if there is no type.
    #[inline(never)]
    pub(super) fn type_at(&self, at: usize, depth: usize) -> Option<usize> {
        if depth > MAX_DEPTH {
            return None;
        }
        let mut at = if self.is(at, "|") || self.is(at, "&") { at + 1 } else { at };
        loop {
            at = self.part_of_type(at, depth)?;
            if self.is(at, "|") || self.is(at, "&") {
                at += 1;
                continue;
            }
            if self.is(at, "is") && !self.begins_line(at) {
                at += 1;
                continue;
            }
            return Some(self.conditional_end(at, depth).unwrap_or(at));
        }
    }

    /// Returns the index of the token after the conditions of a type, `extends A ? B : C`, at `at`.
    fn conditional_end(&self, at: usize, depth: usize) -> Option<usize> {
        if !self.is(at, "extends") {
            return None;
        }
        let question = self.type_at(at + 1, depth + 1)?;
        let colon = self.type_at(question + 1, depth + 1).filter(|_| self.is(question, "?"))?;
        self.type_at(colon + 1, depth + 1).filter(|_| self.is(colon, ":"))
    }

    /// Returns the index of the token after one part of a union type. `None` if there is no type.
    fn part_of_type(&self, mut at: usize, depth: usize) -> Option<usize> {
        let is_prefix = |at: usize| {
            let is_operator = TYPE_OPERATORS.iter().any(|word| self.is(at, word));
            is_operator && (self.is_word(at + 1) || self.is(at + 1, "["))
                || self.is(at, "new") && (self.is(at + 1, "(") || self.is(at + 1, "<"))
        };
        while is_prefix(at) {
            at += 1;
        }
        if self.is(at, "<") {
            // The type of a generic function.
            at = self.angle_end(at, depth + 1).filter(|end| self.is(*end, "("))?;
        }
        let token = self.tokens.get(at)?;
        let mut end = match token.text {
            _ if token.kind == TokenKind::Literal => at + 1,
            "-" => at + 2,
            "(" => {
                let close = self.closing(at)?;
                if self.is(close + 1, "=>") {
                    return self.type_at(close + 2, depth + 1);
                }
                close + 1
            }
            "[" | "{" => self.closing(at)? + 1,
            _ if token.kind == TokenKind::Word && !NO_TYPES.contains(&token.text) => {
                let mut end = at + 1;
                while self.is(end, ".") && self.is_word(end + 1) {
                    end += 2;
                }
                if self.is(end, "<") { self.angle_end(end, depth + 1)? } else { end }
            }
            _ => return None,
        };
        // Arrays and members of types: `T[]`, `T["a"]`.
        while self.is(end, "[") && !self.begins_line(end) {
            end = self.closing(end)? + 1;
        }
        Some(end)
    }
}
