//! Scores the tools of an index for one query.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use super::correct::corrections;
use super::query::{self, QueryTerms};
use super::spaces;
use crate::index::Index;
use crate::text::{Splitter, TermKind};
use crate::vectors::{DirectionSum, WideDirection, loaded, similarity};

/// The constant of the saturation of term frequencies: higher values saturate later.
const SATURATION: f32 = 0.6;
/// The weight of the share of a tool's name that the query mentions.
const NAME_COVERAGE: f32 = 0.225;
/// The weight, in inverse document frequency, of what a name leaves unsaid. The coverage of a name
/// of common words only, such as `search`, is therefore low.
const UNNAMED: f32 = 2.0;
/// The weight of the share of the query that occurs in name, server or first sentence.
const QUERY_COVERAGE: f32 = 0.15;
/// The weight that is added if the query names the tool's server.
const SERVER: f32 = 0.05;
/// The weight of the share of the query that names the tool's server.
const SERVER_SHARE: f32 = 0.3;
/// The weight of adjacent terms of the query that are adjacent in a tool.
const PAIR_WEIGHT: f32 = 0.05;
/// The maximum of the scaled sum of adjacent terms.
const MAX_PAIRS: f32 = 3.0;
/// The divisor of the sum of adjacent terms.
const PAIR_SCALE: f32 = 5.0;
/// The weight of a synonym relative to the term itself.
const SYNONYM: f32 = 0.45;
/// The factor for synonyms in groups of verbs.
const VERB_SYNONYM: f32 = 0.6;
/// The factor for synonyms and corrections of a term that no tool contains.
const UNKNOWN_TERM: f32 = 2.0;
/// The factor for a correction of a name, which is rarely a misspelled word.
const CORRECTED_NAME: f32 = 0.4;
/// The weight of the best need of a query relative to the whole query.
const NEED_WEIGHT: f32 = 0.3;
/// The weight of the similarity of query and tool.
const SIMILARITY: f32 = 0.4;
/// The maximum distance of a score from the best ones at which similarity is computed.
const COMPARED: f32 = 0.1;
/// The minimum similarity of a tool that has no word of the query.
const MIN_SIMILARITY: f32 = 0.6;
/// The weight of the score of usage.
const USAGE_WEIGHT: f32 = 0.02;

/// Computes the scores of tools for a query.
pub(super) struct Scorer<'i> {
    pub(super) index: &'i Index<'i>,
}

/// Buffers that all queries of a search share.
pub(super) struct Scratch {
    /// For each tool, the weighted frequency of the current term.
    frequency: Vec<f32>,
    /// For each tool, the sums of what the terms of the current query add to its score.
    sums: Vec<Sums>,
    /// The tools that have sums.
    touched: Vec<u32>,
    /// For each term, its share in the coverage of names.
    covered: Vec<f32>,
    /// The terms that have a share in `covered`.
    covering: Vec<u32>,
    /// The index terms for the terms of earlier queries and needs.
    resolved: HashMap<String, Rc<Resolved>>,
}

#[derive(Clone, Copy, Default)]
struct Sums {
    is_touched: bool,
    base: f32,
    strong: f32,
    /// The weight of the query terms that identify the server.
    server: f32,
    pairs: f32,
}

/// The index terms for a term of a query.
struct Resolved {
    related: Vec<Related>,
    /// The common inverse document frequency of these terms.
    idf: f32,
    /// The term of the index that the query means. `None` if it has only synonyms of it.
    meant: Option<u32>,
    /// The factor for the weight of the term if it is a name.
    name_weight: f32,
    /// The direction of the term, with its inverse document frequency as length.
    direction: Option<DirectionSum>,
}

impl Default for Resolved {
    fn default() -> Self {
        Self { related: Vec::new(), idf: 0.0, meant: None, name_weight: 1.0, direction: None }
    }
}

/// A term to look up, with its weight.
#[derive(Clone, Copy)]
struct Related {
    term: u32,
    weight: f32,
    /// The probability that the query means this term. 0 for synonyms.
    own: f32,
}

impl Scratch {
    pub(super) fn new(index: &Index<'_>) -> Self {
        let tools = index.tool_count();
        Self {
            frequency: vec![0.0; tools],
            sums: vec![Sums::default(); tools],
            touched: Vec::new(),
            covered: vec![0.0; index.term_count()],
            covering: Vec::new(),
            resolved: HashMap::new(),
        }
    }
}

impl Scorer<'_> {
    /// Returns the scores of all tools that match a query, in the order of the index. The scores of
    /// tools that are far from the best `needed` ones lack their similarity.
    pub(super) fn score(
        &self,
        query: &str,
        needed: usize,
        splitter: &mut Splitter,
        scratch: &mut Scratch,
    ) -> Vec<(u32, f32)> {
        let query = &*spaces::corrected(self.index, query::shortened(query), splitter);
        let mut scores = vec![None; self.index.tool_count()];
        let mut add = |tool: u32, score: f32| {
            if let Some(sum) = scores.get_mut(tool as usize) {
                *sum = Some(sum.unwrap_or(0.0) + score);
            }
        };
        let (whole, direction) = self.score_part(query, splitter, scratch);
        for (tool, score) in whole {
            add(tool, score);
        }
        let mut directions = vec![direction];
        let mut best = Vec::new();
        for need in query::needs(query, splitter) {
            let (part, direction) = self.score_part(&need, splitter, scratch);
            directions.push(direction);
            let maximum = part.iter().map(|(_, score)| *score).fold(0.0, f32::max);
            best.resize(self.index.tool_count(), 0.0_f32);
            for (tool, score) in part.into_iter().filter(|_| maximum > 0.0) {
                if let Some(best) = best.get_mut(tool as usize) {
                    *best = best.max(score / maximum);
                }
            }
        }
        for (tool, share) in (0..).zip(best).filter(|(_, share)| *share > 0.0) {
            add(tool, NEED_WEIGHT * share);
        }
        self.add_similarities(&directions, needed, &mut scores);
        let scores = (0..).zip(scores).filter_map(|(tool, score)| Some((tool, score?)));
        scores
            .map(|(tool, score)| (tool, score + USAGE_WEIGHT * self.index.tier_score(tool)))
            .collect()
    }

    /// Adds the similarity of the query, or of its most similar need, to the scores of tools that
    /// are near the best `needed` ones. If few tools have words of the query, tools that are much
    /// alike get a score, too.
    fn add_similarities(
        &self,
        directions: &[WideDirection],
        needed: usize,
        scores: &mut [Option<f32>],
    ) {
        let minimum = nth_best(scores, needed) - COMPARED;
        for (score, tool) in scores.iter_mut().zip(self.index.directions()) {
            // Most tools have few words of the query. To read them all takes a fifth of the time.
            if score.unwrap_or(0.0) < minimum {
                continue;
            }
            let tool = loaded(tool);
            let similarities = directions.iter().map(|one| similarity(one, &tool));
            let similarity = similarities.fold(0.0, f32::max);
            if score.is_some() || similarity >= MIN_SIMILARITY {
                *score = Some(score.unwrap_or(0.0) + SIMILARITY * similarity);
            }
        }
    }

    /// Returns the scores for a text, without splitting it into needs, and its direction.
    fn score_part(
        &self,
        text: &str,
        splitter: &mut Splitter,
        scratch: &mut Scratch,
    ) -> (Vec<(u32, f32)>, WideDirection) {
        let query = query::read(text, splitter);
        let mut total = 0.0;
        let mut meant = Vec::with_capacity(query.terms.len());
        let mut direction = DirectionSum::default();
        for term in &query.terms {
            let resolved = match scratch.resolved.get(&term.text) {
                Some(known) => Rc::clone(known),
                None => {
                    let resolved = self.resolve(&term.text, &term.word, term.kind, splitter);
                    let resolved = Rc::new(resolved);
                    scratch.resolved.insert(term.text.clone(), Rc::clone(&resolved));
                    resolved
                }
            };
            // A word that is also spelled correctly is a repetition.
            let is_repeated = resolved.meant.is_some() && meant.contains(&resolved.meant);
            meant.push(resolved.meant);
            if !resolved.related.is_empty() {
                let factor = if term.is_name { resolved.name_weight } else { 1.0 };
                let factor = if is_repeated { factor * query::REPETITION_WEIGHT } else { factor };
                let weight = term.weight * factor * resolved.idf;
                total += weight;
                self.add_term(&resolved.related, weight, scratch);
            }
            if let (Some(own), false) = (resolved.direction, is_repeated) {
                direction.add(&own, term.weight);
            }
        }
        self.add_pairs(&query, &meant, scratch);
        let scores = self.finish(total, scratch);
        scratch.clear();
        (scores, direction.direction())
    }

    /// Finds the index terms and the direction for a term of a query.
    fn resolve(&self, stem: &str, word: &str, kind: TermKind, splitter: &mut Splitter) -> Resolved {
        let number = self.index.term(stem);
        let resolved = match (number, kind) {
            (Some(number), _) => self.resolve_known(number),
            (None, TermKind::Word) => self.resolve_misspelled(word, splitter),
            (None, _) => Resolved::default(),
        };
        let corrected = || {
            let text = self.index.term_text(resolved.meant? as usize)?;
            DirectionSum::stem(std::str::from_utf8(text).ok()?)
        };
        // A word that no tool has is as rare as possible.
        let idf = number.or(resolved.meant).map(|number| self.index.idf(number));
        let idf = idf.unwrap_or_else(|| self.index.maximum_idf());
        let direction = DirectionSum::stem(stem).or_else(corrected).map(|unit| {
            let mut direction = DirectionSum::default();
            direction.add(&unit, idf);
            direction
        });
        Resolved { direction, ..resolved }
    }

    /// Finds the index terms for a term of the index, which perhaps no tool contains.
    fn resolve_known(&self, number: u32) -> Resolved {
        if self.index.frequency(number) > 0 {
            let (related, idf) = (self.with_synonyms(number), self.index.idf(number));
            return Resolved { related, idf, meant: Some(number), ..Resolved::default() };
        }
        let related =
            |(term, factor)| Related { term, weight: SYNONYM * factor * UNKNOWN_TERM, own: 0.0 };
        let related: Vec<Related> = self.synonyms(number).into_iter().map(related).collect();
        let idf = related.iter().map(|related| self.index.idf(related.term));
        let idf = idf.fold(f32::INFINITY, f32::min);
        Resolved { idf, related, ..Resolved::default() }
    }

    /// Finds the index terms for a word that is not in the index, from its corrections.
    fn resolve_misspelled(&self, word: &str, splitter: &mut Splitter) -> Resolved {
        let mut resolved = Resolved::default();
        for correction in corrections(self.index, word, splitter) {
            let known = self.resolve_known(correction.term);
            let share = correction.share;
            if resolved.related.is_empty() {
                resolved.idf = known.idf * confidence(word, correction.cost);
                resolved.meant = known.meant;
                let mut postings = self.index.postings(correction.term);
                let names_server = postings.any(|posting| posting.names_server);
                resolved.name_weight = if names_server { 1.0 } else { CORRECTED_NAME };
            }
            for one in known.related {
                let scaled = Related { weight: one.weight * share, own: one.own * share, ..one };
                match resolved.related.iter_mut().find(|known| known.term == one.term) {
                    Some(known) => {
                        known.weight = known.weight.max(scaled.weight);
                        known.own = known.own.max(scaled.own);
                    }
                    None => resolved.related.push(scaled),
                }
            }
        }
        resolved
    }

    /// Returns a term and its synonyms.
    fn with_synonyms(&self, term: u32) -> Vec<Related> {
        let idf = self.index.idf(term);
        let mut related = vec![Related { term, weight: 1.0, own: 1.0 }];
        for (synonym, factor) in self.synonyms(term) {
            // A rarer synonym must not count more than the term itself.
            let rarity = (self.index.idf(synonym) / idf.max(f32::MIN_POSITIVE)).min(1.0);
            let weight = SYNONYM * factor * rarity * rarity;
            related.push(Related { term: synonym, weight, own: 0.0 });
        }
        related
    }

    /// Returns the synonyms of a term that occur in tools, with the factor of their group.
    fn synonyms(&self, term: u32) -> Vec<(u32, f32)> {
        let mut synonyms: BTreeMap<u32, f32> = BTreeMap::new();
        for (is_verbs, terms) in self.index.synonym_groups(term) {
            let factor = if is_verbs { VERB_SYNONYM } else { 1.0 };
            for synonym in terms.filter(|synonym| *synonym != term) {
                if self.index.frequency(synonym) > 0 {
                    let known = synonyms.entry(synonym).or_default();
                    *known = known.max(factor);
                }
            }
        }
        synonyms.into_iter().collect()
    }

    /// Adds a query's term, with its synonyms, to the sums of all tools.
    fn add_term(&self, related: &[Related], weight: f32, scratch: &mut Scratch) {
        let mut tools: Vec<u32> = Vec::new();
        for one in related {
            if let Some(covered) = scratch.covered.get_mut(one.term as usize) {
                *covered = covered.max(one.own).max(one.weight.min(SYNONYM));
                scratch.covering.push(one.term);
            }
            for posting in self.index.postings(one.term) {
                let at = posting.tool as usize;
                let (Some(frequency), Some(sums)) =
                    (scratch.frequency.get_mut(at), scratch.sums.get_mut(at))
                else {
                    continue;
                };
                if *frequency == 0.0 {
                    tools.push(posting.tool);
                }
                *frequency += one.weight * posting.x;
                if posting.is_strong {
                    sums.strong += weight * one.own;
                }
                if posting.names_server {
                    sums.server += weight * one.own;
                }
            }
        }
        for tool in tools {
            let at = tool as usize;
            if let (Some(frequency), Some(sums)) =
                (scratch.frequency.get_mut(at), scratch.sums.get_mut(at))
            {
                let x = std::mem::take(frequency);
                sums.base += weight * x / (SATURATION + x);
                if !sums.is_touched {
                    sums.is_touched = true;
                    scratch.touched.push(tool);
                }
            }
        }
    }

    /// Adds the pairs of adjacent terms of the query that are adjacent in a tool.
    /// `meant` has the index term of each term of the query.
    fn add_pairs(&self, query: &QueryTerms, meant: &[Option<u32>], scratch: &mut Scratch) {
        let number = |at: &usize| meant.get(*at).copied().flatten();
        let numbers: Vec<Option<u32>> = query.sequence.iter().map(number).collect();
        let mut seen = BTreeSet::new();
        for pair in numbers.windows(2) {
            let [Some(first), Some(second)] = *pair else { continue };
            if !seen.insert((first, second)) {
                continue;
            }
            let idf = f32::midpoint(self.index.idf(first), self.index.idf(second));
            for tool in self.index.pair_tools(first, second) {
                if let Some(sums) = scratch.sums.get_mut(tool as usize) {
                    sums.pairs += idf;
                }
            }
        }
    }

    /// Returns the scores from the sums. `total` is the sum of the weights of all terms.
    fn finish(&self, total: f32, scratch: &Scratch) -> Vec<(u32, f32)> {
        let share = |weight: f32| if total > 0.0 { weight / total } else { 0.0 };
        let score = |tool: &u32| {
            let sums = scratch.sums.get(*tool as usize)?;
            let (mut covered, mut all) = (0.0, 0.0);
            for term in self.index.name_terms(*tool) {
                let idf = self.index.idf(term);
                all += idf;
                covered += idf * scratch.covered.get(term as usize).copied().unwrap_or_default();
            }
            let name = covered / (all + UNNAMED);
            let score = share(sums.base)
                + NAME_COVERAGE * name
                + QUERY_COVERAGE * share(sums.strong)
                + server_weight(share(sums.server))
                + PAIR_WEIGHT * (sums.pairs / PAIR_SCALE).min(MAX_PAIRS);
            Some((*tool, score))
        };
        scratch.touched.iter().filter_map(score).collect()
    }
}

/// Returns the score that `needed` tools reach. 0 if there are fewer.
fn nth_best(scores: &[Option<f32>], needed: usize) -> f32 {
    let mut found: Vec<f32> = scores.iter().copied().flatten().collect();
    let last = needed.saturating_sub(1);
    if last >= found.len() {
        return 0.0;
    }
    let (_, nth, _) = found.select_nth_unstable_by(last, |left, right| right.total_cmp(left));
    *nth
}

/// Returns the probability that a correction of a word is right.
fn confidence(word: &str, cost: u8) -> f32 {
    let length = if word.len() < 6 { 0.9 } else { 1.0 };
    if cost > 13 { 0.7 * length } else { length }
}

/// Returns the weight for a query that names the tool's server. `share` is the share of the words
/// that do.
fn server_weight(share: f32) -> f32 {
    if share > 0.0 { SERVER + SERVER_SHARE * share } else { 0.0 }
}

impl Scratch {
    fn clear(&mut self) {
        // The sums of tools that were not touched are clear, too: a tool with a pair of terms has
        // both terms. Only a damaged index is different.
        for tool in self.touched.drain(..) {
            if let Some(sums) = self.sums.get_mut(tool as usize) {
                *sums = Sums::default();
            }
        }
        for term in self.covering.drain(..) {
            if let Some(covered) = self.covered.get_mut(term as usize) {
                *covered = 0.0;
            }
        }
    }
}
