//! A reader of query expressions: the characters of `where` and `aggregate`, with positions for
//! errors.

/// The maximum number of comparisons or totals in one expression. Each is evaluated for every
/// record.
const MAX_PARTS: usize = 64;
/// The maximum length, in bytes, of an expression.
pub(super) const MAX_BYTES: usize = 4_096;
/// The maximum depth of parentheses in an expression.
const MAX_DEPTH: usize = 32;

/// The quotes that enclose a text, as opening and closing quote.
const QUOTES: [(char, char); 5] =
    [('"', '"'), ('\'', '\''), ('`', '`'), ('\u{201c}', '\u{201d}'), ('\u{2018}', '\u{2019}')];

/// The way to compare the elements of a list with their record.
pub(super) const ELEMENTS_WITH_RECORD: &str = "to compare the elements of a list with their record, write jq such as [.[] | . as $r | select(any(.list[]; .a != $r.b))]";

/// A reader of an expression.
#[derive(Clone, Debug)]
pub(super) struct Reader<'t> {
    /// The name of the argument that contains the expression, for errors.
    argument: &'static str,
    text: &'t str,
    at: usize,
    parts: usize,
    depth: usize,
    /// The number of functions around the position.
    calls: usize,
    /// True if names may contain colons, because no comparison with `:` can follow.
    joins_colons: bool,
    /// True in the body of a function of an element, whose names begin with `@`.
    is_function: bool,
}

/// A position in an expression to which a reader can return.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position(usize);

impl<'t> Reader<'t> {
    /// Creates a reader for the argument `argument`.
    ///
    /// # Errors
    /// Returns a message for the caller if the expression is too long.
    pub(super) fn new(argument: &'static str, text: &'t str) -> Result<Self, String> {
        // The length also bounds the text that later errors repeat.
        if text.len() > MAX_BYTES {
            return Err(format!(
                "{argument} has {} bytes; at most {MAX_BYTES} are accepted: ask for fewer things, or make several calls",
                text.len()
            ));
        }
        let joins_colons = argument == "aggregate";
        Ok(Self {
            argument,
            text,
            at: 0,
            parts: 0,
            depth: 0,
            calls: 0,
            joins_colons,
            is_function: false,
        })
    }

    /// Creates a reader for a converted part of this expression. It continues the counts of parts
    /// and depth.
    pub(super) fn inner<'i>(&self, text: &'i str) -> Reader<'i> {
        let Self { argument, parts, depth, calls, joins_colons, is_function, .. } = *self;
        Reader { argument, text, at: 0, parts, depth, calls, joins_colons, is_function }
    }

    /// Creates a reader for the body of a function of an element. Its names begin with `@`, the
    /// element: other names are those of variables outside of the function.
    pub(super) fn function<'i>(&self, body: &'i str) -> Reader<'i> {
        Reader { is_function: true, ..self.inner(body) }
    }

    /// Returns true if the expression is a condition on records, in which totals are those of lists
    /// in a record.
    pub(super) fn names_records(&self) -> bool {
        self.argument == "where"
    }

    /// Returns true in the body of a function of an element.
    pub(super) fn is_function(&self) -> bool {
        self.is_function
    }

    /// Checks that a name or a value without quotes is not that of a variable outside of the
    /// function of an element.
    ///
    /// # Errors
    /// Returns a message for the caller that says how the element is compared.
    pub(super) fn check_variable(&self, name: &str) -> Result<(), String> {
        let is_element = name.starts_with('@') || name.starts_with("['@']");
        if !self.is_function || is_element {
            return Ok(());
        }
        Err(self.error(&format!(
            "{name} does not belong to the element: put texts in quotes; {ELEMENTS_WITH_RECORD}"
        )))
    }

    /// Accepts colons in names from now on, as in `order by dc:date`.
    pub(super) fn join_colons(&mut self) {
        self.joins_colons = true;
    }

    /// Returns true if the next colon joins a prefix and a name, as in `dc:creator`. In a
    /// condition, where `:` is also an operator, another operator must follow the name.
    /// `is_operator` returns true if an operator is next.
    pub(super) fn is_prefix_end(&self, is_operator: impl Fn(&mut Self) -> bool) -> bool {
        let mut rest = self.clone();
        let is_colon = rest.next() == Some(':');
        let is_name = rest.peek().is_some_and(|next| next.is_alphabetic() || next == '_');
        while rest.peek().is_some_and(|next| is_word_character(next) || "-.".contains(next)) {
            rest.next();
        }
        is_colon && is_name && (self.joins_colons || is_operator(&mut rest))
    }

    /// Returns true if the text before the current position ends with `symbol`.
    pub(super) fn is_after(&self, symbol: &str) -> bool {
        self.text.get(..self.at).is_some_and(|before| before.ends_with(symbol))
    }

    /// Counts a comparison or total.
    ///
    /// # Errors
    /// Returns a message for the caller if there are too many.
    pub(super) fn count_part(&mut self) -> Result<(), String> {
        self.parts += 1;
        if self.parts > MAX_PARTS {
            let rest = self.rest().split([',', ';']).filter(|part| !part.trim().is_empty());
            return Err(format!(
                "{} has {} parts; at most {MAX_PARTS} are accepted: ask for fewer things, or make several calls",
                self.argument,
                MAX_PARTS + rest.count()
            ));
        }
        Ok(())
    }

    /// Enters a parenthesis or a negation, which [`Reader::leave`] ends.
    ///
    /// # Errors
    /// Returns a message for the caller if the expression is nested too deeply.
    pub(super) fn enter(&mut self) -> Result<(), String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error(&format!("it is nested deeper than {MAX_DEPTH} levels")));
        }
        Ok(())
    }

    /// Leaves a parenthesis or negation that [`Reader::enter`] entered.
    pub(super) fn leave(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    /// Creates a reader of the arguments of a function, which are next.
    pub(super) fn within_call(&self) -> Self {
        Self { calls: self.calls + 1, ..self.clone() }
    }

    /// Returns the number of functions around the position.
    pub(super) fn calls(&self) -> usize {
        self.calls
    }

    /// Continues after the arguments of a function, which `inner` has read.
    pub(super) fn after_call(&mut self, inner: Self) {
        *self = Self { calls: self.calls, ..inner };
    }

    /// Returns the current position.
    pub(super) fn position(&self) -> Position {
        Position(self.at)
    }

    /// Returns to an earlier position.
    pub(super) fn reset(&mut self, position: Position) {
        self.at = position.0;
    }

    /// Returns the text from `start` to the current position, trimmed.
    pub(super) fn since(&self, start: Position) -> &'t str {
        self.text.get(start.0..self.at).unwrap_or_default().trim()
    }

    /// Returns the whole text.
    pub(super) fn whole(&self) -> &'t str {
        self.text
    }

    /// Returns the text after the current position.
    pub(super) fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Returns an error at the current position, for the reason `reason`.
    pub(super) fn error(&self, reason: &str) -> String {
        let rest: String = self.rest().trim_start().chars().take(40).collect();
        let place = if rest.is_empty() { "at its end".to_owned() } else { format!("at {rest:?}") };
        format!("{} cannot be read {place}: {reason}", self.argument)
    }

    /// Skips white space.
    pub(super) fn skip_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// Returns true if only white space is left.
    pub(super) fn is_at_end(&mut self) -> bool {
        self.skip_space();
        self.rest().is_empty()
    }

    /// Returns the next character without reading it. `None` at the end.
    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Reads the next character. `None` at the end.
    pub(super) fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    /// Reads `symbol` after white space. Returns false, and reads nothing, if something else
    /// follows.
    pub(super) fn eat(&mut self, symbol: &str) -> bool {
        let start = self.at;
        self.skip_space();
        if self.rest().starts_with(symbol) {
            self.at += symbol.len();
            return true;
        }
        self.at = start;
        false
    }

    /// Reads the parenthesis that closes the arguments of a call.
    ///
    /// # Errors
    /// Returns a message for the caller if something else follows.
    pub(super) fn close(&mut self) -> Result<(), String> {
        if self.eat(")") {
            return Ok(());
        }
        Err(self.error("a closing parenthesis is missing here"))
    }

    /// Reads the size of a type, such as `(10, 2)`, if it is next.
    ///
    /// # Errors
    /// Returns a message for the caller if the parenthesis is not closed after the numbers.
    pub(super) fn type_size(&mut self) -> Result<(), String> {
        if !self.eat("(") {
            return Ok(());
        }
        while self.peek().is_some_and(|c| c.is_ascii_digit() || ", ".contains(c)) {
            self.next();
        }
        self.close()
    }

    /// Returns the next word after white space, without reading it. Empty if no word follows.
    pub(super) fn peek_word(&self) -> &'t str {
        let rest = self.rest().trim_start();
        let end = rest.find(|c: char| !is_word_character(c)).unwrap_or(rest.len());
        rest.get(..end).unwrap_or_default()
    }

    /// Reads a unit at the end of a name, in parentheses or `%`, as in `Mass (g) > 5`. `follows`
    /// returns true if the rest of the expression can follow a name. `None` if no unit is next.
    pub(super) fn unit(&mut self, follows: impl Fn(&mut Self) -> bool) -> Option<&'t str> {
        let start = self.at;
        let inside = |c: char| c.is_alphanumeric() || " _%/.°-$€£¥₹²³".contains(c);
        self.skip_space();
        let begin = self.at;
        if self.eat("%") && follows(&mut self.clone()) {
            return self.text.get(begin..self.at);
        }
        self.at = begin;
        if self.eat("(") {
            while self.peek().is_some_and(inside) {
                self.next();
            }
            if self.peek() == Some(')') && self.next().is_some() && follows(&mut self.clone()) {
                return self.text.get(begin..self.at);
            }
        }
        self.at = start;
        None
    }

    /// Reads one of the keywords `words` after white space, ignoring case. A keyword may have
    /// several words. Returns the keyword. `None`, with nothing read, if none is next.
    pub(super) fn keyword(&mut self, words: &[&'static str]) -> Option<&'static str> {
        words.iter().find(|keyword| self.eat_keyword(keyword)).copied()
    }

    fn eat_keyword(&mut self, keyword: &str) -> bool {
        let start = self.at;
        for word in keyword.split(' ') {
            if !self.peek_word().eq_ignore_ascii_case(word) {
                self.at = start;
                return false;
            }
            self.skip_space();
            self.at += word.len();
        }
        // `order.id` and `not-found` are names. A word before any other sign, such as `count:`, is
        // a keyword.
        let mut rest = self.rest().chars();
        let next = rest.next();
        let is_hyphened = next == Some('-') && rest.next().is_some_and(char::is_alphabetic);
        if is_hyphened || next.is_some_and(|next| is_word_character(next) || next == '.') {
            self.at = start;
            return false;
        }
        true
    }

    /// Reads the prefix of a quoted text in Python and SQL, such as `r'\d'` and `N'x'`. Returns
    /// true if backslashes have no effect in the text.
    ///
    /// # Errors
    /// Returns a message for the caller if the text may contain variables.
    fn prefix(&mut self) -> Result<bool, String> {
        let word = self.peek_word();
        let is_prefix = ["r", "b", "u", "f", "n", "e", "rb", "br"]
            .iter()
            .any(|known| known.eq_ignore_ascii_case(word));
        let mut after = self.rest().get(word.len()..).unwrap_or_default().chars();
        let mark = after.next().filter(|mark| is_prefix && matches!(mark, '\'' | '"'));
        let Some(mark) = mark else { return Ok(false) };
        let has_variable = after.take_while(|next| *next != mark).any(|next| next == '{');
        if word.eq_ignore_ascii_case("f") && has_variable {
            return Err(self.error("an f-string has variables: write the text itself"));
        }
        self.at += word.len();
        Ok(word.contains(['r', 'R']))
    }

    /// Reads a quoted text after white space. A backslash or a doubled quote escapes the quote,
    /// except in a raw text such as `r'\d'`. `\n` and `\t` are a line break and a tab, except in a
    /// path of Windows. `None` if no quote is next.
    ///
    /// # Errors
    /// Returns a message for the caller if the closing quote is missing.
    pub(super) fn quoted(&mut self) -> Result<Option<String>, String> {
        let start = self.at;
        self.skip_space();
        let is_raw = self.prefix()?;
        let Some((_, close)) = QUOTES.iter().find(|(open, _)| self.peek() == Some(*open)) else {
            self.at = start;
            return Ok(None);
        };
        self.next();
        let mut text = String::new();
        while let Some(next) = self.next() {
            match next {
                '\\' if is_raw => {
                    text.push('\\');
                    text.extend(self.next());
                }
                '\\' => match self.next() {
                    Some(letter @ ('n' | 't')) if begins_with_drive(&text) => {
                        text.extend(['\\', letter]);
                    }
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some(escaped) if escaped == *close || escaped == '\\' => text.push(escaped),
                    // Regular expressions keep their escapes.
                    Some(other) => text.extend(['\\', other]),
                    None => break,
                },
                next if next == *close => {
                    if self.peek() != Some(*close) {
                        return Ok(Some(text));
                    }
                    self.next();
                    text.push(next);
                }
                next => text.push(next),
            }
        }
        self.at = start;
        Err(self.error("the closing quote is missing"))
    }
}

/// Returns true if a text is a drive of Windows, such as `C:`, or a path that begins with one.
fn begins_with_drive(text: &str) -> bool {
    let mut signs = text.chars();
    let is_drive = signs.next().is_some_and(|letter| letter.is_ascii_alphabetic());
    is_drive && signs.next() == Some(':') && matches!(signs.next(), None | Some('\\'))
}

/// Returns true if a character can be part of a word of an expression.
pub(super) fn is_word_character(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_end_with_the_word() {
        let mut reader = Reader::new("where", "Order  BY android").unwrap();
        assert_eq!(reader.keyword(&["order by"]), Some("order by"));
        assert_eq!(reader.keyword(&["and"]), None);
        assert_eq!(reader.peek_word(), "android");
        for name in ["order.id=1", "order-id=1"] {
            assert_eq!(Reader::new("where", name).unwrap().keyword(&["order"]), None);
        }
        assert_eq!(Reader::new("where", "not -x").unwrap().keyword(&["not"]), Some("not"));
    }

    #[test]
    fn quotes_are_escaped() {
        let read = |text| Reader::new("where", text).unwrap().quoted();
        assert_eq!(read(" 'it''s' x"), Ok(Some("it's".to_owned())));
        assert_eq!(read(r#""a\"b\\d\d""#), Ok(Some(r#"a"b\d\d"#.to_owned())));
        assert_eq!(read(r"'C:\temp\new'"), Ok(Some(r"C:\temp\new".to_owned())));
        assert_eq!(read(r"'C:\\temp\\new'"), Ok(Some(r"C:\temp\new".to_owned())));
        assert_eq!(read(r"'a:\tb\n'"), Ok(Some("a:\\tb\\n".to_owned())));
        assert_eq!(read(r"'name:\tb\n'"), Ok(Some("name:\tb\n".to_owned())));
        assert_eq!(read("\u{201c}a\u{201d}"), Ok(Some("a".to_owned())));
        assert_eq!(read("a"), Ok(None));
        assert!(read("'a").unwrap_err().contains("closing quote"));
    }

    #[test]
    fn expressions_are_bounded() {
        let long = Reader::new("aggregate", &"x".repeat(4_097)).unwrap_err();
        assert!(long.contains("aggregate has 4097 bytes; at most 4096"), "{long}");
        let mut reader = Reader::new("where", "b=2, c=3").unwrap();
        for _ in 0..64 {
            reader.count_part().unwrap();
        }
        let many = reader.count_part().unwrap_err();
        assert!(many.contains("where has 66 parts; at most 64"), "{many}");
        assert!((0..33).any(|_| reader.enter().is_err()));
    }
}
