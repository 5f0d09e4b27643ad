//! The core as a WASI 0.2 component: a loop that loads and stores entries for the core.
//!
//! The core decides what to load and store. Only this crate calls imports.

#[allow(
    unsafe_code,
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::allow_attributes_without_reason,
    reason = "generated from wit/"
)]
mod bindings {
    wit_bindgen::generate!({
        path: "../../wit",
        world: "context-guard",
        generate_all,
        ownership: Borrowing { duplicate_if_necessary: false },
        runtime_path: "::wit_bindgen::rt",
    });
    use super::Component;
    export!(Component);
}

mod convert;
#[cfg(feature = "fault-injection")]
mod fault_injection;
#[cfg(target_arch = "wasm32")]
mod memory;

use bindings::context_guard::guard::cursor_store;
use bindings::context_guard::guard::types::{
    Answered, CallContext, CompiledPolicy, Description, Fault, Forwarded, Outcome, PolicyIssue,
    RequestVerdict, ResponseVerdict, Settings, StoredPart, StoredRange,
};
use bindings::exports::context_guard::guard::guard::Guest;
use bindings::wasi::clocks::wall_clock;
use context_guard_core::encoding::Stored;
use context_guard_core::mcp::stored_part;
use context_guard_core::policy::{self, Policy};
use context_guard_core::snapshot::Keys;
use context_guard_core::snapshot::stored::{Entry, Loaded};
use context_guard_core::{Guard, Plan, StoredRead};

struct Component;

impl Guest for Component {
    fn describe() -> Description {
        Description {
            name: "context-guard".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            protocol_revisions: context_guard_core::REVISIONS.map(str::to_owned).to_vec(),
            policy_schema_digest: policy::schema_digest(),
        }
    }

    fn compile_policy(policy: String) -> Result<CompiledPolicy, Vec<PolicyIssue>> {
        policy::compile(&policy).map(convert::compiled).map_err(convert::issues)
    }

    fn on_request(
        settings: Settings,
        cx: CallContext,
        message: Vec<u8>,
    ) -> Result<RequestVerdict, Fault> {
        let guard = guard(&settings)?;
        let mut loaded = Loaded::new();
        loop {
            let cx = convert::context(&cx);
            let plan =
                guard.on_request(&cx, &message, &loaded, now_ms()).map_err(convert::fault)?;
            match plan {
                // The store may be the host's substitute, or fail: a failure means that nothing is
                // stored. The core knows, and reports a cursor as unavailable instead of expired.
                Plan::Load(keys) if cx.store_unavailable => {
                    let found = cursor_store::get(&names(&keys)).unwrap_or_default();
                    let found = found.into_iter().chain(std::iter::repeat_with(|| None));
                    loaded.extend(keys.into_iter().zip(found));
                }
                Plan::Load(keys) => load(keys, &mut loaded)?,
                Plan::Forward { message, ticket, references } => {
                    let message = message.map_or(Outcome::Unchanged, Outcome::Shaped);
                    let options = Vec::new();
                    let forwarded = Forwarded { message, ticket, references, options };
                    return Ok(RequestVerdict::Forward(forwarded));
                }
                Plan::Answer { message, entries, extend, ttl_ms, record } => {
                    if !extend.is_empty() {
                        cursor_store::extend(&names(&extend), ttl_ms).map_err(Fault::Store)?;
                    }
                    put(&entries, ttl_ms)?;
                    return Ok(RequestVerdict::Answer(Answered {
                        message,
                        decision: convert::decision(record),
                    }));
                }
            }
        }
    }

    fn on_response(
        settings: Settings,
        cx: CallContext,
        ticket: Vec<u8>,
        message: Vec<u8>,
    ) -> Result<ResponseVerdict, Fault> {
        let guard = guard(&settings)?;
        let shaped = guard
            .on_response(&convert::context(&cx), &ticket, &message, now_ms())
            .map_err(convert::fault)?;
        let stored = put(&shaped.entries, shaped.ttl_ms);
        if shaped.must_be_stored {
            stored?;
        }
        let verdict = ResponseVerdict {
            message: shaped.message.map_or(Outcome::Unchanged, Outcome::Shaped),
            decision: convert::decision(shaped.record),
        };
        #[cfg(feature = "fault-injection")]
        let verdict = fault_injection::inject(&message, verdict);
        Ok(verdict)
    }

    fn read_stored(
        settings: Settings,
        cx: CallContext,
        cursor: String,
        part: StoredRange,
    ) -> Result<StoredPart, Fault> {
        let guard = guard(&settings)?;
        let cx = convert::context(&cx);
        let range = match part {
            StoredRange::Whole => stored_part::StoredRange::Whole,
            StoredRange::Rows(start) => stored_part::StoredRange::Rows(start),
        };
        let mut loaded = Loaded::new();
        loop {
            let read = guard.read_stored(&cx, &cursor, range, &loaded, now_ms());
            match read.map_err(convert::fault)? {
                StoredRead::Load(keys) => load(keys, &mut loaded)?,
                StoredRead::Part(part) => {
                    let stored_part::StoredPart { count, has_records, data, next } = part;
                    return Ok(StoredPart { count, has_records, data, next });
                }
            }
        }
    }
}

fn guard(settings: &Settings) -> Result<Guard, Fault> {
    let policy = Policy::from_bytes(&settings.policy);
    let policy = policy.ok_or_else(|| {
        Fault::Other("the policy was compiled by another component: compile it again".to_owned())
    })?;
    let keys =
        Keys::new(settings.keys.iter().map(|key| key.secret.as_slice())).map_err(Fault::Other)?;
    Ok(Guard::new(policy, keys))
}

fn now_ms() -> u64 {
    let now = wall_clock::now();
    now.seconds * 1_000 + u64::from(now.nanoseconds / 1_000_000)
}

fn load(keys: Vec<String>, loaded: &mut Loaded) -> Result<(), Fault> {
    let values = cursor_store::get(&names(&keys)).map_err(Fault::Store)?;
    let before = loaded.len();
    loaded.extend(keys.into_iter().zip(values));
    // Without a value for any key, the core would ask for the same keys forever.
    if loaded.len() == before {
        Err(Fault::Other("the store returned no value for the requested keys".to_owned()))
    } else {
        Ok(())
    }
}

fn names(keys: &[String]) -> Vec<&str> {
    keys.iter().map(String::as_str).collect()
}

fn put(entries: &[Entry<'_>], ttl_ms: u64) -> Result<(), Fault> {
    if entries.is_empty() {
        return Ok(());
    }
    let entries: Vec<_> = entries
        .iter()
        .map(|entry| cursor_store::Entry { key: &entry.key, value: &entry.value })
        .collect();
    cursor_store::put(&entries, ttl_ms).map_err(Fault::Store)
}
