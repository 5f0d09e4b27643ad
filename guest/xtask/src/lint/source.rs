//! A file, split into lines of which each part is code, comment or string.

/// The language of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    Rust,
    Wit,
    Markdown,
}

/// The class of a character in a file: code, comment, literal or other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Code,
    Comment,
    /// The content of a string or character literal. Only in Rust.
    Literal,
}

/// A file that the lints check, divided into lines.
pub(super) struct Source {
    /// The path from the root of the workspace.
    pub(super) name: String,
    pub(super) language: Language,
    pub(super) lines: Vec<Line>,
}

/// A line of a file, with its text by class.
pub(super) struct Line {
    /// The number of the line, from 1.
    pub(super) number: usize,
    /// The whole line.
    pub(super) text: String,
    pub(super) code: String,
    /// The text of the line's comments in Rust and WIT, or its prose in Markdown.
    pub(super) comment: String,
    pub(super) literal: String,
    /// True if the line is after the first `#[cfg(test)]` of its file.
    pub(super) is_test: bool,
}

impl Source {
    /// Splits the text of the file `name` into lines. Returns none if the lints do not check its
    /// language.
    pub(super) fn parse(name: &str, text: &str) -> Option<Self> {
        let (language, classes) = match name.rsplit('.').next()? {
            "rs" => (Language::Rust, rust(text)),
            "wit" => (Language::Wit, wit(text)),
            "md" => (Language::Markdown, markdown(text)),
            _ => return None,
        };
        Some(Self { name: name.to_owned(), language, lines: lines(text, &classes) })
    }

    /// Returns the file path with the number of a line, for messages.
    pub(super) fn place(&self, line: &Line) -> String {
        format!("{}:{}", self.name, line.number)
    }

    /// Returns true if the file as a whole is a test, a bench or an example.
    pub(super) fn is_test(&self) -> bool {
        ["tests/", "benches/", "examples/"].iter().any(|folder| self.name.starts_with(folder))
            || self.name.contains("/tests/")
    }
}

fn lines(text: &str, classes: &[Class]) -> Vec<Line> {
    let mut is_test = false;
    let mut classes = classes.iter().copied();
    let mut lines = Vec::new();
    for (index, text) in text.split('\n').enumerate() {
        is_test |= text.trim_start().starts_with("#[cfg(test)]");
        let (mut code, mut comment, mut literal) = <(String, String, String)>::default();
        for (character, class) in text.chars().zip(&mut classes) {
            match class {
                Class::Code => code.push(character),
                Class::Comment => comment.push(character),
                Class::Literal => literal.push(character),
            }
        }
        // The line break has a class of its own.
        classes.next();
        let text = text.to_owned();
        lines.push(Line { number: index + 1, text, code, comment, literal, is_test });
    }
    lines
}

/// Classifies each character of a Markdown file: fenced code is code, all else is prose.
fn markdown(text: &str) -> Vec<Class> {
    let mut is_code = false;
    let mut classes = Vec::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let is_fence = line.trim_start().starts_with("```");
        let class = if is_code || is_fence { Class::Code } else { Class::Comment };
        is_code ^= is_fence;
        classes.extend(line.chars().map(|_| class));
    }
    classes
}

fn wit(text: &str) -> Vec<Class> {
    let mut classes = Vec::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let code = line.split("//").next().unwrap_or_default().chars().count();
        let all = line.chars().count();
        classes.extend(std::iter::repeat_n(Class::Code, code));
        classes.extend(std::iter::repeat_n(Class::Comment, all - code));
    }
    classes
}

/// Classifies each character of a Rust file.
fn rust(text: &str) -> Vec<Class> {
    let characters: Vec<char> = text.chars().collect();
    let mut scanner = Scanner { rest: &characters, classes: Vec::with_capacity(characters.len()) };
    while let Some(first) = scanner.rest.first() {
        match first {
            '/' if scanner.follows("//") => scanner.until(Class::Comment, "\n", None),
            '/' if scanner.follows("/*") => scanner.block_comment(),
            '"' => scanner.string(),
            'r' if scanner.starts_raw_string() => scanner.raw_string(),
            '\'' => scanner.quote(),
            _ => scanner.take(Class::Code, 1),
        }
    }
    scanner.classes
}

struct Scanner<'a> {
    rest: &'a [char],
    classes: Vec<Class>,
}

impl Scanner<'_> {
    fn take(&mut self, class: Class, count: usize) {
        let count = count.min(self.rest.len());
        self.classes.extend(std::iter::repeat_n(class, count));
        self.rest = self.rest.get(count..).unwrap_or_default();
    }

    fn follows(&self, expected: &str) -> bool {
        expected.chars().zip(self.rest).filter(|(one, other)| one == *other).count()
            == expected.chars().count()
    }

    /// Returns true if the `r` at the current position begins a raw string.
    fn starts_raw_string(&self) -> bool {
        let hashes = self.rest.iter().skip(1).take_while(|next| **next == '#').count();
        self.rest.get(hashes + 1) == Some(&'"')
    }

    /// Assigns `class` to everything before the text `end`, or to the rest of the file. `end` does
    /// not count directly after `escape`.
    fn until(&mut self, class: Class, end: &str, escape: Option<char>) {
        while !self.rest.is_empty() && !self.follows(end) {
            let is_escape = escape.is_some_and(|escape| self.rest.first() == Some(&escape));
            self.take(class, if is_escape { 2 } else { 1 });
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        loop {
            if self.follows("/*") {
                depth += 1;
                self.take(Class::Comment, 2);
            } else if self.follows("*/") {
                depth -= 1;
                self.take(Class::Comment, 2);
            } else {
                self.take(Class::Comment, 1);
            }
            if depth == 0 || self.rest.is_empty() {
                return;
            }
        }
    }

    fn string(&mut self) {
        self.take(Class::Code, 1);
        self.until(Class::Literal, "\"", Some('\\'));
        self.take(Class::Code, 1);
    }

    fn raw_string(&mut self) {
        let hashes = self.rest.iter().skip(1).take_while(|next| **next == '#').count();
        self.take(Class::Code, hashes + 2);
        self.until(Class::Literal, &format!("\"{}", "#".repeat(hashes)), None);
        self.take(Class::Code, hashes + 1);
    }

    /// Classifies the character literal, or the quote of a lifetime, at the current position.
    fn quote(&mut self) {
        let is_literal = self.rest.get(1) == Some(&'\\') || self.rest.get(2) == Some(&'\'');
        self.take(Class::Code, 1);
        if is_literal {
            let escaped = self.rest.first() == Some(&'\\');
            self.take(Class::Literal, if escaped { 2 } else { 1 });
            self.until(Class::Literal, "'", None);
            self.take(Class::Code, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_comments_and_literals_are_told_apart() {
        let text = "let a = \"// text \\\" end\"; // note \"x\"\nlet b = r#\"a \"b\" c\"#;\n\
                    let c: &'a [char] = &['\"', '\\''];\n/* one\ntwo */ let d;\n#[cfg(test)]\nx";
        let source = Source::parse("a.rs", text).unwrap();
        let part = |index: usize| {
            let line = &source.lines[index];
            (line.code.as_str(), line.comment.as_str(), line.literal.as_str())
        };
        assert_eq!(part(0), ("let a = \"\"; ", "// note \"x\"", "// text \\\" end"));
        assert_eq!(part(1), ("let b = r#\"\"#;", "", "a \"b\" c"));
        assert_eq!(part(2), ("let c: &'a [char] = &['', ''];", "", "\"\\'"));
        assert_eq!(part(4), (" let d;", "two */", ""));
        assert_eq!(source.lines.iter().filter(|line| line.is_test).count(), 2);
    }

    #[test]
    fn fenced_markdown_is_code() {
        let source = Source::parse("a.md", "one\n```sh\ntwo\n```\nthree").unwrap();
        let prose: Vec<_> = source.lines.iter().map(|line| line.comment.as_str()).collect();
        assert_eq!(prose, ["one", "", "", "", "three"]);
    }
}
