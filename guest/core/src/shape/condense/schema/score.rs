//! The importance of the fields of a document, derived from statistics of their values and from
//! their names.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::{Field, FieldId, MAX_DISTINCT_VALUES, Schema};
use crate::fields::priority::{FieldPriority, field_priority, section_rank};

/// The minimum number of values from which the variation of a field is judged.
const MIN_VALUES: u64 = 4;
/// The minimum number of values of a field for which a single distinct value is a constant.
const MIN_CONSTANT_VALUES: u64 = 3;
/// The average length, in characters, above which a text is prose. A shorter text describes its
/// record.
const MIN_PROSE_CHARS: u64 = 100;
/// The average length, in characters, above which strings other than texts are encoded data.
const MIN_DATA_CHARS: u64 = 400;
/// The maximum number of constants that are stated for a list.
const MAX_CONSTANTS: usize = 12;
/// The maximum length of the value of a stated constant, in characters.
const MAX_CONSTANT_CHARS: u64 = 60;
/// The maximum depth of the field of a stated constant.
const MAX_CONSTANT_LEVEL: u32 = 2;
/// The maximum depth of a record's own text, such as `message.text`.
const MAX_OWN_LEVEL: u32 = 2;
/// The minimum average length, in characters, of texts that identify records although their field
/// names do not say so.
const MIN_NAME_CHARS: u64 = 4;
/// The maximum average length, in characters, of such texts.
const MAX_NAME_CHARS: u64 = 200;
/// The minimum number of distinct phrases that describe records.
const MIN_PHRASES: u64 = 3;
/// The maximum average length, in characters, of the names of categories.
const MAX_CATEGORY_CHARS: u64 = 24;

impl Field {
    /// Returns true if nearly all values are texts, at least seven tenths of which are distinct and
    /// half of which are not dates.
    fn has_different_texts(&self) -> bool {
        let counted = self.count.min(MAX_DISTINCT_VALUES as u64);
        self.strings * 10 >= self.count * 9
            && self.distinct.len() as u64 * 10 >= counted * 7
            && self.dates * 2 <= self.count
    }

    /// Returns true if most values contain a hash.
    fn is_opaque(&self) -> bool {
        self.opaque * 2 > self.count
    }
}

impl Schema {
    /// Sets the priority and the section of each field.
    pub(super) fn score_fields(&mut self) {
        if self.is_list {
            self.constants = self.find_constants();
        }
        let mut scores = Vec::with_capacity(self.fields.len());
        for (at, field) in self.fields.iter().enumerate() {
            let names = self.keys(at);
            let name = names.last().copied().unwrap_or_default();
            let mut sections = names.iter().map(|name| section_rank(name));
            let section = sections.find(|rank| *rank != 1).unwrap_or(1);
            let priority = match self.score(at, field, name) {
                // Definitions and settings are read only after what refers to them.
                FieldPriority::Identity if section == 2 => FieldPriority::Key,
                FieldPriority::State | FieldPriority::Key if section == 2 => FieldPriority::Plain,
                priority => priority,
            };
            scores.push((priority, section));
        }
        for (field, (priority, section)) in self.fields.iter_mut().zip(scores) {
            (field.priority, field.section) = (priority, section);
        }
        self.identify_records();
        // What a record says of itself comes before the other values of the lists inside it.
        let is_own_text = |(at, field): (FieldId, &Field)| {
            field.priority == FieldPriority::Prose
                && field.in_record
                && !field.nested
                && self.level_in_record(at) <= MAX_OWN_LEVEL
        };
        if self.fields.iter().enumerate().any(is_own_text) {
            let nested = self.fields.iter_mut().filter(|field| field.nested);
            for field in nested.filter(|field| field.priority == FieldPriority::Plain) {
                field.priority = FieldPriority::Detail;
            }
        }
    }

    /// Raises the priority of one field of records that have no identifying field by name. Prefers
    /// a text that differs in most records, such as a phrase or an address, else uses hashes.
    /// O(fields).
    fn identify_records(&mut self) {
        let mut named: BTreeSet<FieldId> = BTreeSet::new();
        let mut best: BTreeMap<FieldId, _> = BTreeMap::new();
        for (at, field) in self.fields.iter().enumerate().filter(|(_, field)| !field.nested) {
            let Some(record) = self.record_of(at) else { continue };
            if field.priority == FieldPriority::Identity && field.numbers < field.values {
                named.insert(record);
            } else if self.may_identify(at, field) {
                let is_phrase = field.phrases * 2 > field.count;
                let depth = Reverse(self.level_in_record(at));
                let is_clear = !field.is_opaque();
                let place = (field.section == 0, is_phrase, field.links > 0, depth, Reverse(at));
                let rank = (is_clear, place);
                let known = best.entry(record).or_insert(rank);
                *known = rank.max(*known);
            }
        }
        for (record, (_, (.., Reverse(at)))) in best {
            if let Some(field) = self.fields.get_mut(at).filter(|_| !named.contains(&record)) {
                field.priority = FieldPriority::Identity;
            }
        }
    }

    /// Returns the field that best names the records at `record` for a reader: a short text that
    /// nearly all of the `count` records have, with distinct values. `None` if there is no such
    /// field. O(fields).
    pub fn name_field(&self, record: FieldId, count: u64) -> Option<FieldId> {
        let fields = self.fields.iter().enumerate().filter(|(at, field)| {
            !field.container
                && !field.nested
                && field.values * 10 >= count * 9
                && field.has_different_texts()
                && (!field.is_opaque() || field.priority == FieldPriority::Identity)
                && field.characters <= field.strings * MAX_NAME_CHARS
                && self.record_of(*at) == Some(record)
                && self.level_in_record(*at) <= MAX_OWN_LEVEL
        });
        let rank = |(at, field): &(FieldId, &Field)| {
            let is_phrase = field.phrases * 2 > field.values;
            let is_named = field.priority == FieldPriority::Identity;
            (
                field.links == 0,
                is_named,
                is_phrase,
                Reverse(self.level_in_record(*at)),
                Reverse(*at),
            )
        };
        fields.max_by_key(rank).map(|(at, _)| at)
    }

    /// Returns true if a reader can distinguish the records by the values of a field.
    fn may_identify(&self, at: FieldId, field: &Field) -> bool {
        field.count >= MIN_VALUES
            && match field.priority {
                FieldPriority::State | FieldPriority::Key | FieldPriority::Plain => {
                    !field.is_opaque()
                }
                FieldPriority::Noise => field.is_opaque(),
                _ => false,
            }
            && field.has_different_texts()
            && (MIN_NAME_CHARS..=MAX_NAME_CHARS)
                .contains(&(field.characters / field.strings.max(1)))
            && self.level_in_record(at) <= MAX_OWN_LEVEL
    }

    /// Returns the number of keys between a field and the record that contains it, or the root of
    /// the document.
    pub fn level_in_record(&self, at: FieldId) -> u32 {
        let level = self.fields.get(at).map_or(0, |field| field.level);
        let record = self.record_of(at).and_then(|record| self.fields.get(record));
        level - record.map_or(0, |record| record.level)
    }

    /// Returns the record that contains a field, or the field itself if it is a record. `None` for
    /// fields outside of records.
    pub(in crate::shape::condense) fn record_of(&self, at: FieldId) -> Option<FieldId> {
        let parent = |at: &FieldId| self.fields.get(*at)?.parent;
        std::iter::successors(Some(at), parent)
            .find(|at| self.fields.get(*at).is_some_and(Field::is_record))
    }

    /// Returns the fields that have the same value in all records of the schema. At most twelve,
    /// those with empty values last.
    fn find_constants(&self) -> Vec<FieldId> {
        let records = self.fields.iter().find(|field| field.is_record());
        let count = records.map_or(u64::MAX, |field| field.count);
        let is_constant = |(at, field): &(FieldId, &Field)| {
            !field.container
                && !field.nested
                && field.count == count
                && count >= MIN_CONSTANT_VALUES
                && field.distinct.len() == 1
                && field.characters / count <= MAX_CONSTANT_CHARS
                && self.level_in_record(*at) <= MAX_CONSTANT_LEVEL
        };
        let constants = || self.fields.iter().enumerate().filter(is_constant);
        let filled = constants().filter(|(_, field)| field.empty == 0);
        let empty = constants().filter(|(_, field)| field.empty > 0);
        filled.chain(empty).map(|(at, _)| at).take(MAX_CONSTANTS).collect()
    }

    fn score(&self, at: FieldId, field: &Field, name: &str) -> FieldPriority {
        use FieldPriority::{Identity, Key, Noise, Plain, Prose, State};
        let average = field.characters / field.strings.max(1);
        let distinct = field.distinct.len() as u64;
        let counted = field.count.min(MAX_DISTINCT_VALUES as u64);
        let is_mostly = |values: u64| values * 2 > field.count;
        // An empty value, or the same in all records, says nothing about a record.
        let is_constant = field.count >= MIN_CONSTANT_VALUES && distinct == 1 && field.in_record;
        if field.empty == field.count {
            return Noise;
        }
        // Records that are plain values have no fields: the values identify them.
        if field.is_item() && !field.nested && !field.container {
            return Identity;
        }
        // Long strings that are no prose are encoded data.
        if average > MIN_DATA_CHARS && field.prose == 0 {
            return Noise;
        }
        let level = self.level_in_record(at);
        let mut priority = field_priority(name);
        // Most values of this name are hashes, but some are readable names.
        if name == "uid" && is_mostly(field.strings) && !is_mostly(field.opaque) {
            priority = Key;
        }
        // The values decide if they contradict the name: long texts are prose, short ones are not.
        if is_mostly(field.prose) && average > MIN_PROSE_CHARS && priority != Noise {
            priority = if priority == Identity { State } else { Prose };
        }
        let is_short_prose = priority == Prose && average <= MIN_PROSE_CHARS;
        if is_short_prose {
            priority = Key;
        }
        let varies = distinct * 2 >= counted;
        // Phrases describe their records. One that is prose by its name is a key field already: its
        // length must not displace several of those.
        let is_phrase = is_mostly(field.phrases) && average <= MIN_PROSE_CHARS;
        if matches!(priority, Plain | Key)
            && !is_short_prose
            && is_phrase
            && distinct >= MIN_PHRASES
        {
            priority = State;
        }
        // A short text that recurs is a category.
        let is_short = is_mostly(field.strings) && average <= MAX_CATEGORY_CHARS;
        if field.count >= MIN_VALUES && is_short && distinct > 1 && distinct * 4 <= counted {
            priority = match priority {
                Plain => Key,
                Key if level <= 1 => State,
                priority => priority,
            };
        }
        // Hashes are for programs, unless a name says that one identifies something.
        if priority == Plain && is_mostly(field.opaque) {
            return Noise;
        }
        // A value outside of records costs little: there is only one of it.
        if priority == Plain && !field.in_record && level <= 2 && !is_mostly(field.links) {
            priority = Key;
        }
        // A field at a deep level, or in a list inside a record, identifies something else than the
        // record.
        priority = match priority {
            Identity | State if field.nested || level > 2 => Key,
            Identity if level > 1 && matches!(name, "id" | "_id" | "uid" | "uuid" | "ID") => Key,
            Key if field.nested || level > 3 => Plain,
            priority => priority,
        };
        // A value that half of the records share does not identify them.
        if priority == Identity && field.count >= MIN_VALUES && !varies {
            priority = State;
        }
        if is_constant && priority > State && !self.constants.contains(&at) {
            priority = Noise;
        }
        priority
    }
}
