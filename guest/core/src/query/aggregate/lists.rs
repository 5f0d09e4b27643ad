//! Lists whose elements are grouped individually. In `sum(items.qty) by items.sku`, each quantity
//! belongs to the key of its own element.

use super::Aggregate;
use crate::json::outline::{NodeId, Outline};
use crate::query::field::FieldPath;
use crate::query::operand::Operand;
use crate::query::records::RecordSet;

/// The maximum number of rows of one record.
const MAX_ROWS: usize = 200_000;

/// The lists whose elements are grouped one by one: those through which a key and another field, or
/// several fields of a computed operand, lead.
pub(super) struct SharedLists {
    /// The path of each list, or of a value in its elements.
    paths: Vec<FieldPath>,
    /// For each operand that leads through one of these lists: the index of the list, and the
    /// operand relative to its elements. Keys come before totals.
    operands: Vec<Option<(usize, Operand)>>,
    /// The lists to which keys belong, if there are several lists.
    crossed: Vec<FieldPath>,
    /// True if each element counts, instead of each record.
    is_unwound: bool,
}

/// A record, with one element of each shared list. The element is `None` if the list is empty.
pub(super) struct Row {
    record: NodeId,
    elements: Vec<Option<NodeId>>,
}

impl SharedLists {
    /// Finds the lists that the keys `by` and the totals share. O(records) in the worst case.
    pub(super) fn find(by: &[Operand], items: &[Aggregate], records: &RecordSet<'_>) -> Self {
        let totals = items.iter().map(|item| item.operand.as_ref());
        let all: Vec<Option<&Operand>> = by.iter().map(Some).chain(totals).collect();
        let lists: Vec<Option<FieldPath>> =
            all.iter().map(|operand| outer_list((*operand)?, records)).collect();
        let mut crossed: Vec<FieldPath> = Vec::new();
        for list in lists.iter().take(by.len()).flatten() {
            if !crossed.contains(list) {
                crossed.push(list.clone());
            }
        }
        let operands = all.iter().map(|_| None).collect();
        let mut found = Self { paths: Vec::new(), operands, crossed, is_unwound: false };
        let mut known: Vec<&FieldPath> = Vec::new();
        for list in lists.iter().flatten() {
            if known.contains(&list) {
                continue;
            }
            known.push(list);
            let own: Vec<usize> = (0..all.len())
                .filter(|at| lists.get(*at).is_some_and(|other| other.as_ref() == Some(list)))
                .collect();
            let operands = own.iter().filter_map(|at| *all.get(*at)?);
            let mut paths: Vec<&FieldPath> = Vec::new();
            for path in operands.flat_map(Operand::paths) {
                if !paths.contains(&path) {
                    paths.push(path);
                }
            }
            let is_computed = own.iter().any(|at| {
                all.get(*at).is_some_and(|operand| operand.is_some_and(Operand::is_computed))
            });
            let has_key = own.iter().any(|at| *at < by.len());
            if paths.len() < 2 || !(has_key || is_computed) {
                continue;
            }
            let depth = common_depth(&paths).max(list.steps().len());
            let steps = paths.first().and_then(|path| path.steps().get(..depth));
            for at in own {
                let stripped = all.get(at).copied().flatten().cloned().map(|mut operand| {
                    operand.strip(depth);
                    (found.paths.len(), operand)
                });
                if let Some(operand) = found.operands.get_mut(at) {
                    *operand = stripped;
                }
            }
            found.paths.push(FieldPath::new(steps.unwrap_or_default().to_vec()));
        }
        found
    }

    /// Makes each element of `list` one row, with the other fields of its record, as `UNNEST` and
    /// `$unwind` do.
    ///
    /// # Errors
    /// Returns a message for the caller if there is no such list, or if another list is grouped by
    /// element.
    pub(super) fn unwind(
        &mut self,
        list: &Operand,
        (by, items): (&[Operand], &[Aggregate]),
        records: &RecordSet<'_>,
    ) -> Result<(), String> {
        let path = &list.field;
        let own = FieldPath::shared_list(&[path], &records.outline, &records.ids);
        if own.as_ref() != Some(path) {
            return Err(format!("aggregate: {path} is a list in no record: leave out unnest"));
        }
        let all = by.iter().map(Some).chain(items.iter().map(|item| item.operand.as_ref()));
        let depth = path.steps().len();
        let mut operands = Vec::new();
        for operand in all {
            let of_list = operand.filter(|operand| {
                operand.paths().iter().all(|own| own.steps().starts_with(path.steps()))
            });
            let other = operand.filter(|_| of_list.is_none());
            if let Some(other) = other.and_then(|other| outer_list(other, records)) {
                return Err(format!(
                    "aggregate: {path} and {other} are different lists: unnest one of them, and give path for the other, or use jq"
                ));
            }
            operands.push(of_list.cloned().map(|mut operand| {
                operand.strip(depth);
                (0, operand)
            }));
        }
        self.paths = vec![path.clone()];
        self.operands = operands;
        self.is_unwound = true;
        Ok(())
    }

    /// Returns true if each element counts, instead of each record.
    pub(super) fn counts_elements(&self) -> bool {
        self.is_unwound
    }

    /// Returns true if no list is grouped by element, so that each record is one row.
    pub(super) fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Returns a note on the elements that were grouped. `None` if no list is shared.
    pub(super) fn note(&self, has_count: bool) -> Option<String> {
        let Some(path) = self.paths.first() else {
            let (first, second) = (self.crossed.first()?, self.crossed.get(1)?);
            return Some(format!(
                "{first} and {second} are different lists: each pair of their values is a group"
            ));
        };
        if self.is_unwound {
            return Some(format!("each element of {path} counts, not each record"));
        }
        let count = if has_count { "; count is the number of records" } else { "" };
        Some(format!("fields of {path} were taken from the same element{count}"))
    }

    /// Returns the rows of a record: one for each element of a shared list, or for each combination
    /// of elements of several lists.
    ///
    /// # Errors
    /// Returns a message for the caller if there are more than [`MAX_ROWS`].
    pub(super) fn rows(&self, outline: &Outline<'_>, record: NodeId) -> Result<Vec<Row>, String> {
        let mut rows = vec![Row { record, elements: Vec::new() }];
        for path in &self.paths {
            let mut elements = Vec::new();
            path.visit_elements(outline, record, &mut |element| elements.push(element));
            if self.is_unwound {
                elements.retain(Option::is_some);
            } else if elements.is_empty() {
                elements.push(None);
            }
            if rows.len().saturating_mul(elements.len()) > MAX_ROWS {
                return Err(format!(
                    "aggregate: a record has more than {MAX_ROWS} elements of {path}, or pairs with those of other lists; use path to choose a list, or jq"
                ));
            }
            rows = rows
                .iter()
                .flat_map(|row| elements.iter().map(move |element| row.with(*element)))
                .collect();
        }
        Ok(rows)
    }

    /// Returns operand number `at` relative to a node of the row, and that node. The node is `None`
    /// if the row has no element of the operand's list.
    pub(super) fn operand<'o>(
        &'o self,
        at: usize,
        operand: &'o Operand,
        row: &Row,
    ) -> (&'o Operand, Option<NodeId>) {
        match self.operands.get(at).and_then(Option::as_ref) {
            Some((list, operand)) => (operand, row.elements.get(*list).copied().flatten()),
            None => (operand, Some(row.record)),
        }
    }
}

impl Row {
    fn with(&self, element: Option<NodeId>) -> Self {
        let elements = self.elements.iter().copied().chain([element]).collect();
        Self { record: self.record, elements }
    }
}

/// Returns the outermost list through which all fields of an operand lead. `None` if there is no
/// such list.
pub(super) fn outer_list(operand: &Operand, records: &RecordSet<'_>) -> Option<FieldPath> {
    if operand.is_of_list() {
        return None;
    }
    FieldPath::shared_list(&operand.paths(), &records.outline, &records.ids)
}

/// Returns the number of leading steps that all paths share.
fn common_depth(paths: &[&FieldPath]) -> usize {
    let Some((first, rest)) = paths.split_first() else { return 0 };
    let same = |path: &&FieldPath| {
        path.steps().iter().zip(first.steps()).take_while(|(left, right)| left == right).count()
    };
    rest.iter().map(same).min().unwrap_or(first.steps().len())
}
