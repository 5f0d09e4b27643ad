//! Failed tests in the output of test runners: pytest, unittest, cargo, Go, GoogleTest, TAP, Jest,
//! Vitest, Mocha, Node, Gradle, .NET and others that mark results similarly.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::colours::without_colours;
use super::lines::IndexedText;

/// The number of lines at the start and at the end of a text that are searched for test results. At
/// least as many lines between them are searched, too.
const SAMPLE_LINES: usize = 200;
/// The minimum number of results, passed or failed, in the output of a test runner. Fewer suffice
/// only in a form that no other text has.
const MIN_RESULTS: usize = 3;
/// The maximum number of lines of a failed test, including the runner's report.
const MAX_LINES: usize = 8;

/// The forms in which runners report a failed test. Forms with the full name and the reason come
/// first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Form {
    /// `FAILED tests/a.py::test_b - assert 1 == 2`, the summary of pytest.
    Summary,
    /// `--- FAIL: TestA (0.00s)`, `FAIL: test_a (module.Class)`, `[  FAILED  ] Suite.Test`.
    Heading,
    /// `not ok 3 - name` (TAP).
    NotOk,
    /// `● suite › name`, `FAIL file > suite > name`.
    Path,
    /// `✕ name`, `✗ name`, `❌ name`.
    Mark,
    /// `test a::b ... FAILED`, `a.py::test_b FAILED [ 3%]`, `Class > test FAILED`.
    Verdict,
}

/// The outcome of a test that a line reports.
enum Outcome {
    Passed,
    Failed(Form),
}

/// A failed test in the output of a test runner.
#[derive(Clone, Debug)]
pub struct FailedTest<'t> {
    /// The number of the line that names the test, from 0.
    pub line: usize,
    /// The number of lines, including those with the reason of the failure.
    pub length: usize,
    /// The line that names the test, decoded and without ANSI escape sequences.
    pub says: Cow<'t, [u8]>,
    /// The byte offset in `says` after the time of a log.
    pub message: usize,
}

/// The failed tests of a text.
#[derive(Clone, Debug)]
pub struct TestFailures<'t> {
    /// The failed tests, in the order of the text.
    pub tests: Vec<FailedTest<'t>>,
    /// True if the lines of `tests` have names only, and other lines have the reasons.
    pub are_names: bool,
}

/// Returns the failed tests of a text, in the order of the text. Each has the lines that follow it,
/// unless its form has the reason in one line or elsewhere. Of several reports of one test, the
/// last counts. `start` returns the byte offset of the message in a line, after the time of a log.
/// `None` if the text is not the output of a test runner, or if no test failed. O(n).
///
/// A runner may report a failed test in several forms. The most informative one is used.
#[must_use]
pub fn test_failures<'t>(
    text: &IndexedText<'t>,
    start: impl Fn(&[u8]) -> usize,
) -> Option<TestFailures<'t>> {
    let outcome = |at: usize| {
        let line = without_colours(text.line(at));
        line.get(start(&line)..).and_then(outcome)
    };
    let count = text.len();
    let stride = (count / SAMPLE_LINES).max(1);
    let sample = || {
        (0..count.min(SAMPLE_LINES))
            .chain((0..count).step_by(stride))
            .chain(count.saturating_sub(SAMPLE_LINES)..count)
    };
    sample().find(|at| outcome(*at).is_some())?;
    let mut results = 0;
    let mut failed: Vec<(usize, Form)> = Vec::new();
    for at in 0..count {
        match outcome(at) {
            Some(Outcome::Passed) => results += 1,
            Some(Outcome::Failed(form)) => {
                results += 1;
                failed.push((at, form));
            }
            None => {}
        }
    }
    let is_proof = results >= MIN_RESULTS || failed.iter().any(|(_, form)| *form <= Form::Heading);
    let mut counts: BTreeMap<Form, usize> = BTreeMap::new();
    for (_, form) in &failed {
        *counts.entry(*form).or_default() += 1;
    }
    let most = counts.values().max().copied()?;
    // A form that has only some of the failures is that of something else, such as a file.
    let form = counts.into_iter().find(|(_, count)| count * 2 >= most)?.0;
    // Marks are in many texts, such as comparisons. A test run counts its failures.
    if form == Form::Mark && !sample().any(|at| counts_failures(&text.line(at))) {
        return None;
    }
    failed.retain(|(_, of)| *of == form);
    let mut tests: Vec<FailedTest<'_>> = Vec::new();
    // The last report of a test has its details.
    let mut known: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    for (at, (line, _)) in failed.iter().enumerate() {
        let says = without_colours(text.line(*line));
        let next = failed.get(at + 1).map_or(count, |(next, _)| *next);
        let has_details = !matches!(form, Form::Summary | Form::Verdict);
        let most = if has_details { next.min(line + MAX_LINES) } else { line + 1 };
        let is_blank = |at: &usize| text.line(*at).trim_ascii().is_empty();
        let last = (line + 1..most).rev().find(|at| !is_blank(at)).unwrap_or(*line);
        let message = start(&says);
        let name = without_duration(says.get(message..).unwrap_or_default()).to_vec();
        let test = FailedTest { line: *line, length: last + 1 - line, says, message };
        match known.get(&name).and_then(|at| tests.get_mut(*at)) {
            Some(earlier) => *earlier = test,
            None => {
                known.insert(name, tests.len());
                tests.push(test);
            }
        }
    }
    tests.sort_by_key(|test| test.line);
    is_proof.then_some(TestFailures { tests, are_names: form == Form::Verdict })
}

/// Returns true if a line contains a digit and `fail`, as in `3 failed` or `fail 3`.
fn counts_failures(line: &[u8]) -> bool {
    line.iter().any(u8::is_ascii_digit)
        && (memchr::memmem::find(line, b"fail").is_some()
            || memchr::memmem::find(line, b"Fail").is_some())
}

/// Returns the outcome of a test that a line reports. `None` if it reports none.
fn outcome(line: &[u8]) -> Option<Outcome> {
    use Outcome::{Failed, Passed};
    let line = line.trim_ascii();
    // Most lines begin or end otherwise.
    let (first, last) = (*line.first()?, *line.last()?);
    let may_begin = matches!(first, b'F' | b'E' | b'n' | b'o' | b'-' | b'[' | b'#' | b'|' | b'*')
        || first >= 0x80
        || first.is_ascii_digit();
    let may_end = matches!(last, b'D' | b'L' | b'R' | b'k' | b']');
    if !may_begin && !may_end {
        return None;
    }
    let line = std::str::from_utf8(line).ok()?;
    let after =
        |mark: &str| line.strip_prefix(mark).map(str::trim_start).filter(|rest| !rest.is_empty());
    if after("FAILED ").or(after("ERROR ")).is_some_and(is_test_of_pytest) {
        return Some(Failed(Form::Summary));
    }
    if after("--- FAIL: ").is_some() || after("[  FAILED  ]").is_some_and(|rest| rest.contains('.'))
    {
        return Some(Failed(Form::Heading));
    }
    if after("FAIL: ").or(after("ERROR: ")).is_some_and(is_test_of_unittest) {
        return Some(Failed(Form::Heading));
    }
    if let Some(rest) = after("not ok ") {
        let is_expected = rest.contains("# TODO") || rest.contains("# SKIP");
        return Some(if is_expected { Passed } else { Failed(Form::NotOk) });
    }
    if after("● ").is_some_and(|rest| rest.contains(" › "))
        || after("FAIL ").is_some_and(|rest| rest.contains(" > "))
    {
        return Some(Failed(Form::Path));
    }
    if after("ok ").is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
        || after("--- PASS: ").is_some()
        || after("[       OK ]").is_some()
    {
        return Some(Passed);
    }
    // Lists, headings and tables of Markdown have marks of their own.
    let bare = line.trim_start_matches(['#', '|', '-', '*', ' ']);
    match bare.chars().next() {
        Some('✕' | '✗' | '✘' | '✖' | '×' | '❌') => {
            return named(bare).then_some(Failed(Form::Mark));
        }
        Some('✓' | '✔' | '√' | '✅') => return named(bare).then_some(Passed),
        _ => {}
    }
    // The progress in percent, or the time, follows the verdict.
    let verdict = line.rsplit_once('[').map_or(line, |(before, _)| before).trim_end();
    let (name, word) = verdict.rsplit_once(' ')?;
    let name = name.trim_end();
    let is_test = name.ends_with("...") || name.contains("::") || name.contains(" > ");
    match word {
        "FAILED" | "FAIL" | "ERROR" if is_test => Some(Failed(Form::Verdict)),
        "PASSED" | "ok" | "PASS" if is_test => Some(Passed),
        _ => None,
    }
}

/// Returns true if a name follows the mark at the start of a line, not the title of a list.
fn named(line: &str) -> bool {
    line.chars().skip(1).any(char::is_alphanumeric) && !line.ends_with(':')
}

fn is_test_of_pytest(rest: &str) -> bool {
    rest.split([' ', '[']).next().is_some_and(|name| name.contains("::"))
}

/// Returns true if the text is a test name of unittest, with its module in parentheses.
fn is_test_of_unittest(rest: &str) -> bool {
    let rest = rest.split_once(" (").filter(|(name, _)| !name.contains(' ')).map(|(_, rest)| rest);
    rest.is_some_and(|rest| rest.split(')').next().is_some_and(|module| module.contains('.')))
}

/// Returns a line without the duration at its end, such as `(3 ms)`.
fn without_duration(line: &[u8]) -> &[u8] {
    let line = line.trim_ascii();
    let is_open = |byte: &u8| *byte == b'(';
    match line.iter().rposition(is_open) {
        Some(at) if line.ends_with(b")") && line.get(at + 1).is_some_and(u8::is_ascii_digit) => {
            line.get(..at).unwrap_or(line).trim_ascii_end()
        }
        _ => line,
    }
}

#[cfg(test)]
mod tests {
    use context_guard_json::text::Form as TextForm;

    use super::*;

    fn failures(text: &str) -> Option<Vec<String>> {
        let text = IndexedText::new(text.as_bytes(), TextForm::Raw);
        let tests = test_failures(&text, |_| 0)?.tests;
        let line = |test: &FailedTest<'_>| String::from_utf8(test.says.to_vec()).unwrap();
        Some(tests.iter().map(line).collect())
    }

    #[test]
    fn failed_tests_of_every_runner_are_found() {
        for (output, expected) in [
            (
                "a.py::test_a PASSED [ 50%]\na.py::test_b FAILED [100%]\n\
                 E   assert 1 == 2\nFAILED a.py::test_b - assert 1 == 2\n= 1 failed, 1 passed =\n",
                vec!["FAILED a.py::test_b - assert 1 == 2"],
            ),
            (
                "test tests::a ... ok\ntest tests::b ... FAILED\ntest tests::c ... ok\n\
                 thread 'tests::b' panicked at src/lib.rs:3:9:\n",
                vec!["test tests::b ... FAILED"],
            ),
            (
                "=== RUN   TestA\n--- FAIL: TestA (0.00s)\n    a_test.go:7: got 1\nFAIL\n",
                vec!["--- FAIL: TestA (0.00s)"],
            ),
            (
                "test_a (m.T.test_a) ... ok\ntest_b (m.T.test_b) ... FAIL\n\
                 ======\nFAIL: test_b (m.T.test_b)\n------\nAssertionError: 1 != 2\n",
                vec!["FAIL: test_b (m.T.test_b)"],
            ),
            (
                "TAP version 13\nok 1 - a\nnot ok 2 - b\nnot ok 3 - c # TODO later\n1..3\n",
                vec!["not ok 2 - b"],
            ),
            (
                "  sums\n    ✓ a (1 ms)\n    ✕ b (2 ms)\n    ✓ c\n  ● sums › b\n\n    got 1\n",
                vec!["  ● sums › b"],
            ),
            (
                " ✓ a.test.js > sums > a 1ms\n × a.test.js > sums > b 2ms\n\
                 \u{1b}[31m FAIL \u{1b}[0m a.test.js > sums > b\nError: got 1\n",
                vec![" FAIL  a.test.js > sums > b"],
            ),
            (
                "✔ a (0.2ms)\n✖ b (0.4ms)\n✔ c (0.1ms)\nfail 1\n✖ failing tests:\n✖ b (0.4ms)\n  got 1\n",
                vec!["✖ b (0.4ms)"],
            ),
            (
                "[ RUN      ] A.b\n[  FAILED  ] A.b (0 ms)\n[       OK ] A.c (0 ms)\n",
                vec!["[  FAILED  ] A.b (0 ms)"],
            ),
            ("## Report\n3 tests, 1 failed\n### ✅ a\n### ❌ b\n### ✅ c\n", vec!["### ❌ b"]),
        ] {
            let expected: Vec<String> = expected.into_iter().map(str::to_owned).collect();
            assert_eq!(failures(output), Some(expected), "{output}");
        }
    }

    #[test]
    fn last_report_of_a_test_has_its_details() {
        let output = "fail 1\n✔ a\n✖ b (0.4ms)\n✔ c\n✖ b (0.5ms)\n  got 1\n\n  at b.js:3\n\n";
        let text = IndexedText::new(output.as_bytes(), TextForm::Raw);
        let entries = test_failures(&text, |_| 0).unwrap().tests;
        assert_eq!(
            entries.iter().map(|entry| (entry.line, entry.length)).collect::<Vec<_>>(),
            [(4, 4)]
        );
    }

    #[test]
    fn other_texts_have_no_failed_tests() {
        for text in [
            "The build FAILED\nbecause of an ERROR\n",
            "× is the sign of a product\n",
            "ERROR could not connect\nFAILED to start\nok\n",
            "- [x] done\n- [ ] open\n",
            "- ✅ reads lists\n- ✅ reads texts\n- ❌ reads images\n",
        ] {
            assert!(failures(text).is_none_or(|found| found.is_empty()), "{text}");
        }
        let passed = (0..9).map(|at| format!("test a{at} ... ok\n")).collect::<String>();
        assert!(failures(&passed).is_none());
    }
}
