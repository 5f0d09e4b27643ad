//! A request that the front has admitted: its caller, and the permits that it holds.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use http::{HeaderMap, HeaderName};

use crate::access::{ANONYMOUS, client_network};
use crate::config::Limits;
use crate::fair_queue::{Caller, FairQueue, Place, Shares, share};
use crate::fleet::Fleet;
use crate::front::request_body::Reservation;
use crate::headers::storage_scope;
use crate::stream_limits::{OpenStream, StreamLimits, TooManyStreams};

/// A request that the front has admitted. The request holds its permits until all clones of the
/// admission are dropped. Work that outlives the HTTP request therefore holds a clone.
#[derive(Clone)]
pub(crate) struct Admission {
    pub(crate) principal: Arc<str>,
    /// The header that authenticates the caller. `None` if the caller is anonymous or uses no
    /// header.
    pub(crate) authenticator: Option<HeaderName>,
    pub(crate) caller: Caller,
    /// The caller whose shares of sessions and processes the request uses: the principal, or the
    /// address of an anonymous caller. Unlike `caller`, it does not depend on a session id, which a
    /// client may invent.
    pub(crate) owner: Arc<str>,
    /// The number of JSON-RPC messages in the request.
    pub(crate) messages: usize,
    /// Charges the caller's rate limit for calls that the gateway makes on the caller's behalf.
    pub(crate) rate: Rate,
    /// The limits of streams that wait for changes, with the numbers of open ones.
    pub(crate) streams: Arc<StreamLimits>,
    /// True if the client repeats parts of its messages in HTTP headers. Over stdio, it cannot.
    pub(crate) has_headers: bool,
    /// The permits of the request. `None` for a stream that waits for events.
    pub(crate) _place: Option<Arc<Place>>,
    /// The memory that is reserved for the body. `None` without a body.
    pub(crate) memory: Option<Arc<Reservation>>,
}

/// The rate limit of a caller, for calls that the gateway makes on its behalf. Unlimited by
/// default.
#[derive(Clone, Default)]
pub(crate) struct Rate(Option<Arc<ChargeOne>>);

/// Counts one call. Returns false if that exceeds the limit.
type ChargeOne = dyn Fn() -> Pin<Box<dyn Future<Output = bool> + Send>> + Send + Sync;

impl Rate {
    /// Returns a rate limit that calls `charge` for each call.
    pub(crate) fn new(
        charge: impl Fn() -> Pin<Box<dyn Future<Output = bool> + Send>> + Send + Sync + 'static,
    ) -> Self {
        Self(Some(Arc::new(charge)))
    }

    /// Counts one more call.
    ///
    /// # Errors
    /// The message for the caller if the call exceeds the rate limit.
    pub(crate) async fn charge(&self) -> Result<(), String> {
        match &self.0 {
            Some(charge) if !charge().await => {
                Err("the rate limit of this caller is reached: make fewer calls".to_owned())
            }
            _ => Ok(()),
        }
    }
}

impl Admission {
    /// Returns the owner under which the guard stores answers to the request: see
    /// [`storage_scope`].
    pub(crate) fn storage_scope(&self, headers: &HeaderMap) -> Arc<str> {
        storage_scope(&self.principal, self.authenticator.as_ref(), headers)
    }

    /// Returns the names of the principal and of the owner of the caller's shares.
    pub(crate) fn caller_names(&self) -> (&str, &str) {
        (&self.principal, &self.owner)
    }

    /// Counts a stream of the caller that waits for changes, until the returned value is dropped.
    ///
    /// # Errors
    /// The limit that is reached.
    pub(crate) fn open_stream(&self) -> Result<OpenStream, TooManyStreams> {
        self.streams.open(&self.owner)
    }
}

#[cfg(test)]
impl Admission {
    /// Returns the admission of a request without a session and without permits.
    pub(crate) fn of_principal(principal: &str) -> Self {
        let (principal, session): (Arc<str>, Arc<str>) = (principal.into(), "".into());
        let caller = Caller { principal: Arc::clone(&principal), session };
        let owner = Arc::clone(&principal);
        Self {
            principal,
            authenticator: None,
            caller,
            owner,
            messages: 1,
            rate: Rate::default(),
            streams: StreamLimits::new(&Limits::default()),
            has_headers: true,
            _place: None,
            memory: None,
        }
    }
}

/// Creates the queue for permits of concurrent requests. The replicas of a fleet share the limit of
/// each principal, if the configuration sets one.
pub(crate) fn places(limits: &Limits, fleet: Option<&Fleet>) -> Arc<FairQueue> {
    let mut places = concurrency(limits);
    let shared = limits.per_principal.zip(fleet);
    let slots = shared.and_then(|(limit, fleet)| fleet.slot_limit(limit));
    if let Some((limit, fleet)) = shared.filter(|_| slots.is_none()) {
        places.per_principal = places.per_principal.min(share(limit, fleet.replicas()));
    }
    let queue = FairQueue::new(places, Shares::defaults(limits.queue));
    if let Some(slots) = slots {
        queue.share(slots);
    }
    queue
}

/// Returns the bounds of concurrent requests at this replica.
fn concurrency(limits: &Limits) -> Shares {
    let shares = Shares::defaults(limits.concurrency);
    Shares {
        per_principal: limits.per_principal.unwrap_or(shares.per_principal).min(shares.total),
        per_session: limits.per_session.unwrap_or(shares.per_session).min(shares.total),
        ..shares
    }
}

/// Returns the principal, or the client's IPv4 address or IPv6 network if the principal is the one
/// that all anonymous callers share.
pub(crate) fn owner(principal: &Arc<str>, address: IpAddr) -> Arc<str> {
    if principal.as_ref() == ANONYMOUS {
        client_network(address).to_string().into()
    } else {
        Arc::clone(principal)
    }
}

/// Returns the caller of a request from `address` in the session with the id `session`.
///
/// Anonymous callers share one principal, so their address or IPv6 network identifies them. Those
/// on this machine are distinguished by their sessions: they are programs of one person, or of many
/// behind a proxy.
pub(crate) fn caller(principal: &Arc<str>, address: IpAddr, session: Arc<str>) -> Caller {
    let principal = if principal.as_ref() != ANONYMOUS {
        Arc::clone(principal)
    } else if address.to_canonical().is_loopback() && !session.is_empty() {
        Arc::clone(&session)
    } else {
        owner(principal, address)
    };
    Caller { principal, session }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anonymous_callers_are_told_apart() {
        let of = |principal: &str, address: [u8; 4], session: &'static str| {
            let caller = caller(&principal.into(), IpAddr::from(address), session.into());
            (caller.principal.to_string(), caller.session.to_string())
        };
        let pair = |principal: &str, session: &str| (principal.to_owned(), session.to_owned());
        assert_eq!(of("key:a", [10, 0, 0, 1], "s"), pair("key:a", "s"));
        assert_eq!(of(ANONYMOUS, [10, 0, 0, 1], "s"), pair("10.0.0.1", "s"));
        let in_network = |host: u16| {
            let address = IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, host]);
            caller(&ANONYMOUS.into(), address, "".into()).principal
        };
        assert_eq!(in_network(1), in_network(2));
        assert_eq!(of(ANONYMOUS, [127, 0, 0, 1], "s"), pair("s", "s"));
        assert_eq!(of(ANONYMOUS, [127, 0, 0, 1], ""), pair("127.0.0.1", ""));
    }
}
