//! The lines that a program logs.

/// The maximum size of one logged line, in bytes.
const MAX_LINE_BYTES: usize = 1_000;

/// The logged lines of a run, up to a limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// The lines, each followed by a line break.
    pub text: String,
    /// The number of lines that exceeded the limit.
    pub omitted: u64,
}

impl Log {
    /// Adds a line, cut to 1,000 bytes. Counts the line as omitted if the log would exceed
    /// `max_bytes` bytes.
    pub(crate) fn add(&mut self, line: &str, max_bytes: usize) {
        let end = line.floor_char_boundary(MAX_LINE_BYTES);
        let (shown, rest) = line.split_at(end);
        if self.text.len() + shown.len() + 4 > max_bytes {
            self.omitted += 1;
            return;
        }
        self.text.push_str(shown);
        self.text.push_str(if rest.is_empty() { "\n" } else { "…\n" });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_limit_are_counted() {
        let mut log = Log::default();
        log.add("first", 20);
        log.add(&"x".repeat(30), 20);
        log.add("last", 20);
        assert_eq!((log.text.as_str(), log.omitted), ("first\nlast\n", 1));
        let mut log = Log::default();
        log.add(&"ä".repeat(600), 2_000);
        assert!(log.text.ends_with("…\n") && log.text.len() <= 1_004);
    }
}
