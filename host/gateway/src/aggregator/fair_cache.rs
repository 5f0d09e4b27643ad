//! A bounded cache in which no upstream and no owner can evict the values of all others.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use lru::LruCache;

use super::audience::Audience;

/// The key of a value that belongs to an owner and to an upstream.
pub(super) trait OwnedKey: Clone + Eq + Hash {
    /// Returns the index of the upstream.
    fn server(&self) -> usize;
    /// Returns the owner.
    fn owner(&self) -> &Arc<str>;
}

impl OwnedKey for Audience {
    fn server(&self) -> usize {
        self.server()
    }

    fn owner(&self) -> &Arc<str> {
        self.owner()
    }
}

impl<T: Clone + Eq + Hash> OwnedKey for (Audience, T) {
    fn server(&self) -> usize {
        self.0.server()
    }

    fn owner(&self) -> &Arc<str> {
        self.0.owner()
    }
}

impl OwnedKey for (Arc<str>, usize) {
    fn server(&self) -> usize {
        self.1
    }

    fn owner(&self) -> &Arc<str> {
        &self.0
    }
}

/// The part of a value that several values of an upstream may share in memory.
#[derive(Clone, Copy)]
pub(super) struct SharedContent {
    /// The address of the content in memory.
    pub(super) address: usize,
    pub(super) cost: usize,
}

/// A value with a cost, such as its size. The cost does not change while a cache has the value.
pub(super) trait Weighted {
    /// Returns the cost of the value without its shared content.
    fn cost(&self) -> usize;

    /// Returns the content that other values may share, if the value has any.
    fn shared(&self) -> Option<SharedContent> {
        None
    }

    /// Returns the cost of the value with its shared content.
    fn full_cost(&self) -> usize {
        self.cost() + self.shared().map_or(0, |content| content.cost)
    }
}

/// The values of one upstream.
#[derive(Default)]
struct UpstreamUsage {
    /// The cost of all values. Content that several values share counts once.
    cost: usize,
    /// The cost of each owner's values, with all of their content.
    owners: HashMap<Arc<str>, usize>,
    /// The number of values that have the content at an address.
    contents: HashMap<usize, usize>,
}

/// A cache of values up to a total cost. When it is full, it evicts from the upstream whose values
/// cost the most and, of this upstream, from the owner whose values cost the most: the least
/// recently used value.
pub(super) struct FairCache<K, V> {
    values: LruCache<K, V>,
    usage: HashMap<usize, UpstreamUsage>,
    cost: usize,
    max_cost: usize,
    max_value_cost: usize,
}

impl<K: OwnedKey, V: Weighted> FairCache<K, V> {
    /// Creates an empty cache for values that cost at most `max_cost` together, and each at most
    /// `max_value_cost`.
    pub(super) fn new(max_cost: usize, max_value_cost: usize) -> Self {
        let (values, usage) = (LruCache::unbounded(), HashMap::new());
        Self { values, usage, cost: 0, max_cost, max_value_cost }
    }

    /// Returns true if there is a value for this key. Does not count as a use of the value.
    pub(super) fn contains(&self, key: &K) -> bool {
        self.values.contains(key)
    }

    /// Returns the value for a key, and marks it as the most recently used.
    pub(super) fn get(&mut self, key: &K) -> Option<&V> {
        self.values.get(key)
    }

    /// Returns the value for a key, and marks it as the most recently used. The caller must not
    /// change the cost.
    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.values.get_mut(key)
    }

    /// Returns all values with their keys.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.values.iter()
    }

    /// Returns all values with their keys. The caller must not change the costs.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        self.values.iter_mut()
    }

    /// Replaces the value for a key. Removes it if the new one costs too much for the cache.
    pub(super) fn put(&mut self, key: K, value: V) {
        self.pop(&key);
        if value.full_cost() > self.max_value_cost {
            return;
        }
        let usage = self.usage.entry(key.server()).or_default();
        let mut cost = value.cost();
        if let Some(content) = value.shared() {
            let count = usage.contents.entry(content.address).or_default();
            *count += 1;
            cost += if *count == 1 { content.cost } else { 0 };
        }
        usage.cost += cost;
        *usage.owners.entry(Arc::clone(key.owner())).or_default() += value.full_cost();
        self.cost += cost;
        self.values.put(key, value);
        while self.cost > self.max_cost {
            let Some(victim) = self.victim() else { return };
            self.pop(&victim);
        }
    }

    /// Removes and returns the value for a key.
    pub(super) fn pop(&mut self, key: &K) -> Option<V> {
        let value = self.values.pop(key)?;
        let usage = self.usage.entry(key.server()).or_default();
        let mut cost = value.cost();
        if let Some(content) = value.shared() {
            let count = usage.contents.entry(content.address).or_default();
            *count = count.saturating_sub(1);
            if *count == 0 {
                usage.contents.remove(&content.address);
                cost += content.cost;
            }
        }
        usage.cost = usage.cost.saturating_sub(cost);
        self.cost = self.cost.saturating_sub(cost);
        if let Some(owned) = usage.owners.get_mut(key.owner()) {
            *owned = owned.saturating_sub(value.full_cost());
            if *owned == 0 {
                usage.owners.remove(key.owner());
            }
        }
        if usage.owners.is_empty() {
            self.usage.remove(&key.server());
        }
        Some(value)
    }

    /// Returns the key of the value to evict. Among several upstreams or owners with the same cost,
    /// the one with the least recently used value is chosen.
    fn victim(&self) -> Option<K> {
        let most = self.usage.values().map(|usage| usage.cost).max()?;
        let cost = |key: &K| self.usage.get(&key.server()).map(|usage| usage.cost);
        // The order is from the last used value to the first.
        let mut keys = self.values.iter().rev().map(|(key, _)| key);
        let server = keys.find(|key| cost(key) == Some(most))?.server();
        let owners = &self.usage.get(&server)?.owners;
        let most = owners.values().max()?;
        let mut keys = self.values.iter().rev().map(|(key, _)| key);
        let found = |key: &&K| key.server() == server && owners.get(key.owner()) == Some(most);
        keys.find(found).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Value {
        cost: usize,
        shared: Option<SharedContent>,
    }

    impl Weighted for Value {
        fn cost(&self) -> usize {
            self.cost
        }

        fn shared(&self) -> Option<SharedContent> {
            self.shared
        }
    }

    type Cache = FairCache<(Arc<str>, usize), Value>;

    fn key(owner: &str, server: usize) -> (Arc<str>, usize) {
        (owner.into(), server)
    }

    fn put(cache: &mut Cache, owner: &str, server: usize, cost: usize) {
        cache.put(key(owner, server), Value { cost, shared: None });
    }

    fn keys(cache: &Cache) -> Vec<String> {
        let mut keys: Vec<String> =
            cache.iter().map(|((owner, server), _)| format!("{owner}{server}")).collect();
        keys.sort();
        keys
    }

    #[test]
    fn upstream_with_the_highest_cost_is_evicted_from() {
        let mut cache = Cache::new(10, 5);
        put(&mut cache, "ann", 0, 2);
        for owner in ["a", "b", "c", "d"] {
            put(&mut cache, owner, 1, 3);
        }
        assert_eq!(keys(&cache), ["ann0", "c1", "d1"]);
        put(&mut cache, "bob", 0, 6);
        assert_eq!(keys(&cache), ["ann0", "c1", "d1"], "the value costs too much");
        put(&mut cache, "d", 1, 6);
        assert_eq!(keys(&cache), ["ann0", "c1"], "the replaced value is outdated");
        assert_eq!((cache.cost, cache.usage[&1].cost), (5, 3));
    }

    #[test]
    fn shared_content_counts_once() {
        let mut cache = Cache::new(10, 10);
        let shared = Some(SharedContent { address: 7, cost: 6 });
        for owner in ["a", "b", "c", "d"] {
            cache.put(key(owner, 0), Value { cost: 1, shared });
        }
        assert_eq!((keys(&cache).len(), cache.cost), (4, 10));
        for owner in ["a", "b", "c"] {
            cache.pop(&key(owner, 0));
        }
        assert_eq!(cache.cost, 7);
        cache.pop(&key("d", 0));
        assert!(cache.cost == 0 && cache.usage.is_empty());
    }
}
