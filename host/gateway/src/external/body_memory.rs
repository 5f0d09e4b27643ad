//! The memory for bodies and events from Envoy until they are complete. Its size is limited in
//! total and for each principal.
//!
//! If a limit is exceeded, the oldest body is given up. Clients choose the names of principals, for
//! example by random `Authorization` headers, and the number of their bodies. A rule by shares
//! would then leave too little to each body. To displace a body, others must send as many bytes as
//! the limit while it arrives.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// The maximum total size of all bodies, in bytes, unless a single body may be larger.
const MAX_TOTAL_BYTES: usize = 512 << 20;

/// The memory for the bodies of all exchanges.
pub(super) struct EnvoyBodyMemory {
    max_bytes: usize,
    max_bytes_per_principal: usize,
    held: Mutex<HeldBodies>,
}

/// The bodies with at least one byte, by their number. A lower number is that of an older body.
#[derive(Default)]
struct HeldBodies {
    last: u64,
    bytes: usize,
    bodies: BTreeMap<u64, HeldBody>,
    by_principal: HashMap<Arc<str>, PrincipalBodies>,
}

struct HeldBody {
    principal: Arc<str>,
    bytes: usize,
    given_up: CancellationToken,
}

/// The bodies of one principal.
#[derive(Default)]
struct PrincipalBodies {
    bytes: usize,
    bodies: BTreeSet<u64>,
}

impl HeldBodies {
    /// Adds an empty body. Returns its number.
    fn add(&mut self, principal: &Arc<str>, given_up: CancellationToken) -> u64 {
        self.last += 1;
        let body = HeldBody { principal: Arc::clone(principal), bytes: 0, given_up };
        self.bodies.insert(self.last, body);
        self.by_principal.entry(Arc::clone(principal)).or_default().bodies.insert(self.last);
        self.last
    }

    /// Sets the bytes of a body. Returns false if the body was given up.
    fn resize(&mut self, number: u64, bytes: usize) -> bool {
        let Some(body) = self.bodies.get_mut(&number) else { return false };
        self.bytes = self.bytes - body.bytes + bytes;
        if let Some(own) = self.by_principal.get_mut(&body.principal) {
            own.bytes = own.bytes - body.bytes + bytes;
        }
        body.bytes = bytes;
        true
    }

    fn remove(&mut self, number: u64) -> Option<HeldBody> {
        self.resize(number, 0);
        let body = self.bodies.remove(&number)?;
        if let Some(own) = self.by_principal.get_mut(&body.principal) {
            own.bodies.remove(&number);
            if own.bodies.is_empty() {
                self.by_principal.remove(&body.principal);
            }
        }
        Some(body)
    }

    /// Returns the number of the body to give up. `None` if all are within the limits.
    fn excess(&self, memory: &EnvoyBodyMemory, principal: &Arc<str>) -> Option<u64> {
        let own = self.by_principal.get(principal);
        let own = own.filter(|own| own.bytes > memory.max_bytes_per_principal);
        if let Some(oldest) = own.and_then(|own| own.bodies.first()) {
            return Some(*oldest);
        }
        let (oldest, _) = self.bodies.first_key_value()?;
        (self.bytes > memory.max_bytes).then_some(*oldest)
    }
}

impl EnvoyBodyMemory {
    /// Creates the memory for bodies of at most `max_body` bytes. Each principal may use half of
    /// it.
    pub(super) fn for_bodies(max_body: usize) -> Arc<Self> {
        let total = MAX_TOTAL_BYTES.max(max_body.saturating_mul(2));
        Self::new(total, total / 2)
    }

    pub(super) fn new(max_bytes: usize, max_bytes_per_principal: usize) -> Arc<Self> {
        Arc::new(Self { max_bytes, max_bytes_per_principal, held: Mutex::default() })
    }

    fn held(&self) -> MutexGuard<'_, HeldBodies> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The memory of one body, or of the incomplete events of one stream. It counts until this value is
/// dropped.
pub(super) struct BodyShare {
    memory: Arc<EnvoyBodyMemory>,
    principal: Arc<str>,
    /// The number of the body, and the token that is cancelled if it is given up. `None` without
    /// bytes.
    body: Option<(u64, CancellationToken)>,
}

impl BodyShare {
    /// Creates a share of a principal, which has no bytes yet.
    pub(super) fn new(memory: &Arc<EnvoyBodyMemory>, principal: &str) -> Self {
        Self { memory: Arc::clone(memory), principal: principal.into(), body: None }
    }

    /// Sets the bytes of this body. Gives up the oldest bodies of the principal, or of all, while
    /// these exceed their limit. Returns false if this body has bytes and was given up, now or
    /// before.
    pub(super) fn resize(&mut self, bytes: usize) -> bool {
        let mut held = self.memory.held();
        if bytes == 0 {
            // The age of the next event begins with its first byte.
            if let Some((number, _)) = self.body.take() {
                held.remove(number);
            }
            return true;
        }
        let (number, given_up) = self.body.get_or_insert_with(|| {
            let given_up = CancellationToken::new();
            (held.add(&self.principal, given_up.clone()), given_up)
        });
        if !held.resize(*number, bytes) {
            return false;
        }
        while let Some(oldest) = held.excess(&self.memory, &self.principal) {
            if let Some(body) = held.remove(oldest) {
                body.given_up.cancel();
            }
        }
        !given_up.is_cancelled()
    }

    /// Returns the token that is cancelled when this body is given up. `None` without bytes.
    pub(super) fn given_up(&self) -> Option<CancellationToken> {
        self.body.as_ref().map(|(_, given_up)| given_up.clone())
    }
}

impl Drop for BodyShare {
    fn drop(&mut self) {
        self.resize(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_body_is_given_up_for_others() {
        let memory = EnvoyBodyMemory::new(1_000, 1_000);
        let share = |principal: usize| BodyShare::new(&memory, &principal.to_string());
        let mut held: Vec<BodyShare> = (0..10).map(share).collect();
        assert!(held.iter_mut().all(|share| share.resize(100)));
        // A caller with a body of the same size is served, however many principals there are.
        let mut other = share(10);
        assert!(other.resize(100));
        assert!(!held[0].resize(101) && held[1].resize(100));
        assert!(other.resize(200) && !held[1].resize(100) && held[2].resize(100));
        drop((held, other));
        let rest = memory.held();
        assert!(rest.bytes == 0 && rest.bodies.is_empty() && rest.by_principal.is_empty());
    }

    #[test]
    fn principal_displaces_only_its_own_bodies() {
        let memory = EnvoyBodyMemory::new(1_000, 500);
        let share = |principal| BodyShare::new(&memory, principal);
        let (mut other, mut first, mut second) = (share("bob"), share("ann"), share("ann"));
        assert!(other.resize(400) && first.resize(300) && second.resize(200));
        assert!(second.resize(201));
        assert!(!first.resize(300) && other.resize(400));
        assert!(!second.resize(501), "longer than the share of its principal");
    }

    #[test]
    fn owner_learns_that_its_body_is_given_up() {
        let memory = EnvoyBodyMemory::new(100, 100);
        let (mut first, mut second) =
            (BodyShare::new(&memory, "ann"), BodyShare::new(&memory, "bob"));
        assert!(first.resize(60) && first.given_up().is_some_and(|token| !token.is_cancelled()));
        assert!(second.resize(60) && first.given_up().is_some_and(|token| token.is_cancelled()));
        // A new event is younger than that of the other stream.
        assert!(first.resize(0) && first.given_up().is_none() && first.resize(60));
        assert!(second.given_up().is_some_and(|token| token.is_cancelled()));
    }
}
