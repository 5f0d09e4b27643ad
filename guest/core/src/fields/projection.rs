//! Projections: copies of the selected fields of documents, in one pass over each.

use super::{Mask, minify};
use crate::json::scan::{Kind, Scan, Scanner};
use crate::json::text::{Form, convert, visible};

/// Maximum nesting depth at which fields can be selected. Deeper values are skipped.
pub(super) const MAX_LEVELS: u16 = 64;
/// Maximum number of member keys that are cached for one node of a mask.
const MAX_CACHED_MEMBERS: usize = 256;
/// The number of cached members to compare with a key, from the expected one on. After them, the
/// first cached member is compared, then the whole cache is searched.
const MAX_MISSING_MEMBERS: usize = 4;

/// Copies the fields that a mask selects out of JSON documents. Caches the keys of earlier objects:
/// most records have the same keys in the same order, so comparing raw bytes replaces most lookups.
pub struct Projection<'m> {
    /// The selected fields copied so far, as unescaped JSON.
    pub out: Vec<u8>,
    form: Form,
    nodes: Vec<MaskNode<'m>>,
    /// The nesting depth of the next value to read.
    level: u16,
}

/// A node of the mask, with a cache of the member keys seen in objects at that node.
struct MaskNode<'m> {
    mask: &'m Mask,
    members: Vec<Member>,
    /// Index in `members` of the member that is expected next in the input.
    next: usize,
}

struct Member {
    /// The member's key verbatim, with quotes and colon.
    raw_key: Vec<u8>,
    /// The member's key as unescaped JSON, with quotes and colon, and the index of the mask node
    /// for its value. `None` if the mask does not select the member.
    selected: Option<(Vec<u8>, usize)>,
}

impl<'m> Projection<'m> {
    /// Creates a projection that copies the fields in `mask`. `form` is that of the input
    /// documents: raw, or escaped as in a JSON string.
    #[must_use]
    pub fn new(mask: &'m Mask, form: Form) -> Self {
        let root = MaskNode { mask, members: Vec::new(), next: 0 };
        Self { out: Vec::new(), form, nodes: vec![root], level: 0 }
    }

    /// Appends the selected fields of the JSON value at offset `at` of `bytes` to `out`. Returns
    /// false, and appends nothing, if the value has none of them. A list that is not empty keeps
    /// its elements: strings, numbers and the like whole, and `{}` for each object or list that has
    /// none of the fields. Values deeper than 64 levels are left out. O(value).
    ///
    /// # Errors
    /// Returns an error if the JSON that was read is invalid. `out` may then end with a part of the
    /// value.
    pub fn copy(&mut self, bytes: &[u8], at: usize) -> Scan<bool> {
        self.value(&mut Scanner::starting_at(bytes, self.form, at), 0)
    }

    /// Returns the paths of the mask that no copied value had, sorted by name.
    #[must_use]
    pub fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        if let Some(root) = self.nodes.first() {
            self.add_missing(root.mask, "", &mut missing);
        }
        missing
    }

    fn add_missing(&self, mask: &Mask, path: &str, missing: &mut Vec<String>) {
        for (name, inner) in mask.members() {
            let path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            if !self.nodes.iter().any(|node| std::ptr::eq(node.mask, inner)) {
                missing.push(path);
            } else if !inner.is_end() {
                self.add_missing(inner, &path, missing);
            }
        }
    }

    fn value(&mut self, scanner: &mut Scanner<'_>, node: usize) -> Scan<bool> {
        if self.nodes.get(node).is_none_or(|node| node.mask.is_end()) {
            return self.whole(scanner).map(|()| true);
        }
        let kind = scanner.kind()?;
        if self.level >= MAX_LEVELS || !matches!(kind, Kind::Object | Kind::Array) {
            return scanner.skip_unchecked().map(|_| false);
        }
        self.level += 1;
        let copied = match kind {
            Kind::Object => self.object(scanner, node),
            _ => self.array(scanner, node),
        };
        self.level -= 1;
        copied
    }

    fn whole(&mut self, scanner: &mut Scanner<'_>) -> Scan<()> {
        let kind = scanner.kind()?;
        let value = scanner.skip_value()?;
        let bytes = scanner.bytes(&value);
        match kind {
            Kind::Object | Kind::Array => {
                self.out.extend_from_slice(&minify(&visible(bytes, self.form)));
            }
            Kind::String | Kind::Scalar => convert(&mut self.out, bytes, self.form, Form::Raw),
        }
        Ok(())
    }

    fn object(&mut self, scanner: &mut Scanner<'_>, node: usize) -> Scan<bool> {
        let start = self.out.len();
        self.out.push(b'{');
        scanner.members(|scanner| {
            let before = self.out.len();
            let Some(at) = self.member(scanner, node)? else {
                return scanner.skip_unchecked().map(drop);
            };
            let named = self.nodes.get(node).and_then(|node| node.members.get(at));
            let Some((key, inner)) = named.and_then(|member| member.selected.as_ref()) else {
                return scanner.skip_unchecked().map(drop);
            };
            if before > start + 1 {
                self.out.push(b',');
            }
            self.out.extend_from_slice(key);
            if !self.value(scanner, *inner)? {
                self.out.truncate(before);
            }
            Ok(())
        })?;
        if self.out.len() == start + 1 {
            self.out.truncate(start);
            return Ok(false);
        }
        self.out.push(b'}');
        Ok(true)
    }

    fn array(&mut self, scanner: &mut Scanner<'_>, node: usize) -> Scan<bool> {
        let start = self.out.len();
        self.out.push(b'[');
        scanner.array(|scanner| {
            if self.out.len() > start + 1 {
                self.out.push(b',');
            }
            // An empty object would misrepresent an element that can have no fields.
            if !matches!(scanner.kind()?, Kind::Object | Kind::Array) {
                return self.whole(scanner);
            }
            // `{}` keeps the position of an element without any of the fields.
            if !self.value(scanner, node)? {
                self.out.extend_from_slice(b"{}");
            }
            Ok(())
        })?;
        if self.out.len() == start + 1 {
            self.out.truncate(start);
            return Ok(false);
        }
        self.out.push(b']');
        Ok(true)
    }

    /// Reads a member's key and colon, and returns the index of the member in the cache of `node`.
    /// `None` if the mask does not select the member and the cache is full.
    #[inline]
    fn member(&mut self, scanner: &mut Scanner<'_>, node: usize) -> Scan<Option<usize>> {
        scanner.skip_whitespace();
        match self.nodes.get_mut(node).and_then(|node| node.expected(scanner)) {
            Some(at) => Ok(Some(at)),
            None => self.found(scanner, node),
        }
    }

    #[inline(never)]
    fn found(&mut self, scanner: &mut Scanner<'_>, node: usize) -> Scan<Option<usize>> {
        let start = scanner.position();
        let key = scanner.key()?;
        let raw_key = scanner.bytes(&(start..scanner.position()));
        let Some(here) = self.nodes.get_mut(node) else { return Ok(None) };
        if let Some(at) = here.members.iter().position(|member| member.raw_key == raw_key) {
            here.follow(at);
            return Ok(Some(at));
        }
        let inner = here.mask.named(scanner.decode(&key).as_bytes());
        if inner.is_none() && here.members.len() >= MAX_CACHED_MEMBERS {
            return Ok(None);
        }
        let selected = inner.map(|mask| {
            let mut written = vec![b'"'];
            convert(&mut written, scanner.bytes(&key), self.form, Form::Raw);
            written.extend_from_slice(b"\":");
            (written, self.node_index(mask))
        });
        let member = Member { raw_key: raw_key.to_vec(), selected };
        Ok(self.nodes.get_mut(node).map(|here| here.learn(member)))
    }

    /// Returns the index of the node for `mask`. Adds the node if missing. Masks are small, so a
    /// linear search by address suffices.
    fn node_index(&mut self, mask: &'m Mask) -> usize {
        let known = self.nodes.iter().position(|node| std::ptr::eq(node.mask, mask));
        known.unwrap_or_else(|| {
            self.nodes.push(MaskNode { mask, members: Vec::new(), next: 0 });
            self.nodes.len() - 1
        })
    }
}

impl MaskNode<'_> {
    /// Reads the next key if it equals the expected cached key or one of the next few, and returns
    /// its index. Records repeat their key order, so this usually succeeds. Returns `None`, and
    /// reads nothing, if no key matches. O(1).
    #[inline]
    fn expected(&mut self, scanner: &mut Scanner<'_>) -> Option<usize> {
        let at = match self.members.get(self.next) {
            Some(member) if scanner.consume_bytes(&member.raw_key) => self.next,
            _ => self.nearby(scanner)?,
        };
        self.follow(at);
        Some(at)
    }

    #[inline(never)]
    fn nearby(&self, scanner: &mut Scanner<'_>) -> Option<usize> {
        let meets = |at: &usize| {
            self.members.get(*at).is_some_and(|member| scanner.consume_bytes(&member.raw_key))
        };
        (self.next + 1..self.next + MAX_MISSING_MEMBERS).chain([0]).find(meets)
    }

    fn learn(&mut self, member: Member) -> usize {
        self.members.push(member);
        self.follow(self.members.len() - 1);
        self.members.len() - 1
    }

    /// Sets the member that is expected next: the one after `at`, or the first member of the next
    /// record if `at` is the last.
    #[inline]
    fn follow(&mut self, at: usize) {
        self.next = if at + 1 < self.members.len() { at + 1 } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_fields_are_those_of_no_record() {
        let mask = Mask::parse("id,owner.name,owner.nmae,*Plus,size").unwrap();
        let mut projection = Projection::new(&mask, Form::Raw);
        for record in [r#"{"id":1,"owner":{"name":"a"}}"#, r#"{"id":2,"size":null}"#] {
            assert!(projection.copy(record.as_bytes(), 0).unwrap());
        }
        assert_eq!(projection.missing(), ["*Plus", "owner.nmae"]);
    }
}
