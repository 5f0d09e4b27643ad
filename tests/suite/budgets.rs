//! Budgets hold for text that no table was measured with: every script, notation and noise.

use context_guard_core::tokens::{Estimator, Profile};
use context_guard_test_support::answer::{Answer, cl100k, o200k};
use context_guard_test_support::guards::NativeGuard;
use context_guard_test_support::walk::{read, shape};
use context_guard_test_support::{Context, Result, ensure};
use serde_json::{Value, json};

/// A generator of the same pseudo-random numbers on each run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % bound
    }

    fn word(&mut self, characters: &[char], lengths: std::ops::Range<usize>) -> String {
        let length = lengths.start + self.below(lengths.len());
        (0..length).map(|_| characters[self.below(characters.len())]).collect()
    }
}

/// The characters of kinds of text: alphabets of words, by their first and last character.
const SCRIPTS: [(&str, &[(u32, u32)]); 64] = [
    ("Latin accents", &[(0xC0, 0xFF)]),
    ("Latin extended", &[(0x100, 0x24F)]),
    ("phonetic", &[(0x250, 0x2AF)]),
    ("combining marks", &[(0x61, 0x7A), (0x300, 0x36F), (0x300, 0x36F)]),
    ("Greek", &[(0x3B1, 0x3C9)]),
    ("polytonic Greek", &[(0x1F00, 0x1F15), (0x1F70, 0x1F7D), (0x3B1, 0x3C9)]),
    ("Cyrillic", &[(0x430, 0x44F)]),
    ("Cyrillic supplement", &[(0x460, 0x52F)]),
    ("Armenian", &[(0x561, 0x587)]),
    ("Hebrew", &[(0x5D0, 0x5EA)]),
    ("pointed Hebrew", &[(0x5D0, 0x5EA), (0x5B0, 0x5BC)]),
    ("Arabic", &[(0x627, 0x64A)]),
    ("vowelled Arabic", &[(0x627, 0x64A), (0x64B, 0x652)]),
    ("Syriac", &[(0x710, 0x74A)]),
    ("Thaana", &[(0x780, 0x7B1)]),
    ("N'Ko", &[(0x7C0, 0x7EA)]),
    ("Samaritan", &[(0x800, 0x82D)]),
    ("Devanagari", &[(0x904, 0x94D)]),
    ("Bengali", &[(0x985, 0x9B9)]),
    ("Gujarati", &[(0xA85, 0xAB9)]),
    ("Tamil", &[(0xB85, 0xBC2)]),
    ("Telugu", &[(0xC05, 0xC39)]),
    ("Malayalam", &[(0xD05, 0xD4D)]),
    ("Sinhala", &[(0xD85, 0xDC6)]),
    ("Thai", &[(0xE01, 0xE3A), (0xE40, 0xE4E)]),
    ("Lao", &[(0xE81, 0xECD)]),
    ("Tibetan", &[(0xF40, 0xFBC)]),
    ("Burmese", &[(0x1000, 0x103F)]),
    ("Georgian", &[(0x10A0, 0x10FF)]),
    ("decomposed Hangul", &[(0x1100, 0x1112), (0x1161, 0x1175), (0x11A8, 0x11C2)]),
    ("Ethiopic", &[(0x1200, 0x135A)]),
    ("Cherokee", &[(0x13A0, 0x13F5)]),
    ("syllabics", &[(0x1401, 0x166C)]),
    ("Ogham", &[(0x1681, 0x169A)]),
    ("runes", &[(0x16A0, 0x16EA)]),
    ("Khmer", &[(0x1780, 0x17D2)]),
    ("Mongolian", &[(0x1820, 0x1877)]),
    ("Balinese", &[(0x1B05, 0x1B4B)]),
    ("superscripts", &[(0x2070, 0x209C)]),
    ("currency", &[(0x20A0, 0x20BF)]),
    ("arrows", &[(0x2190, 0x21FF)]),
    ("operators", &[(0x2200, 0x22FF)]),
    ("box drawing", &[(0x2500, 0x257F)]),
    ("blocks", &[(0x2580, 0x259F)]),
    ("dingbats", &[(0x2700, 0x27BF)]),
    ("Braille", &[(0x2800, 0x28FF)]),
    ("Glagolitic", &[(0x2C00, 0x2C5F)]),
    ("Tifinagh", &[(0x2D30, 0x2D67)]),
    ("radicals", &[(0x2F00, 0x2FD5)]),
    ("kana", &[(0x3041, 0x3096), (0x30A1, 0x30FA)]),
    ("common CJK", &[(0x4E00, 0x51FF)]),
    ("rare CJK", &[(0x3400, 0x4DBF)]),
    ("Yi", &[(0xA000, 0xA48C)]),
    ("Vai", &[(0xA500, 0xA60B)]),
    ("Hangul", &[(0xAC00, 0xD7A3)]),
    ("private use", &[(0xE0A0, 0xE0D4), (0xF000, 0xF2E0)]),
    ("presentation forms", &[(0xFB50, 0xFBB1), (0xFE70, 0xFEFC)]),
    ("fullwidth", &[(0xFF01, 0xFF5E)]),
    ("cuneiform", &[(0x1_2000, 0x1_2399)]),
    ("hieroglyphs", &[(0x1_3000, 0x1_342E)]),
    ("music", &[(0x1_D100, 0x1_D126)]),
    ("mathematical letters", &[(0x1_D400, 0x1_D7CB)]),
    ("emoji", &[(0x1_F300, 0x1_F64F), (0x200D, 0x200D), (0x1_F3FB, 0x1_F3FF)]),
    ("ideographs beyond the basic plane", &[(0x2_0000, 0x2_A6D6)]),
];

const LETTERS: &str = "abcdefghijklmnopqrstuvwxyz";
const MARKS: &str = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";

/// Returns kinds of ASCII text, each with its alphabet and the lengths of its words.
fn notations() -> Vec<(&'static str, String, std::ops::Range<usize>)> {
    let upper = LETTERS.to_uppercase();
    vec![
        ("consonants", "bcdfghjklmnpqrstvwxz".to_owned(), 3..10),
        ("long consonants", "bcdfghjklmnpqrstvwxz".to_owned(), 12..24),
        ("random letters", LETTERS.to_owned(), 2..10),
        ("long random letters", LETTERS.to_owned(), 14..24),
        ("runs of letters", LETTERS.to_owned(), 300..500),
        ("random capitals", upper.clone(), 2..10),
        ("mixed case", format!("{LETTERS}{upper}"), 3..12),
        ("base32", format!("{upper}234567"), 8..60),
        ("base58", format!("{LETTERS}{upper}123456789"), 30..44),
        ("hexadecimal", "0123456789abcdef".to_owned(), 4..40),
        ("digits", "0123456789".to_owned(), 1..300),
        ("genes", "ACGT".to_owned(), 20..60),
        ("marks", MARKS.to_owned(), 2..10),
        ("runs of marks", MARKS.to_owned(), 200..400),
        ("brackets", "[](){}<>".to_owned(), 2..60),
        ("nested brackets", "[".to_owned(), 100..900),
        ("braces and quotes", "{\"".to_owned(), 20..90),
        ("quotes and commas", "\",".to_owned(), 4..90),
        ("letters and marks", format!("{LETTERS}{MARKS}"), 3..30),
        ("escapes", "\\ntru\"0".to_owned(), 3..20),
        ("Morse", ".-".to_owned(), 1..6),
        ("controls", "\u{1}\u{2}\u{7}\u{8}\u{e}\u{1b}\u{1f}".to_owned(), 2..9),
        ("zeros", "\0".to_owned(), 2..30),
        ("zero width", format!("{LETTERS}\u{200b}\u{200d}\u{feff}\u{2060}"), 3..9),
        ("mixed scripts", "abcабвאבגابت一二三あいうกขค".to_owned(), 2..9),
    ]
}

/// Returns the forms in which words occur: a text, a run, records, keys, and JSON in a text.
fn forms(words: &[String]) -> Vec<(&'static str, String)> {
    let records: Vec<_> =
        words.chunks(2).enumerate().map(|(id, pair)| json!({"id": id, "v": pair})).collect();
    let keys = words.iter().rev().fold(json!(1), |inner, word| json!({word.as_str(): inner}));
    let lines = words.iter().map(|word| format!("2026-01-01T00:00:00Z INFO {word}\n"));
    vec![
        ("text", words.join(" ")),
        ("run", words.concat()),
        ("records", json!(records).to_string()),
        ("keys", keys.to_string()),
        ("log", lines.collect()),
        ("JSON in a text", json!(json!(words).to_string()).to_string()),
    ]
}

/// A kind of text: its name, the characters of its words, and the lengths of its words.
type Kind = (&'static str, Vec<char>, std::ops::Range<usize>);

fn kinds() -> Vec<Kind> {
    let mut kinds: Vec<Kind> = SCRIPTS
        .iter()
        .map(|(name, ranges)| {
            let all = ranges.iter().flat_map(|(first, last)| *first..=*last);
            (*name, all.filter_map(char::from_u32).collect(), 2..9)
        })
        .collect();
    kinds.extend(
        notations()
            .into_iter()
            .map(|(name, alphabet, lengths)| (name, alphabet.chars().collect(), lengths)),
    );
    kinds
}

#[test]
fn costs_cover_every_script_and_notation() -> Result<()> {
    let mut random = Random(7);
    let estimator = Estimator { profile: Profile::O200k, ..Estimator::default() };
    let mut worst: Vec<String> = Vec::new();
    for (name, characters, lengths) in &kinds() {
        let words: Vec<String> =
            (0..100).map(|_| random.word(characters, lengths.clone())).collect();
        for (form, text) in forms(&words) {
            let (tokens, cost) = (o200k(&text), estimator.cost(text.as_bytes()));
            // The least budget that such a text fits. An answer has other content beside the text,
            // so that a twentieth more is within it.
            let budget = (cost..).find(|budget| estimator.allowance(*budget) >= cost).unwrap_or(0);
            if tokens * 20 > budget * 21 {
                worst.push(format!("{name}, {form}: {tokens} tokens cost {cost}"));
            }
        }
    }
    ensure!(worst.is_empty(), "{worst:#?}");
    Ok(())
}

/// The budget of the answers below, and the tokens that no answer may exceed.
const BUDGET: u64 = 4_000;
const HARD_CAP: u64 = 12_000;
/// The maximum number of parts that are read after the first one.
const LATER_PARTS: usize = 7;

fn text_result(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

/// Returns the results of tools in which words occur.
fn results(words: &[String]) -> Vec<(&'static str, Value)> {
    let records: Vec<Value> = words
        .chunks(8)
        .enumerate()
        .map(|(id, part)| json!({"id": id, "name": part[0], "note": part[1..].join(" ")}))
        .collect();
    let records = json!({"items": records, "total": records.len()});
    let both = || json!({"content": text_result(&records.to_string())["content"], "structuredContent": records});
    let lines: Vec<String> = words.chunks(12).map(|line| line.join(" ")).collect();
    let log: Vec<String> =
        lines.iter().map(|line| format!("2026-01-01T00:00:00Z ERROR {line}")).collect();
    let members = words.iter().enumerate().map(|(at, word)| (format!("{word}{at}"), json!(word)));
    let deep = words.iter().take(60).rev().fold(json!(words), |inner, word| json!({word: inner}));
    vec![
        ("lines", text_result(&lines.join("\n"))),
        ("line", text_result(&words.join(" "))),
        ("run", text_result(&words.concat())),
        ("log", text_result(&log.join("\n"))),
        ("list in a text", text_result(&records.to_string())),
        ("structured list", json!({"content": [], "structuredContent": records})),
        ("both", both()),
        ("object", text_result(&Value::Object(members.collect()).to_string())),
        ("document", text_result(&json!({"title": words[0], "body": words.join(" ")}).to_string())),
        ("nested", text_result(&deep.to_string())),
    ]
}

/// Returns the first answer for a result, and answers for the cursors after it.
fn first_parts(policy: &Value, result: &Value) -> Result<Vec<Answer>> {
    let guard = NativeGuard::with_policy(&policy.to_string())?;
    let message = json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string().into_bytes();
    let shaped = shape(&guard, "show", &json!({}), &message)?;
    let mut parts = vec![Answer::read(&shaped.unwrap_or(message))?];
    while let Some(cursor) = parts.last().context("no part")?.cursor()
        && parts.len() <= LATER_PARTS
    {
        parts.push(read(&guard, &json!({"cursor": cursor}))?);
    }
    Ok(parts)
}

/// Asserts that no answer costs more than its budget by the tokenizer of `profile`. The words
/// depend on `seed`.
fn answers_fit(profile: &str, count: fn(&str) -> u64, seed: u64) -> Result<()> {
    let policy = json!({
        "tokenBudgetThreshold": BUDGET,
        "estimator": {"method": "lexical", "profile": profile},
    });
    let mut random = Random(seed);
    let (mut shaped, mut failures) = (0, Vec::new());
    for (name, characters, lengths) in &kinds() {
        let mut words: Vec<String> = Vec::new();
        while words.iter().map(String::len).sum::<usize>() < 40_000 {
            words.push(random.word(characters, lengths.clone()));
        }
        for (form, result) in results(&words) {
            for (at, part) in first_parts(&policy, &result)?.iter().enumerate() {
                shaped += usize::from(part.metadata().is_object());
                let tokens = part.tokens_by(count);
                if tokens > BUDGET {
                    let limit = if tokens > HARD_CAP { "hard cap" } else { "budget" };
                    failures.push(format!("{name}, {form}, part {at}: {tokens} ({limit})"));
                }
            }
        }
    }
    eprintln!("{profile}: {shaped} shaped answers, {} above the budget", failures.len());
    ensure!(failures.is_empty() && shaped >= 5_000, "{shaped} answers: {failures:#?}");
    Ok(())
}

#[test]
fn answers_in_every_script_fit_by_o200k() -> Result<()> {
    answers_fit("o200k", o200k, 11)
}

#[test]
fn answers_in_every_script_fit_by_cl100k() -> Result<()> {
    answers_fit("cl100k", cl100k, 12)
}
