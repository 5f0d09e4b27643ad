//! What is known of keys, looked for where they stood before: records have their fields in the same order.

use std::cell::Cell;

use crate::blocks::equal_bytes;

/// Keys in a row that a record may lack.
const AHEAD: usize = 4;

/// Something known of each key, in the order in which the keys came.
#[derive(Clone, Debug)]
pub struct KeyCache<T> {
    known: Vec<(Vec<u8>, T)>,
    /// Where the next one is looked for first.
    next: Cell<usize>,
}

impl<T> Default for KeyCache<T> {
    fn default() -> Self {
        Self { known: Vec::new(), next: Cell::default() }
    }
}

impl<T: Copy> KeyCache<T> {
    /// What is known of a key, wherever it came. O(1) where keys come in the order in which they came before, else O(keys).
    #[inline]
    #[must_use]
    pub fn find(&self, key: &[u8]) -> Option<T> {
        let next = self.next.get();
        self.at(next, key).or_else(|| self.anywhere(key))
    }

    #[inline(never)]
    fn nearby(&self, key: &[u8]) -> Option<T> {
        let next = self.next.get();
        (next + 1..next + AHEAD).chain([0]).find_map(|at| self.at(at, key))
    }

    #[inline(never)]
    fn anywhere(&self, key: &[u8]) -> Option<T> {
        self.nearby(key).or_else(|| (0..self.known.len()).find_map(|at| self.at(at, key)))
    }

    #[inline(always)]
    fn at(&self, at: usize, key: &[u8]) -> Option<T> {
        let (_, value) = self.known.get(at).filter(|(known, _)| equal_bytes(known, key))?;
        // After the last comes the first of the next record.
        self.next.set(if at + 1 < self.known.len() { at + 1 } else { 0 });
        Some(*value)
    }

    /// Adds a key, which comes after all others.
    pub fn add(&mut self, key: &[u8], value: T) {
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
}
