//! What a projection needs to see of a document: the way to its list, and the fields that a mask names.

use crate::json::keyed::Keyed;
use crate::json::outline::Lens;
use crate::json::text::{Form, visible};
use crate::shape::project::Mask;

/// Keys that are remembered of one place.
const MOST: usize = 256;

/// Sees what a mask names, in the document and in the records of its list.
pub(super) struct Wanted<'m> {
    /// What is wanted at each place that has a name, and what its keys were found to be.
    places: Vec<(Place<'m>, Keyed<Option<u32>>)>,
    /// The keys that lead to the list.
    list: &'m [String],
    form: Form,
}

#[derive(Clone, Copy)]
enum Place<'m> {
    /// On the way to the list, so many keys from the root; and what the mask names here.
    Way(usize, Option<&'m Mask>),
    /// The list; and what the mask names of its records.
    List(&'m Mask),
    /// Anything else.
    Field(&'m Mask),
}

impl<'m> Wanted<'m> {
    /// What `mask` names of a document whose list, if it has one, stands at these keys.
    pub(super) fn new(mask: &'m Mask, list: &'m [String], has_list: bool, form: Form) -> Self {
        let root = match (has_list, list) {
            (false, _) => Place::Field(mask),
            (true, []) => Place::List(mask),
            (true, _) => Place::Way(0, Some(mask)),
        };
        Self { places: vec![(root, Keyed::default())], list, form }
    }

    /// What is wanted of records: `bookings.id` and `id` are the same on a list of bookings.
    fn of_records(&self) -> Option<&'m Mask> {
        let Some((Place::Way(0, Some(mask)), _)) = self.places.first() else { return None };
        let inner = self.list.iter().try_fold(*mask, |mask, key| mask.member(key));
        Some(inner.filter(|inner| !inner.holds(&[])).unwrap_or(mask))
    }

    fn member(&self, place: Place<'m>, name: &[u8]) -> Option<Place<'m>> {
        match place {
            Place::Way(at, mask) => {
                let inner = mask.and_then(|mask| mask.named(name));
                if self.list.get(at).is_some_and(|key| key.as_bytes() == name) {
                    return if at + 1 == self.list.len() {
                        self.of_records().map(Place::List)
                    } else {
                        Some(Place::Way(at + 1, inner))
                    };
                }
                inner.map(Place::Field)
            }
            Place::List(mask) | Place::Field(mask) => mask.named(name).map(Place::Field),
        }
    }
}

impl Lens for Wanted<'_> {
    fn inside(&mut self, place: u32, key: Option<&[u8]>) -> Option<u32> {
        let at = usize::try_from(place).ok()?;
        let (here, known) = self.places.get(at)?;
        let here = *here;
        let Some(key) = key else {
            // Elements are seen through; of what is wanted whole nothing inside is looked at.
            return match here {
                Place::Field(mask) if mask.is_end() => None,
                _ => Some(place),
            };
        };
        if let Some(found) = known.near(key) {
            return found;
        }
        let name = visible(key, self.form);
        let next = self.member(here, &visible(&name, Form::Escaped));
        // A mask is small: its places are few, and the same for every record.
        let found = next.and_then(|next| {
            let known = self.places.iter().position(|(known, _)| known.is(next));
            let at = known.unwrap_or_else(|| {
                self.places.push((next, Keyed::default()));
                self.places.len() - 1
            });
            u32::try_from(at).ok()
        });
        if let Some((_, known)) = self.places.get_mut(at).filter(|(_, known)| known.len() < MOST) {
            known.add(key, found);
        }
        found
    }
}

impl Place<'_> {
    fn is(&self, other: Place<'_>) -> bool {
        let same = |left: &Mask, right: &Mask| std::ptr::eq(left, right);
        match (self, other) {
            (Place::Way(left, _), Place::Way(right, _)) => *left == right,
            (Place::List(left), Place::List(right)) => same(left, right),
            (Place::Field(left), Place::Field(right)) => same(left, right),
            _ => false,
        }
    }
}
