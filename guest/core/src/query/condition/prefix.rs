//! Names of records before fields: `listing.city = 'Rome' AND listing.price > 5`.

use super::{Check, Test};
use crate::query::field::FieldName;
use crate::query::records::RecordSet;

impl Test {
    /// Removes a name before all fields that no record has, if the rest of each name is a field.
    /// Needs two fields: a single one may be that of an absent object. Returns a note for the
    /// answer. `None` if there is no such name.
    pub(super) fn strip_prefix(&mut self, records: &RecordSet<'_>) -> Option<String> {
        let mut names: Vec<FieldName> = Vec::new();
        let mut is_plain = !self.has_elements();
        let mut words: Vec<String> = Vec::new();
        self.each_leaf(&mut |leaf| {
            is_plain &= !leaf.operand.is_computed();
            names.push(leaf.operand.name.clone());
            match &leaf.check {
                Check::Field(..) => is_plain = false,
                Check::Compare(_, literal) if !literal.is_quoted => {
                    words.push(literal.text.clone());
                }
                _ => {}
            }
        });
        // The records of a list with a name have that name.
        let is_plain = is_plain && records.list_keys().is_empty();
        let (first, _) = names.first().filter(|_| is_plain)?.split_first()?;
        let first = first.to_owned();
        let is_absent = |name: &FieldName| name.find(records, &records.ids).is_none();
        let mut fields: Vec<FieldName> = Vec::new();
        for name in &names {
            let (own, rest) = name.split_first()?;
            if own != first || !is_absent(name) || is_absent(&rest) {
                return None;
            }
            if !fields.contains(&rest) {
                fields.push(rest);
            }
        }
        let has_word = words.iter().any(|word| word.starts_with(&format!("{first}.")));
        if fields.len() < 2 || has_word || !is_absent(&FieldName::of_key(&first)) {
            return None;
        }
        let _ = self.each_leaf_mut(&mut |leaf| {
            if let Some((_, rest)) = leaf.operand.name.split_first() {
                leaf.operand.name = rest;
            }
            Ok(())
        });
        Some(format!("{first} was read as the name of a record"))
    }

    fn has_elements(&self) -> bool {
        match self {
            Test::All(tests) | Test::Any(tests) => tests.iter().any(Test::has_elements),
            Test::Not(test) => test.has_elements(),
            Test::Leaf(_) => false,
            Test::Element(..) => true,
        }
    }
}
