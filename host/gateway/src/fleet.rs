//! The gateway as one of several replicas behind a load balancer: session ids that any replica
//! understands, and requests that only one replica can serve.
//!
//! Replicas share the signing keys. There is no list of members: an id contains the replica that
//! owns its session, stream or request.

mod event_ids;
mod identity;
mod keys;
mod owner;
mod peers;
mod session_token;
mod shared_rates;
mod shared_slots;

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use axum::response::Response;
use bytes::Bytes;
use http::request::Parts;
use lru::LruCache;
use tokio_rustls::TlsAcceptor;
use tracing::warn;

use self::keys::FleetKeys;
use self::peers::Peers;
use self::shared_rates::StoredRates;
use self::shared_slots::StoredSlots;
use crate::access::Access;
use crate::config::{self, Config};
use crate::fair_queue::SlotLimit;
use crate::filter::Filter;
use crate::store::CursorStore;

pub(crate) use self::event_ids::with_owner;
pub(crate) use self::owner::{OWNER_MARK, Owner, OwnerTag};
pub(crate) use self::peers::{ADDRESS, INSTANCE, PRINCIPAL, PeerError, decode_text};
pub(crate) use self::session_token::{SessionDescription, SessionKind, UpstreamSessionId};

/// The maximum age of a session id. A client with an older id must initialize again.
const MAX_SESSION_AGE: Duration = Duration::from_secs(7 * 86_400);
/// The maximum number of ended sessions that are remembered.
const MAX_ENDED: NonZeroUsize = NonZeroUsize::new(65_536).unwrap();
/// The maximum length of a session id that contains the description of its client, in bytes. Beyond
/// it, the description is in the store. Many servers and proxies limit all headers to 8 KiB.
const MAX_TOKEN_BYTES: usize = 1_500;

/// The state of this replica as a member of a fleet.
pub(crate) struct Fleet {
    pub(crate) settings: config::Fleet,
    keys: Arc<FleetKeys>,
    owner: OnceLock<Owner>,
    tag: OwnerTag,
    peers: Peers,
    store: Arc<dyn CursorStore>,
    /// The ids of the last sessions that their clients have ended here.
    ended: Mutex<LruCache<String, ()>>,
}

impl Fleet {
    /// Makes the gateway one of several replicas, whose rate limits apply to all together. `None`
    /// if the configuration has no fleet.
    pub(crate) fn join(config: &Config, filter: &Filter, access: &Access) -> Option<Arc<Self>> {
        let fleet = Self::new(config.fleet.clone()?, filter);
        if let Some(store) = fleet.shared_store() {
            access.share_rates(config, Arc::new(StoredRates(store)));
        }
        Some(Arc::new(fleet))
    }

    fn new(settings: config::Fleet, filter: &Filter) -> Self {
        let revisions = Arc::clone(filter.revisions());
        let store = Arc::clone(&revisions.services().store);
        if !store.may_block() {
            warn!(
                "this gateway is one of a fleet, but its store is not shared: cursors work at one replica only. Set store.url"
            );
        }
        let keys = Arc::new(FleetKeys::new(move || revisions.secrets()));
        Self {
            settings,
            tag: OwnerTag::new(Arc::clone(&keys)),
            peers: Peers::new(Arc::clone(&keys)),
            keys,
            owner: OnceLock::new(),
            store,
            ended: Mutex::new(LruCache::new(MAX_ENDED)),
        }
    }

    /// Returns the store that all replicas share. `None` if this replica's store is not shared.
    pub(crate) fn shared_store(&self) -> Option<Arc<dyn CursorStore>> {
        self.store.may_block().then(|| Arc::clone(&self.store))
    }

    /// Returns the number of replicas.
    pub(crate) fn replicas(&self) -> usize {
        usize::try_from(self.settings.replicas).unwrap_or(usize::MAX)
    }

    /// Returns the limit of `limit` concurrent requests of a principal at all replicas together.
    /// `None` if the store is not shared.
    pub(crate) fn slot_limit(&self, limit: usize) -> Option<SlotLimit> {
        let slots = StoredSlots::new(self.shared_store()?, limit);
        Some(SlotLimit::new(Arc::new(slots), limit, self.replicas()))
    }

    /// Returns the tag of this replica, which begins the ids of its own sessions, streams and
    /// requests.
    pub(crate) fn tag(&self) -> &OwnerTag {
        &self.tag
    }

    /// Sets the address at which the other replicas reach this one. `bound` is the address of its
    /// listener.
    pub(crate) fn listens_at(&self, bound: SocketAddr) {
        let address = self.settings.address.clone().unwrap_or_else(|| bound.to_string());
        let owner = Owner::new(address);
        self.tag.set(owner.clone());
        let _ = self.owner.set(owner);
    }

    /// Returns this replica as an owner. `None` before it listens.
    pub(crate) fn own(&self) -> Option<&Owner> {
        self.owner.get()
    }

    /// Returns true if this replica is `owner`.
    pub(crate) fn is_own(&self, owner: &Owner) -> bool {
        self.own() == Some(owner)
    }

    /// Returns the acceptor of connections of other replicas. `None` if this replica has no
    /// identity.
    pub(crate) fn acceptor(&self) -> Option<TlsAcceptor> {
        self.keys.current().identity.as_ref().map(|identity| identity.acceptor())
    }

    /// Passes a client's request to the replica `owner`, and returns its response.
    pub(crate) async fn forward(
        &self,
        owner: &Owner,
        parts: &Parts,
        body: Bytes,
        principal: &str,
        address: &str,
    ) -> Result<Response, PeerError> {
        self.peers.forward(owner, parts, body, principal, address).await
    }

    /// Returns the session id for a client: an encrypted description of the session that every
    /// replica can read. `None` if the operating system provides no random numbers.
    pub(crate) fn seal(&self, principal: &str, mut state: SessionDescription) -> Option<String> {
        let keys = self.keys.current();
        let token = session_token::seal(&keys, principal, &state)?;
        if token.len() <= MAX_TOKEN_BYTES {
            return Some(token);
        }
        let record = session_token::record(&state)?;
        let entry = vec![(session_token::record_name(&state.id), record)];
        // Without a shared store, the session works at this replica only.
        state.is_bound |= !self.store.may_block()
            || tokio::task::block_in_place(|| self.store.put(principal, entry, MAX_SESSION_AGE))
                .is_err();
        session_token::seal(&keys, principal, &state.without_details())
    }

    /// Returns the session that a client's session id describes. `None` if the id was not issued by
    /// this fleet for this principal, is too old, or its record cannot be read from the store.
    pub(crate) fn open(&self, principal: &str, token: &str) -> Option<SessionDescription> {
        let mut state = session_token::open(&self.keys.current(), principal, token)?;
        if session_token::age(&state) > MAX_SESSION_AGE {
            return None;
        }
        let has_record = !state.has_details && !state.is_bound;
        if has_record {
            let name = [session_token::record_name(&state.id)];
            let found = tokio::task::block_in_place(|| self.store.get(principal, &name)).ok()?;
            session_token::add_details(&mut state, found.first()?.as_ref()?)?;
        }
        Some(state)
    }

    /// Records that the client has ended a session, so that no replica restores it.
    pub(crate) fn set_ended(&self, principal: &str, state: &SessionDescription) {
        self.ended().put(state.id.clone(), ());
        if self.store.may_block() {
            let entry = vec![(session_token::end_name(&state.id), Vec::new())];
            // Without the store, other replicas may restore the session. Only its client could
            // use that.
            let _ =
                tokio::task::block_in_place(|| self.store.put(principal, entry, MAX_SESSION_AGE));
        }
    }

    /// Returns true if the client has ended a session.
    pub(crate) fn has_ended(&self, principal: &str, state: &SessionDescription) -> bool {
        if self.ended().contains(&state.id) {
            return true;
        }
        let name = [session_token::end_name(&state.id)];
        self.store.may_block()
            && tokio::task::block_in_place(|| self.store.get(principal, &name))
                .is_ok_and(|found| found.iter().any(Option::is_some))
    }

    fn ended(&self) -> MutexGuard<'_, LruCache<String, ()>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decrypts the replica that owns a session or stream from `tag`. `None` if no key of this
    /// fleet sealed the tag.
    pub(crate) fn owner_in(&self, tag: &str) -> Option<Owner> {
        owner::open(&self.keys.current(), tag)
    }
}
