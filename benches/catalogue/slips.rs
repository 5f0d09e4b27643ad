//! Misspelled queries: the loss of recall by each kind of error.

use context_guard_catalogue::index::Settings;

use super::data::{Data, Query};
use super::metrics::evaluate;
use super::rankers::{self, Guard};

/// The number of misspelled copies of each query for each kind and place.
const COPIES: u64 = 3;
/// Minimum length, in letters, of a word that is misspelled.
const MIN_LETTERS: usize = 4;
/// The rows of a keyboard. Keys with the same index in adjacent rows are neighbours, too.
const KEYBOARD: [&[u8]; 3] = [b"qwertyuiop", b"asdfghjkl", b"zxcvbnm"];

/// Random numbers that are the same in each run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }
}

/// A kind of spelling error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slip {
    /// Two adjacent letters are swapped.
    Swapped,
    /// A letter is missing.
    Missing,
    /// A letter occurs twice.
    Doubled,
    /// A letter is that of a neighbouring key.
    Neighbour,
    /// The space before a word is missing.
    Joined,
    /// A space is inside a word.
    Split,
}

/// The word that is misspelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Longest,
    Random,
}

/// The columns of the table of losses.
pub(crate) const COLUMNS: [(Slip, Place, &str); 10] = [
    (Slip::Swapped, Place::Longest, "swapped, longest"),
    (Slip::Missing, Place::Longest, "missing, longest"),
    (Slip::Doubled, Place::Longest, "doubled, longest"),
    (Slip::Neighbour, Place::Longest, "neighbour, longest"),
    (Slip::Swapped, Place::Random, "swapped, random"),
    (Slip::Missing, Place::Random, "missing, random"),
    (Slip::Doubled, Place::Random, "doubled, random"),
    (Slip::Neighbour, Place::Random, "neighbour, random"),
    (Slip::Joined, Place::Random, "joined"),
    (Slip::Split, Place::Longest, "split"),
];

/// Returns the query with one word misspelled. Returns it unchanged if it has no word of four
/// letters.
pub(crate) fn misspelled(query: &str, slip: Slip, place: Place, random: &mut Random) -> String {
    let mut words: Vec<(usize, &str)> = Vec::new();
    for word in query.split(|character: char| !character.is_ascii_alphabetic()) {
        let start = word.as_ptr() as usize - query.as_ptr() as usize;
        // The space before a joined word must follow another word.
        let before = &query.as_bytes()[..start];
        let can_join = matches!(before, [.., letter, b' '] if letter.is_ascii_alphabetic());
        if word.len() >= MIN_LETTERS && (slip != Slip::Joined || can_join) {
            words.push((start, word));
        }
    }
    let word = match place {
        Place::Longest => words.iter().max_by_key(|(_, word)| word.len()),
        Place::Random => words.get(random.below(words.len())),
    };
    let Some((start, word)) = word else { return query.to_owned() };
    let mut letters = word.as_bytes().to_vec();
    let mut start = *start;
    match slip {
        Slip::Swapped => {
            let is_visible = |at: &usize| letters[*at] != letters[at + 1];
            let places: Vec<usize> = (0..letters.len() - 1).filter(is_visible).collect();
            let Some(at) = places.get(random.below(places.len())) else { return query.to_owned() };
            letters.swap(*at, at + 1);
        }
        Slip::Missing => {
            letters.remove(random.below(letters.len()));
        }
        Slip::Doubled => {
            let at = random.below(letters.len());
            letters.insert(at, letters[at]);
        }
        Slip::Neighbour => {
            let at = random.below(letters.len());
            let near = neighbours(letters[at].to_ascii_lowercase());
            letters[at] = near[random.below(near.len())];
        }
        Slip::Joined => start -= 1,
        Slip::Split => letters.insert(2 + random.below(letters.len() - 3), b' '),
    }
    let end = start + word.len() + usize::from(slip == Slip::Joined);
    let (before, after) = (query.get(..start).unwrap_or(""), query.get(end..).unwrap_or(""));
    format!("{before}{}{after}", String::from_utf8_lossy(&letters))
}

/// Returns the keys that touch the key of a letter.
fn neighbours(letter: u8) -> Vec<u8> {
    let place = |letter| {
        KEYBOARD.iter().enumerate().find_map(|(row, keys)| {
            keys.iter().position(|key| *key == letter).map(|column| (row, column))
        })
    };
    let Some((row, column)) = place(letter) else { return vec![letter] };
    let all = KEYBOARD.iter().copied().flatten().copied();
    let touches = |other: &u8| {
        place(*other).is_some_and(|(other_row, other_column)| match other_row.cmp(&row) {
            // A key lies below its own index and the next one of the row above.
            std::cmp::Ordering::Less => other_column == column || other_column == column + 1,
            std::cmp::Ordering::Equal => other_column.abs_diff(column) == 1,
            std::cmp::Ordering::Greater => other_column == column || other_column + 1 == column,
        } && other_row.abs_diff(row) < 2)
    };
    all.filter(touches).collect()
}

/// Prints the loss of recall by each kind of error for each set.
pub(crate) fn print(data: &Data) {
    print!("\n| set | recall@5");
    COLUMNS.iter().for_each(|(_, _, name)| print!(" | {name}"));
    println!(" |\n|---|{}", "--:|".repeat(COLUMNS.len() + 1));
    for set in &data.sets {
        let tools = &data.catalogues[&set.catalogue];
        let guard = Guard { index: rankers::compile(tools, &Settings::default()), splits: false };
        let recall = |queries: &[Query]| {
            let ids = |query: &Query| {
                let found = rankers::Ranker::rank(&guard, &query.query).into_iter();
                found.map(|at| tools[at].id.as_str()).collect()
            };
            let ranked: Vec<Vec<&str>> = queries.iter().map(ids).collect();
            evaluate(&ranked, queries).recall_5
        };
        let correct = recall(&set.queries);
        print!("| {} | {correct:.3}", set.name);
        for (slip, place, _) in COLUMNS {
            let mut queries = Vec::new();
            for copy in 0..COPIES {
                let mut random = Random::new(7 + copy);
                queries.extend(set.queries.iter().map(|query| Query {
                    query: misspelled(&query.query, slip, place, &mut random),
                    ..query.clone()
                }));
            }
            print!(" | {:.3}", correct - recall(&queries));
        }
        println!(" |");
    }
}
