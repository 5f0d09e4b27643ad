//! Removes the types of TypeScript from a program. Spaces replace them, so that positions in errors
//! remain.
//!
//! The sandbox uses the result only if the program is not valid JavaScript, so that errors of this
//! module cannot change a valid program. Constructs that are more than types, such as `enum`,
//! remain, and are syntax errors.

mod classes;
mod grammar;
mod tokens;

use std::ops::Range;

use self::tokens::{Token, TokenKind, tokens};

/// Words before `(` that are not names of functions.
const CONTROL: [&str; 6] = ["if", "for", "while", "switch", "with", "await"];

/// Returns a program without its types. `None` if it has no types that can be removed, or if a
/// text, a template or a comment is not closed.
pub(crate) fn without_types(program: &str) -> Option<String> {
    let tokens = tokens(program)?;
    let mut remover = Remover { tokens: &tokens, removed: Vec::new() };
    remover.statements();
    if remover.removed.is_empty() {
        return None;
    }
    let mut bytes = program.as_bytes().to_vec();
    for range in remover.removed {
        for byte in bytes.get_mut(range)? {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
    }
    String::from_utf8(bytes).ok()
}

struct Remover<'t> {
    tokens: &'t [Token<'t>],
    removed: Vec<Range<usize>>,
}

impl Remover<'_> {
    // Speed does not matter here, but size does.
    #[inline(never)]
    fn is(&self, at: usize, text: &str) -> bool {
        self.tokens.get(at).is_some_and(|token| token.is(text))
    }

    fn is_word(&self, at: usize) -> bool {
        self.tokens.get(at).is_some_and(|token| token.kind == TokenKind::Word)
    }

    /// Returns true if the token before the one at index `at` is `text`.
    #[inline(never)]
    fn is_after(&self, at: usize, text: &str) -> bool {
        at.checked_sub(1).is_some_and(|before| self.is(before, text))
    }

    fn begins_line(&self, at: usize) -> bool {
        self.tokens.get(at).is_none_or(|token| token.begins_line)
    }

    /// Marks the tokens with the indices `from..to` for removal.
    #[inline(never)]
    fn remove(&mut self, from: usize, to: usize) {
        if let (Some(first), Some(last)) =
            (self.tokens.get(from), to.checked_sub(1).and_then(|last| self.tokens.get(last)))
            && from < to
        {
            self.removed.push(first.start..last.end());
        }
    }

    /// Visits all tokens once, and removes types.
    fn statements(&mut self) {
        let mut at = 0;
        while let Some(token) = self.tokens.get(at) {
            let before = at.checked_sub(1).and_then(|before| self.tokens.get(before));
            let follows_expression =
                before.is_some_and(Token::ends_expression) && !token.begins_line;
            let begins_statement = token.begins_line
                || before.is_none_or(|before| matches!(before.text, ";" | "{" | "}"));
            at = match token.text {
                _ if token.kind == TokenKind::Literal => at + 1,
                "interface" | "type" | "declare" if begins_statement => self.declaration(at),
                "let" | "const" | "var" => self.binding(at + 1),
                "as" | "satisfies" if follows_expression => match self.type_at(at + 1, 0) {
                    Some(end) => {
                        self.remove(at, end);
                        end
                    }
                    None => at + 1,
                },
                // A prefix `!` cannot follow an expression on its line.
                "!" if follows_expression => {
                    self.remove(at, at + 1);
                    at + 1
                }
                "<" => self.type_arguments(at),
                "(" => self.parenthesis(at),
                "class" if !before.is_some_and(|before| before.is(".") || before.is("?.")) => {
                    self.class(at)
                }
                // The next binding of a declaration: `let a: A = 1, b: B`.
                "," if self.is_word(at + 1) && self.is(at + 2, ":") && self.in_declaration(at) => {
                    self.binding(at + 1)
                }
                _ => at + 1,
            };
        }
    }

    /// Returns true if the comma at index `at` separates bindings of a declaration.
    fn in_declaration(&self, at: usize) -> bool {
        let mut depth = 0_usize;
        for (at, token) in self.tokens.iter().enumerate().take(at).rev() {
            match token.text {
                ")" | "]" | "}" if token.kind == TokenKind::Mark => depth += 1,
                "(" | "[" | "{" if token.kind == TokenKind::Mark => match depth.checked_sub(1) {
                    Some(outer) => depth = outer,
                    None => return false,
                },
                // `as const` is no declaration.
                "const" if depth == 0 && self.is_after(at, "as") => {}
                "let" | "const" | "var" if depth == 0 => return true,
                ";" if depth == 0 => return false,
                _ => {}
            }
        }
        false
    }

    /// Removes `interface`, `type` and `declare` at the start of a statement. Returns the index of
    /// the token after it.
    fn declaration(&mut self, at: usize) -> usize {
        if !self.is_word(at + 1) || self.begins_line(at + 1) {
            return at + 1;
        }
        let end = if self.is(at, "type") {
            let mut equals = at + 2;
            if self.is(equals, "<") {
                equals = self.angle_end(equals, 0).unwrap_or(equals);
            }
            if !self.is(equals, "=") {
                return at + 1;
            }
            let end = self.type_at(equals + 1, 0);
            end.map(|end| if self.is(end, ";") { end + 1 } else { end })
        } else if self.is(at, "interface") {
            let open = (at..self.tokens.len()).find(|at| self.is(*at, "{"));
            open.and_then(|open| self.closing(open)).map(|close| close + 1)
        } else {
            Some(self.declared_end(at + 1))
        };
        match end {
            Some(end) => {
                self.remove(at, end);
                end
            }
            None => at + 1,
        }
    }

    /// Returns the index of the token at which a declaration without values ends: its semicolon, or
    /// the first token of the next line.
    fn declared_end(&self, mut at: usize) -> usize {
        while at < self.tokens.len() {
            if self.is(at, ";") {
                return at + 1;
            }
            let nested = ["(", "[", "{"].iter().any(|mark| self.is(at, mark));
            at = if nested { self.closing(at).unwrap_or(at) + 1 } else { at + 1 };
            if self.begins_line(at) {
                break;
            }
        }
        at
    }

    /// Removes the type of a binding: a name or a pattern. Returns the index of the token after it.
    fn binding(&mut self, at: usize) -> usize {
        let after = match self.tokens.get(at) {
            Some(token) if token.is("[") || token.is("{") => match self.closing(at) {
                Some(close) => close + 1,
                None => return at + 1,
            },
            Some(token) if token.kind == TokenKind::Word => at + 1,
            _ => return at,
        };
        let colon = if self.is(after, "!") { after + 1 } else { after };
        self.annotation(after, colon).unwrap_or(after)
    }

    /// Removes `: type` at `colon`, and the tokens before it from `from` on. Returns the index of
    /// the token after the type. `None` if no type follows.
    fn annotation(&mut self, from: usize, colon: usize) -> Option<usize> {
        if !self.is(colon, ":") {
            return None;
        }
        let end = self.type_at(colon + 1, 0)?;
        self.remove(from, end);
        Some(end)
    }

    /// Removes the types of parameters and of the result, if the parenthesis at `open` encloses
    /// parameters. Returns the index of the next token to visit.
    fn parenthesis(&mut self, open: usize) -> usize {
        let Some(close) = self.closing(open) else { return open + 1 };
        if !self.has_parameters(open, close) {
            return open + 1;
        }
        let end = self.signature(open, close);
        if let Some(function) = self.function_before(open)
            && !self.is(end, "{")
        {
            // A signature of an overloaded function.
            let end = if self.is(end, ";") { end + 1 } else { end };
            self.remove(function, end);
            return end;
        }
        // Default values and the parameters of functions in them are looked at next.
        open + 1
    }

    /// Returns the index of the declaration of a function whose parameters begin at `open`. `None`
    /// if there is none.
    fn function_before(&self, open: usize) -> Option<usize> {
        let name = self.before_type_parameters(open).checked_sub(1)?;
        let function = name.checked_sub(1).filter(|at| self.is(*at, "function"))?;
        match self.is_after(function, "async") {
            true => function.checked_sub(1),
            false => Some(function),
        }
    }

    /// Removes the types of parameters and of the result. Returns the index of the token after the
    /// result type.
    fn signature(&mut self, open: usize, close: usize) -> usize {
        let mut result = close + 1;
        if self.is(result, ":")
            && let Some(end) = self.type_at(close + 2, 0)
        {
            self.remove(close + 1, end);
            result = end;
        }
        let mut at = open + 1;
        if self.is(at, "this") {
            // The type of `this` is no parameter.
            let end = self.type_at(at + 2, 0).filter(|_| self.is(at + 1, ":")).unwrap_or(at);
            let end = if self.is(end, ",") { end + 1 } else { end };
            self.remove(at, end);
            at = end;
        }
        while at < close {
            if self.is(at, "...") {
                at += 1;
            }
            let after = match self.tokens.get(at) {
                Some(token) if token.is("[") || token.is("{") => {
                    self.closing(at).map_or(at + 1, |close| close + 1)
                }
                _ => at + 1,
            };
            let colon = if self.is(after, "?") { after + 1 } else { after };
            let end = self.annotation(after, colon);
            if end.is_none() && colon > after {
                self.remove(after, colon);
            }
            at = end.unwrap_or(colon);
            // A default value lasts to the next comma.
            while at < close && !self.is(at, ",") {
                let nested = ["(", "[", "{"].iter().any(|mark| self.is(at, mark));
                at = if nested { self.closing(at).unwrap_or(at) + 1 } else { at + 1 };
            }
            at += 1;
        }
        result
    }

    /// Returns true if the parenthesis encloses the parameters of a function.
    fn has_parameters(&self, open: usize, close: usize) -> bool {
        if self.is(close + 1, "=>") {
            return true;
        }
        let word_before = |at: usize| at.checked_sub(1).filter(|before| self.is_word(*before));
        let name = word_before(self.before_type_parameters(open));
        // `function*`, and generators among the methods of objects.
        let skip_star = |at: usize| if self.is_after(at, "*") { at - 1 } else { at };
        let is_named = |word: &str| name.is_some_and(|name| self.is(name, word));
        if is_named("function") || is_named("catch") && self.is(close + 1, "{") {
            return true;
        }
        let before_name = |name: usize| word_before(skip_star(name));
        if name.and_then(before_name).is_some_and(|before| self.is(before, "function")) {
            return true;
        }
        let is_control = CONTROL.iter().any(|word| is_named(word));
        if name.is_some() && !is_control && self.is(close + 1, "{") {
            return true;
        }
        if !self.is(close + 1, ":") {
            return false;
        }
        let Some(end) = self.type_at(close + 2, 0) else { return false };
        let is_method = name.is_some_and(|name| {
            let begins = ["{", "}", ",", ";", "async", "get", "set"];
            begins.iter().any(|one| self.is_after(skip_star(name), one))
        });
        self.is(end, "=>") || (is_method && self.is(end, "{"))
    }

    /// Returns the index of the type parameters that end before `open`, or `open` if there are
    /// none.
    fn before_type_parameters(&self, open: usize) -> usize {
        let mut depth = 0_usize;
        for at in (0..open).rev() {
            match self.tokens.get(at) {
                Some(token) if token.is(">") => depth += 1,
                Some(token) if token.is("<") => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                return if at + 1 == open { open } else { at };
            }
        }
        open
    }

    /// Removes type arguments or parameters at `at`, if there are any. Returns the index of the
    /// next token.
    fn type_arguments(&mut self, at: usize) -> usize {
        let before = at.checked_sub(1).and_then(|before| self.tokens.get(before));
        let Some(end) = self.angle_end(at, 0) else { return at + 1 };
        // Type parameters of an arrow function begin an expression, others follow a name.
        let follows_name = before.is_some_and(|token| token.kind == TokenKind::Word);
        let begins_expression = before.is_none_or(|token| !token.ends_expression());
        if (follows_name || begins_expression) && self.is(end, "(") {
            self.remove(at, end);
            return end;
        }
        at + 1
    }

    /// Returns the index of the bracket that closes the one at `open`. `None` if it is not closed.
    #[inline(never)]
    fn closing(&self, open: usize) -> Option<usize> {
        let mut depth = 0_usize;
        for (at, token) in self.tokens.iter().enumerate().skip(open) {
            if token.kind != TokenKind::Mark {
                continue;
            }
            match token.text {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => {
                    depth = depth.checked_sub(1)?;
                    if depth == 0 {
                        return Some(at);
                    }
                }
                _ => {}
            }
        }
        None
    }
}
