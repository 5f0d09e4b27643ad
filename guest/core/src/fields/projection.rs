//! What a mask names, copied out of documents in one pass over each.

use super::{Mask, minify};
use crate::blocks::append;
use crate::json::scan::{Kind, Scan, Scanner};
use crate::json::text::{Form, convert, visible};

/// Levels that are followed; what is nested deeper is not looked into.
pub(super) const LEVELS: u16 = 64;
/// Members that are remembered of one place.
const MOST: usize = 256;
/// Members in a row that an object may lack of those before it.
const AHEAD: usize = 4;

/// A mask, and what the members of earlier objects were found to be: records have theirs in the same order, and spelt the same.
pub struct Projection<'m> {
    /// What was copied, as JSON that is not escaped.
    pub out: Vec<u8>,
    form: Form,
    places: Vec<MaskNode<'m>>,
    /// How many containers the next value stands in.
    level: u16,
}

/// What is named at one place, and the members that objects there have.
struct MaskNode<'m> {
    mask: &'m Mask,
    members: Vec<Member>,
    /// Which of them is looked for first.
    next: usize,
}

struct Member {
    /// Its key as it stands, with its quotes and colon.
    spelt: Vec<u8>,
    /// The same as JSON that is not escaped, and the place of its value; none where it is not named.
    named: Option<(Vec<u8>, usize)>,
}

impl<'m> Projection<'m> {
    /// A projection of documents that stand in this form.
    #[must_use]
    pub fn of(mask: &'m Mask, form: Form) -> Self {
        let root = MaskNode { mask, members: Vec::new(), next: 0 };
        Self { out: Vec::new(), form, places: vec![root], level: 0 }
    }

    /// Appends what is named of the value that begins at `at`; false, and nothing, where it has nothing of it. O(value).
    ///
    /// # Errors
    /// Where what is looked at is broken.
    pub fn copy(&mut self, bytes: &[u8], at: usize) -> Scan<bool> {
        self.value(&mut Scanner::starting_at(bytes, self.form, at), 0)
    }

    fn value(&mut self, scanner: &mut Scanner<'_>, place: usize) -> Scan<bool> {
        if self.places.get(place).is_none_or(|place| place.mask.is_end()) {
            return self.whole(scanner).map(|()| true);
        }
        let kind = scanner.kind()?;
        if self.level >= LEVELS || !matches!(kind, Kind::Object | Kind::Array) {
            return scanner.pass().map(|_| false);
        }
        self.level += 1;
        let copied = match kind {
            Kind::Object => self.object(scanner, place),
            _ => self.array(scanner, place),
        };
        self.level -= 1;
        copied
    }

    fn whole(&mut self, scanner: &mut Scanner<'_>) -> Scan<()> {
        let kind = scanner.kind()?;
        let value = scanner.skip()?;
        let bytes = scanner.bytes(&value);
        match kind {
            Kind::Object | Kind::Array => {
                self.out.extend_from_slice(&minify(&visible(bytes, self.form)));
            }
            Kind::String | Kind::Scalar => convert(&mut self.out, bytes, self.form, Form::Raw),
        }
        Ok(())
    }

    fn object(&mut self, scanner: &mut Scanner<'_>, place: usize) -> Scan<bool> {
        let start = self.out.len();
        self.out.push(b'{');
        scanner.members(|scanner| {
            let before = self.out.len();
            let Some(at) = self.member(scanner, place)? else {
                return scanner.pass().map(drop);
            };
            let named = self.places.get(place).and_then(|place| place.members.get(at));
            let Some((key, inner)) = named.and_then(|member| member.named.as_ref()) else {
                return scanner.pass().map(drop);
            };
            if before > start + 1 {
                self.out.push(b',');
            }
            append(&mut self.out, key);
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

    fn array(&mut self, scanner: &mut Scanner<'_>, place: usize) -> Scan<bool> {
        let start = self.out.len();
        self.out.push(b'[');
        scanner.array(|scanner| {
            if self.out.len() > start + 1 {
                self.out.push(b',');
            }
            // An element without any of the fields keeps its place.
            if !self.value(scanner, place)? {
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

    /// Passes the key of a member, and its colon: which of those of this place it is. None where it is one too many to be remembered and not named.
    #[inline]
    fn member(&mut self, scanner: &mut Scanner<'_>, place: usize) -> Scan<Option<usize>> {
        scanner.space();
        match self.places.get_mut(place).and_then(|place| place.expected(scanner)) {
            Some(at) => Ok(Some(at)),
            None => self.found(scanner, place),
        }
    }

    #[inline(never)]
    fn found(&mut self, scanner: &mut Scanner<'_>, place: usize) -> Scan<Option<usize>> {
        let start = scanner.position();
        let key = scanner.key()?;
        let spelt = scanner.bytes(&(start..scanner.position()));
        let Some(here) = self.places.get_mut(place) else { return Ok(None) };
        if let Some(at) = here.members.iter().position(|member| member.spelt == spelt) {
            here.follow(at);
            return Ok(Some(at));
        }
        let inner = here.mask.named(scanner.decode(&key).as_bytes());
        if inner.is_none() && here.members.len() >= MOST {
            return Ok(None);
        }
        let named = inner.map(|mask| {
            let mut written = vec![b'"'];
            convert(&mut written, scanner.bytes(&key), self.form, Form::Raw);
            written.extend_from_slice(b"\":");
            (written, self.place(mask))
        });
        let member = Member { spelt: spelt.to_vec(), named };
        Ok(self.places.get_mut(place).map(|here| here.learn(member)))
    }

    /// The number of a place: masks are small, and the same for every record.
    fn place(&mut self, mask: &'m Mask) -> usize {
        let known = self.places.iter().position(|place| std::ptr::eq(place.mask, mask));
        known.unwrap_or_else(|| {
            self.places.push(MaskNode { mask, members: Vec::new(), next: 0 });
            self.places.len() - 1
        })
    }
}

impl MaskNode<'_> {
    /// Passes a key that comes about where it came before: which it is. O(1).
    #[inline]
    fn expected(&mut self, scanner: &mut Scanner<'_>) -> Option<usize> {
        let at = match self.members.get(self.next) {
            Some(member) if scanner.meets(&member.spelt) => self.next,
            _ => self.nearby(scanner)?,
        };
        self.follow(at);
        Some(at)
    }

    #[inline(never)]
    fn nearby(&self, scanner: &mut Scanner<'_>) -> Option<usize> {
        let meets =
            |at: &usize| self.members.get(*at).is_some_and(|member| scanner.meets(&member.spelt));
        (self.next + 1..self.next + AHEAD).chain([0]).find(meets)
    }

    fn learn(&mut self, member: Member) -> usize {
        self.members.push(member);
        self.follow(self.members.len() - 1);
        self.members.len() - 1
    }

    /// After the last comes the first of the next record.
    #[inline]
    fn follow(&mut self, at: usize) {
        self.next = if at + 1 < self.members.len() { at + 1 } else { 0 };
    }
}
