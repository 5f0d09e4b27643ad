//! A map from keys to values that is fast if keys recur in the same order, as in the records of a
//! list.

use std::cell::Cell;
use std::collections::BTreeMap;

use crate::blocks::equal_bytes;

/// The number of keys to compare, from the expected one on, before all keys are searched. Records
/// often lack some optional keys.
const MAX_MISSING_KEYS: usize = 4;
/// The maximum number of keys that are compared one by one. Further keys are searched in an index.
const MAX_COMPARED_KEYS: usize = 32;

/// A map from keys to values, fast for keys that recur in the same order. A search begins at the
/// key after the last one found.
#[derive(Debug)]
pub struct KeyCache<T> {
    known: Vec<(Vec<u8>, T)>,
    /// The indices in `known` of the keys after the first [`MAX_COMPARED_KEYS`].
    index: BTreeMap<Vec<u8>, usize>,
    /// The index of the key that the next search compares first.
    next: Cell<usize>,
}

impl<T> Default for KeyCache<T> {
    fn default() -> Self {
        Self { known: Vec::new(), index: BTreeMap::new(), next: Cell::default() }
    }
}

impl<T: Copy> KeyCache<T> {
    /// Returns the value of `key`. `None` if the key was not added. O(1) if keys are requested in
    /// the order of insertion, else O(log keys).
    #[inline]
    #[must_use]
    pub fn find(&self, key: &[u8]) -> Option<T> {
        let next = self.next.get();
        self.matching(next, key).or_else(|| self.anywhere(key))
    }

    #[inline(never)]
    fn nearby(&self, key: &[u8]) -> Option<T> {
        let next = self.next.get();
        (next + 1..next + MAX_MISSING_KEYS).chain([0]).find_map(|at| self.matching(at, key))
    }

    #[inline(never)]
    fn anywhere(&self, key: &[u8]) -> Option<T> {
        self.nearby(key)
            .or_else(|| (0..MAX_COMPARED_KEYS).find_map(|at| self.matching(at, key)))
            .or_else(|| self.matching(*self.index.get(key)?, key))
    }

    #[inline(always)]
    fn matching(&self, at: usize, key: &[u8]) -> Option<T> {
        let (_, value) = self.known.get(at).filter(|(known, _)| equal_bytes(known, key))?;
        // After the last key of a record follows the first key of the next one.
        self.next.set(if at + 1 < self.known.len() { at + 1 } else { 0 });
        Some(*value)
    }

    /// Adds `key` and its value after all other keys, without a check for duplicates.
    /// O(log keys).
    pub fn add(&mut self, key: &[u8], value: T) {
        if self.known.len() >= MAX_COMPARED_KEYS {
            self.index.insert(key.to_vec(), self.known.len());
        }
        self.known.push((key.to_vec(), value));
        self.next.set(self.known.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_in_any_order() {
        let mut keyed = KeyCache::default();
        for (at, key) in ["a", "b", "c", "d", "e", "f", "g"].iter().enumerate() {
            keyed.add(key.as_bytes(), at);
        }
        for (key, expected) in [("a", 0), ("c", 2), ("g", 6), ("b", 1), ("g", 6)] {
            assert_eq!(keyed.find(key.as_bytes()), Some(expected));
        }
        assert_eq!(keyed.find(b"x"), None);
    }

    #[test]
    fn many_keys_are_found_in_any_order() {
        let mut keyed = KeyCache::default();
        for at in 0..1_000_usize {
            keyed.add(at.to_string().as_bytes(), at);
        }
        for at in (0..1_000).rev().chain((0..1_000).step_by(7)) {
            assert_eq!(keyed.find(at.to_string().as_bytes()), Some(at));
        }
        assert_eq!(keyed.find(b"1000"), None);
    }
}
