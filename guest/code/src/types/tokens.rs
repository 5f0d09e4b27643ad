//! The tokens of a program, in the detail that removing types needs.

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// A name or a keyword.
    Word,
    /// A number, a text, a template or a regular expression.
    Literal,
    /// One character, or `=>`, `?.`, `??`, `!=`, `==`, `...`.
    Mark,
}

/// A token of a program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'p> {
    pub(super) kind: TokenKind,
    pub(super) text: &'p str,
    /// The byte offset of the token in the program.
    pub(super) start: usize,
    /// True if a line break precedes the token.
    pub(super) begins_line: bool,
}

impl Token<'_> {
    pub(super) fn end(&self) -> usize {
        self.start + self.text.len()
    }

    pub(super) fn is(&self, text: &str) -> bool {
        self.kind != TokenKind::Literal && self.text == text
    }

    /// Returns true if an expression may end with this token.
    pub(super) fn ends_expression(&self) -> bool {
        match self.kind {
            TokenKind::Word => !EXPRESSION_FOLLOWS.contains(&self.text),
            TokenKind::Literal => true,
            TokenKind::Mark => matches!(self.text, ")" | "]" | "}"),
        }
    }
}

/// Keywords that may precede an expression.
const EXPRESSION_FOLLOWS: [&str; 16] = [
    "return",
    "typeof",
    "case",
    "do",
    "else",
    "in",
    "of",
    "instanceof",
    "new",
    "void",
    "delete",
    "throw",
    "await",
    "yield",
    "extends",
    "default",
];
/// Marks of more than one character. All others are single characters: `>>` of nested type
/// arguments is two marks.
const LONG_MARKS: [&str; 6] = ["...", "=>", "?.", "??", "!=", "=="];

/// Returns the tokens of a program. `None` if a text, a template or a comment is not closed.
pub(super) fn tokens(program: &str) -> Option<Vec<Token<'_>>> {
    let mut found: Vec<Token<'_>> = Vec::new();
    let (mut at, mut begins_line) = (0, true);
    while let Some(rest) = program.get(at..).filter(|rest| !rest.is_empty()) {
        let first = rest.chars().next()?;
        if first.is_whitespace() {
            begins_line |= first == '\n';
            at += first.len_utf8();
            continue;
        }
        if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
            continue;
        }
        if rest.starts_with("/*") {
            let end = rest.find("*/")? + 2;
            begins_line |= rest.get(..end)?.contains('\n');
            at += end;
            continue;
        }
        let (kind, length) = if is_word(first) || first == '#' {
            let end = rest.char_indices().skip(1).find(|(_, next)| !is_word(*next));
            let kind = if first.is_ascii_digit() { TokenKind::Literal } else { TokenKind::Word };
            (kind, end.map_or(rest.len(), |(end, _)| end))
        } else if first == '"' || first == '\'' {
            (TokenKind::Literal, quoted(rest, first)?)
        } else if first == '`' {
            (TokenKind::Literal, template(rest)?)
        } else if first == '/' && !found.last().is_some_and(Token::ends_expression) {
            (TokenKind::Literal, regular_expression(rest)?)
        } else {
            let long = LONG_MARKS.iter().find(|mark| rest.starts_with(*mark));
            (TokenKind::Mark, long.map_or(first.len_utf8(), |mark| mark.len()))
        };
        found.push(Token { kind, text: rest.get(..length)?, start: at, begins_line });
        begins_line = false;
        at += length;
    }
    Some(found)
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '$')
}

/// Returns the length of a quoted text, in bytes. `None` if it is not closed.
fn quoted(rest: &str, quote: char) -> Option<usize> {
    let mut characters = rest.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => drop(characters.next()),
            '\n' => return None,
            end if end == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// Returns the length of a template, in bytes, including its expressions. `None` if it is not
/// closed.
fn template(rest: &str) -> Option<usize> {
    let bytes = rest.as_bytes();
    let mut at = 1;
    loop {
        match bytes.get(at)? {
            b'\\' => at += 2,
            b'`' => return Some(at + 1),
            b'$' if bytes.get(at + 1) == Some(&b'{') => at = substitution(rest, at + 2)?,
            _ => at += 1,
        }
    }
}

/// Returns the byte offset after the expression in a template that begins at `at`. `None` if it is
/// not closed.
fn substitution(rest: &str, mut at: usize) -> Option<usize> {
    let mut depth = 1;
    while depth > 0 {
        match rest.as_bytes().get(at)? {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            b'`' => at += template(rest.get(at..)?)? - 1,
            quote @ (b'"' | b'\'') => at += quoted(rest.get(at..)?, char::from(*quote))? - 1,
            _ => {}
        }
        at += 1;
    }
    Some(at)
}

/// Returns the length of a regular expression with its flags, in bytes. `None` if it is not closed.
fn regular_expression(rest: &str) -> Option<usize> {
    let (mut is_escaped, mut in_class) = (false, false);
    for (at, character) in rest.char_indices().skip(1) {
        match character {
            '\n' => return None,
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '[' => in_class = true,
            ']' => in_class = false,
            '/' if !in_class => {
                let flags = rest.get(at + 1..)?;
                let end = flags.find(|next| !is_word(next)).unwrap_or(flags.len());
                return Some(at + 1 + end);
            }
            _ => {}
        }
    }
    None
}
