//! The same guard in three forms, each with a memory store: native core, component, and the filter
//! that a gateway calls.

use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use context_guard::clock::ManualClock;
use context_guard::engine::{
    CallContext, Component, HostServices, Outcome, RequestVerdict, Settings, SigningKey,
};
use context_guard::filter::{self, Filter};
use context_guard::store::{CursorStore, MemoryLimits, MemoryStore};
use context_guard_core::snapshot::Keys;
use context_guard_core::snapshot::stored::{Entry, Loaded};
use context_guard_core::{Context, Guard, Plan, policy};
use context_guard_test_support::guards::{NOW_MS, SIGNING_KEY, component};
use std::time::Duration;

/// The principal of all calls.
pub(crate) const PRINCIPAL: &str = "bench";

/// A guard in one of its forms.
pub(crate) trait Side {
    /// The state that links a request to its response.
    type Ticket;
    /// Passes a request on.
    fn forward(&self, message: &[u8]) -> Result<Self::Ticket>;
    /// Answers a request from the store.
    fn read(&self, message: &[u8]) -> Result<Vec<u8>>;
    /// Shapes an answer. None if it is unchanged.
    fn shape(&self, ticket: &Self::Ticket, message: &[u8]) -> Result<Option<Vec<u8>>>;
}

fn store() -> Arc<MemoryStore> {
    let limits = MemoryLimits { principal_bytes: 3 << 30, total_bytes: 3 << 30 };
    Arc::new(MemoryStore::new(Arc::new(ManualClock::at_ms(NOW_MS)), limits))
}

fn services() -> HostServices {
    HostServices { store: store(), clock: Arc::new(ManualClock::at_ms(NOW_MS)) }
}

pub(crate) fn caller() -> CallContext {
    CallContext {
        principal: PRINCIPAL.to_owned(),
        request_id: "1".to_owned(),
        protocol_version: "2025-11-25".to_owned(),
        ..CallContext::default()
    }
}

/// Returns the same caller in the form of the core.
fn context() -> Context<'static> {
    Context { principal: PRINCIPAL, protocol_version: "2025-11-25", ..Context::default() }
}

/// The native core.
pub(crate) struct Core {
    guard: Guard,
    store: Arc<MemoryStore>,
    context: Context<'static>,
}

impl Core {
    pub(crate) fn new(policy: &str) -> Result<Self> {
        let compiled = policy::compile(policy).map_err(|issues| anyhow!("{issues:?}"))?;
        let guard = Guard::new(compiled.policy, keys()?);
        Ok(Self { guard, store: store(), context: context() })
    }

    /// Sets the version of the catalogue, so that calls are for the tools of all upstreams.
    pub(crate) fn with_catalogue(mut self, version: &'static str) -> Self {
        self.context.catalogue_version = version;
        self
    }

    fn plan(&self, message: &[u8]) -> Result<Plan> {
        let mut loaded = Loaded::new();
        loop {
            match self.guard.on_request(&self.context, message, &loaded, NOW_MS)? {
                Plan::Load(keys) => {
                    let values = self.store.get(PRINCIPAL, &keys)?;
                    let values = values.into_iter().map(|value| value.map(|value| value.to_vec()));
                    loaded.extend(keys.into_iter().zip(values));
                }
                plan => return Ok(plan),
            }
        }
    }

    fn store(&self, entries: Vec<Entry<'_>>, ttl_ms: u64) -> Result<()> {
        let entries: Vec<_> =
            entries.into_iter().map(|entry| (entry.key, entry.value.into_owned())).collect();
        if !entries.is_empty() {
            self.store.put(PRINCIPAL, entries, Duration::from_millis(ttl_ms))?;
        }
        Ok(())
    }
}

/// The key that signs cursors here.
pub(crate) fn keys() -> Result<Keys> {
    Keys::new([SIGNING_KEY]).map_err(|reason| anyhow!(reason))
}

impl Side for Core {
    type Ticket = Vec<u8>;

    fn forward(&self, message: &[u8]) -> Result<Vec<u8>> {
        match self.plan(message)? {
            Plan::Forward { ticket, .. } => Ok(ticket),
            plan => bail!("not forwarded: {plan:?}"),
        }
    }

    fn read(&self, message: &[u8]) -> Result<Vec<u8>> {
        match self.plan(message)? {
            Plan::Answer { message, entries, extend, ttl_ms, .. } => {
                self.store.extend(PRINCIPAL, &extend, Duration::from_millis(ttl_ms))?;
                self.store(entries, ttl_ms)?;
                Ok(message)
            }
            plan => bail!("not answered: {plan:?}"),
        }
    }

    fn shape(&self, ticket: &Vec<u8>, message: &[u8]) -> Result<Option<Vec<u8>>> {
        let shaped = self.guard.on_response(&self.context, ticket, message, NOW_MS)?;
        self.store(shaped.entries, shaped.ttl_ms)?;
        Ok(shaped.message)
    }
}

/// The component, with a new instance per call.
pub(crate) struct Sandbox {
    pub(crate) component: Arc<Component>,
    pub(crate) services: HostServices,
    pub(crate) settings: Settings,
    caller: CallContext,
}

fn signing() -> Vec<SigningKey> {
    vec![SigningKey { id: String::new(), secret: SIGNING_KEY.to_vec() }]
}

impl Sandbox {
    pub(crate) fn new(policy: &str) -> Result<Self> {
        let (component, services) = (component()?, services());
        let policy = component.compile_policy(&services, policy)?.resolved;
        let settings = Settings { policy, keys: signing() };
        Ok(Self { component, services, settings, caller: caller() })
    }

    /// Sets the version of the catalogue, so that calls are for the tools of all upstreams.
    pub(crate) fn with_catalogue(mut self, version: &str) -> Self {
        self.caller.catalog_version = Some(version.to_owned());
        self
    }

    fn ask(&self, message: &[u8]) -> Result<RequestVerdict> {
        Ok(self.component.on_request(&self.services, &self.settings, &self.caller, message)?)
    }
}

impl Side for Sandbox {
    type Ticket = Vec<u8>;

    fn forward(&self, message: &[u8]) -> Result<Vec<u8>> {
        match self.ask(message)? {
            RequestVerdict::Forward(forward) => Ok(forward.ticket),
            RequestVerdict::Answer(answer) => {
                bail!("not forwarded: {}", String::from_utf8_lossy(&answer.message))
            }
        }
    }

    fn read(&self, message: &[u8]) -> Result<Vec<u8>> {
        match self.ask(message)? {
            RequestVerdict::Answer(answer) => Ok(answer.message),
            RequestVerdict::Forward(_) => bail!("not answered"),
        }
    }

    fn shape(&self, ticket: &Vec<u8>, message: &[u8]) -> Result<Option<Vec<u8>>> {
        let verdict = self.component.on_response(
            &self.services,
            &self.settings,
            &self.caller,
            ticket,
            message,
        )?;
        Ok(match verdict.message {
            Outcome::Unchanged => None,
            Outcome::Shaped(message) => Some(message),
        })
    }
}

/// The filter that a gateway calls.
pub(crate) struct Whole(pub(crate) Filter, CallContext);

impl Whole {
    /// Sets the version of the catalogue, so that calls are for the tools of all upstreams.
    pub(crate) fn with_catalogue(mut self, version: &str) -> Self {
        self.1.catalog_version = Some(version.to_owned());
        self
    }

    pub(crate) fn new(policy: &str) -> Result<Self> {
        Ok(Self(Filter::new(component()?, services(), policy, signing())?, caller()))
    }
}

impl Side for Whole {
    type Ticket = filter::Ticket;

    fn forward(&self, message: &[u8]) -> Result<filter::Ticket> {
        match self.0.request(&self.1, message) {
            filter::Request::Forward(_, ticket) => Ok(ticket),
            filter::Request::Answer(..) => bail!("not forwarded"),
        }
    }

    fn read(&self, message: &[u8]) -> Result<Vec<u8>> {
        match self.0.request(&self.1, message) {
            filter::Request::Answer(answer, ..) => Ok(answer),
            filter::Request::Forward(..) => bail!("not answered"),
        }
    }

    fn shape(&self, ticket: &filter::Ticket, message: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.0.response(&self.1, ticket, message))
    }
}
