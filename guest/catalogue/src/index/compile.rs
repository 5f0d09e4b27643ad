//! Compiles the definitions of tools to an index.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use xxhash_rust::xxh3::xxh3_64;

use super::layout::{NOT_MEASURED, SERVER, STRONG, Section, TOOL_WORDS, Writer};
use crate::logarithm::ln;
use crate::synonyms::{self, SynonymGroup};
use crate::text::{Splitter, TermKind, normalized_name};
use crate::tool::{FIELD_COUNT, Tool};
use crate::vectors::{DirectionSum, StoredDirection, stored};

/// The parameters of an index.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The weight of each field: name, server, first sentence, rest of the description, names of
    /// parameters, descriptions of parameters.
    pub weights: [f64; FIELD_COUNT],
    /// The influence of the length of each field, from 0 to 1.
    pub length_normalization: [f64; FIELD_COUNT],
    /// Groups of synonyms in addition to the built-in ones. Each is a list of words between spaces,
    /// after `v ` if they are verbs.
    pub synonyms: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            weights: [2.25, 2.0, 1.0, 1.0, 2.7, 1.0],
            length_normalization: [0.7, 0.3, 0.9, 0.2, 0.8, 0.5],
            synonyms: Vec::new(),
        }
    }
}

/// The number of leading fields with strong terms: name, server and first sentence.
const STRONG_FIELDS: usize = 3;
/// The index of the field with the name of the server.
const SERVER_FIELD: usize = 1;
/// The divisor of the number of servers: a word in the names of a larger share does not identify a
/// server.
const NAMED_SERVERS: usize = 8;
/// The indices of the fields whose adjacent terms form pairs.
const PAIR_FIELDS: [usize; 2] = [0, 2];

/// The weight of each field in the direction of a tool.
const DIRECTION_WEIGHTS: [f32; FIELD_COUNT] = [1.5, 0.5, 1.0, 0.3, 0.5, 0.0];

/// The terms of one tool, as numbers in a vocabulary that grows with each tool.
struct ToolTerms {
    /// For each term, its frequency in each field.
    frequencies: BTreeMap<u32, [u32; FIELD_COUNT]>,
    lengths: [u32; FIELD_COUNT],
    name: Vec<u32>,
    pairs: BTreeSet<(u32, u32)>,
}

#[derive(Default)]
struct Vocabulary {
    numbers: HashMap<String, u32>,
}

impl Vocabulary {
    fn number(&mut self, term: String) -> u32 {
        let next = to_u32(self.numbers.len());
        *self.numbers.entry(term).or_insert(next)
    }
}

/// Compiles an index. Tools with equal scores are found in the order of `tools`.
#[must_use]
pub fn compile(tools: &[Tool<'_>], settings: &Settings) -> Vec<u8> {
    let mut splitter = Splitter::default();
    let mut vocabulary = Vocabulary::default();
    let terms: Vec<ToolTerms> =
        tools.iter().map(|tool| tool_terms(tool, &mut splitter, &mut vocabulary)).collect();
    let mut groups = synonyms::built_in(&mut splitter);
    groups.extend(settings.synonyms.iter().filter_map(|line| synonyms::parse(line, &mut splitter)));
    for term in groups.iter().flat_map(|group| &group.terms) {
        vocabulary.number(term.clone());
    }
    write(tools, &terms, &groups, vocabulary, settings)
}

fn tool_terms(tool: &Tool<'_>, splitter: &mut Splitter, vocabulary: &mut Vocabulary) -> ToolTerms {
    let mut terms = ToolTerms {
        frequencies: BTreeMap::new(),
        lengths: [0; FIELD_COUNT],
        name: Vec::new(),
        pairs: BTreeSet::new(),
    };
    for (field, text) in tool.fields().iter().enumerate() {
        let mut previous = None;
        for term in splitter.split(text) {
            let number = vocabulary.number(term.text);
            let frequency = terms.frequencies.entry(number).or_default();
            if let (Some(frequency), Some(length)) =
                (frequency.get_mut(field), terms.lengths.get_mut(field))
            {
                *frequency += 1;
                *length += 1;
            }
            if term.kind == TermKind::Compound {
                continue;
            }
            if field == 0 && !terms.name.contains(&number) {
                terms.name.push(number);
            }
            if PAIR_FIELDS.contains(&field)
                && let Some(previous) = previous.replace(number)
            {
                terms.pairs.insert((previous, number));
            }
        }
    }
    terms
}

/// Returns the terms that identify a server: those in the names of few servers. Empty if there is
/// only one server.
fn naming_terms(tools: &[Tool<'_>], terms: &[ToolTerms]) -> BTreeSet<u32> {
    let mut servers: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
    for (tool, terms) in tools.iter().zip(terms) {
        let names = servers.entry(tool.server).or_default();
        if names.is_empty() {
            let is_named = |counts: &[u32; FIELD_COUNT]| counts.get(SERVER_FIELD) > Some(&0);
            names.extend(
                terms
                    .frequencies
                    .iter()
                    .filter(|(_, counts)| is_named(counts))
                    .map(|(term, _)| term),
            );
        }
    }
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for term in servers.values().flatten() {
        *counts.entry(*term).or_default() += 1;
    }
    let most = if servers.len() > 1 { (servers.len() / NAMED_SERVERS).max(1) } else { 0 };
    counts.into_iter().filter(|(_, count)| *count <= most).map(|(term, _)| term).collect()
}

/// Returns the mean length of each field over all tools.
fn mean_lengths(terms: &[ToolTerms]) -> [f64; FIELD_COUNT] {
    let mut sums = [0.0; FIELD_COUNT];
    for tool in terms {
        for (sum, length) in sums.iter_mut().zip(tool.lengths) {
            *sum += f64::from(length);
        }
    }
    let tools = f64::from(to_u32(terms.len().max(1)));
    sums.map(|sum| (sum / tools).max(1.0))
}

fn write(
    tools: &[Tool<'_>],
    terms: &[ToolTerms],
    groups: &[SynonymGroup],
    vocabulary: Vocabulary,
    settings: &Settings,
) -> Vec<u8> {
    // Terms are sorted by their text in the index, so that it needs no hash table.
    let mut sorted: Vec<(String, u32)> = vocabulary.numbers.into_iter().collect();
    sorted.sort_unstable();
    let mut ids = vec![0; sorted.len()];
    for (id, (_, number)) in sorted.iter().enumerate() {
        if let Some(slot) = ids.get_mut(*number as usize) {
            *slot = to_u32(id);
        }
    }
    let id = |number: u32| ids.get(number as usize).copied().unwrap_or_default();
    let mut postings: Vec<Vec<(u32, f32)>> = vec![Vec::new(); sorted.len()];
    let means = mean_lengths(terms);
    let naming = naming_terms(tools, terms);
    for (tool, terms) in terms.iter().enumerate() {
        for (number, frequency) in &terms.frequencies {
            let x = weighted_frequency(frequency, &terms.lengths, &means, settings);
            let is_strong = frequency.iter().take(STRONG_FIELDS).any(|count| *count > 0);
            let names_server = frequency.get(SERVER_FIELD) > Some(&0) && naming.contains(number);
            let tool = to_u32(tool)
                | if is_strong { STRONG } else { 0 }
                | if names_server { SERVER } else { 0 };
            if let Some(postings) = postings.get_mut(id(*number) as usize) {
                postings.push((tool, x));
            }
        }
    }
    let mut pairs: BTreeMap<(u32, u32), Vec<u32>> = BTreeMap::new();
    for (tool, terms) in terms.iter().enumerate() {
        for (first, second) in &terms.pairs {
            pairs.entry((id(*first), id(*second))).or_default().push(to_u32(tool));
        }
    }

    let mut writer = Writer::new();
    let texts = || sorted.iter().map(|(text, _)| text.as_str());
    writer.words(Section::TermOffsets, offsets(texts().map(str::len)));
    writer.section(Section::TermText, texts().collect::<String>().as_bytes());
    let count = f64::from(to_u32(tools.len()));
    let idf = postings.iter().map(|postings| inverse_frequency(count, postings.len()).to_bits());
    writer.words(Section::TermIdf, idf);
    writer.words(Section::PostingOffsets, offsets(postings.iter().map(Vec::len)));
    let flat = postings.iter().flatten().flat_map(|(tool, x)| [*tool, x.to_bits()]);
    writer.words(Section::Postings, flat);
    writer.words(Section::NameOffsets, offsets(terms.iter().map(|tool| tool.name.len())));
    writer
        .words(Section::NameTerms, terms.iter().flat_map(|tool| &tool.name).map(|term| id(*term)));
    writer.words(Section::PairKeys, pairs.keys().flat_map(|(first, second)| [*first, *second]));
    writer.words(Section::PairOffsets, offsets(pairs.values().map(Vec::len)));
    writer.words(Section::PairTools, pairs.values().flatten().copied());
    writer.words(Section::ExactNames, exact_names(tools));
    let (records, strings) = records(tools);
    writer.words(Section::Tools, records);
    writer.words(Section::StringOffsets, offsets(strings.iter().map(|text| text.len())));
    writer.section(Section::StringText, strings.concat().as_bytes());
    let group_terms = |group: &SynonymGroup| -> Vec<u32> {
        let find = |term: &String| sorted.binary_search_by(|(text, _)| text.cmp(term)).ok();
        group.terms.iter().filter_map(find).map(to_u32).collect()
    };
    let group_terms: Vec<Vec<u32>> = groups.iter().map(group_terms).collect();
    writer.words(Section::GroupOffsets, offsets(group_terms.iter().map(Vec::len)));
    writer.words(Section::GroupTerms, group_terms.iter().flatten().copied());
    writer.words(Section::GroupVerbs, groups.iter().map(|group| u32::from(group.is_verbs)));
    let mut term_groups: Vec<(u32, u32)> = Vec::new();
    for (group, terms) in group_terms.iter().enumerate() {
        term_groups.extend(terms.iter().map(|term| (*term, to_u32(group))));
    }
    term_groups.sort_unstable();
    writer.words(Section::TermGroups, term_groups.iter().flat_map(|(term, group)| [*term, *group]));
    let numbered: HashMap<u32, DirectionSum> = sorted
        .iter()
        .filter_map(|(text, number)| {
            let mut sum = DirectionSum::default();
            let postings = postings.get(id(*number) as usize)?;
            sum.add(&DirectionSum::stem(text)?, inverse_frequency(count, postings.len()));
            Some((*number, sum))
        })
        .collect();
    let directions = terms.iter().flat_map(|terms| direction(terms, &numbered));
    writer.section(Section::Directions, &directions.collect::<Vec<u8>>());
    writer.finish()
}

/// Returns the direction of a tool from the weighted directions of its terms.
fn direction(terms: &ToolTerms, numbered: &HashMap<u32, DirectionSum>) -> StoredDirection {
    let mut fields = [DirectionSum::default(); FIELD_COUNT];
    for (number, frequencies) in &terms.frequencies {
        let Some(one) = numbered.get(number) else { continue };
        for (field, frequency) in fields.iter_mut().zip(frequencies) {
            if *frequency > 0 {
                field.add(one, 1.0);
            }
        }
    }
    let mut sum = DirectionSum::default();
    for (field, weight) in fields.into_iter().zip(DIRECTION_WEIGHTS) {
        sum.add(&field.normalized(), weight);
    }
    stored(&sum.direction())
}

/// Returns the sum over all fields of weight times frequency. The frequency is reduced for fields
/// longer than the mean.
#[allow(clippy::cast_possible_truncation, reason = "a small score")]
fn weighted_frequency(
    frequency: &[u32; FIELD_COUNT],
    lengths: &[u32; FIELD_COUNT],
    means: &[f64; FIELD_COUNT],
    settings: &Settings,
) -> f32 {
    let fields = frequency.iter().zip(lengths).zip(means);
    let parameters = settings.weights.iter().zip(&settings.length_normalization);
    let sum: f64 = fields
        .zip(parameters)
        .filter(|(((count, _), _), _)| **count > 0)
        .map(|(((count, length), mean), (weight, b))| {
            weight * f64::from(*count) / (1.0 - b + b * f64::from(*length) / mean)
        })
        .sum();
    sum as f32
}

#[allow(clippy::cast_possible_truncation, reason = "a small number")]
pub(super) fn inverse_frequency(tools: f64, with_term: usize) -> f32 {
    let with_term = f64::from(to_u32(with_term));
    ln(1.0 + (tools - with_term + 0.5) / (with_term + 0.5)) as f32
}

/// Returns pairs of hash and tool for each name in each notation, sorted by hash.
fn exact_names(tools: &[Tool<'_>]) -> Vec<u32> {
    let mut names = BTreeSet::new();
    for (at, tool) in tools.iter().enumerate() {
        let qualified = format!("{}{}", tool.server, tool.name);
        for name in [qualified.as_str(), tool.wire_name, &tool.name] {
            names.insert((exact_hash(name), to_u32(at)));
        }
    }
    names.into_iter().flat_map(|(hash, tool)| [(hash >> 32) as u32, hash as u32, tool]).collect()
}

/// Returns the hash by which names are found exactly, independent of their notation.
pub(super) fn exact_hash(name: &str) -> u64 {
    let normalized = normalized_name(name);
    // A name of symbols only is compared as it is.
    xxh3_64(if normalized.is_empty() { name } else { &normalized }.as_bytes())
}

/// Returns the records of all tools, and the strings to which they refer by number.
#[allow(clippy::cast_possible_truncation, reason = "measurements")]
fn records<'t>(tools: &'t [Tool<'_>]) -> (Vec<u32>, Vec<&'t str>) {
    let (mut strings, mut numbers) = (Vec::new(), HashMap::new());
    let mut string = |text: &'t str| {
        *numbers.entry(text).or_insert_with(|| {
            strings.push(text);
            to_u32(strings.len() - 1)
        })
    };
    let mut records = Vec::with_capacity(tools.len() * TOOL_WORDS);
    for tool in tools {
        let usage = &tool.usage;
        let success = usage.success_percent();
        let latency = success.is_some().then_some(usage.average_ms as f32);
        let success = success.map_or(NOT_MEASURED, |rate| rate as f32);
        records.extend([
            string(tool.wire_name),
            string(&tool.name),
            string(tool.server),
            string(tool.category),
            u32::from(tool.read_only),
            latency.unwrap_or(NOT_MEASURED).to_bits(),
            success.to_bits(),
            (usage.tier_score() as f32).to_bits(),
        ]);
    }
    (records, strings)
}

/// Returns the running sums of lengths, from 0 to the total.
fn offsets(lengths: impl Iterator<Item = usize>) -> Vec<u32> {
    let mut sum = 0;
    let mut offsets = vec![0];
    offsets.extend(lengths.map(|length| {
        sum += length;
        to_u32(sum)
    }));
    offsets
}

/// Converts a count to 32 bits. An index has fewer than 2^30 tools, terms and bytes, because
/// messages have at most 64 MiB.
fn to_u32(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
