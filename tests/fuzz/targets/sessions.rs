//! Session and event ids: a table returns a session under its own id only, and a resumed stream
//! continues itself only.
#![no_main]
#![allow(missing_docs, unsafe_code, reason = "the macro of libfuzzer-sys")]
#![allow(clippy::panic, clippy::indexing_slicing, reason = "a panic is what is looked for")]

use std::collections::BTreeMap;
use std::sync::Arc;

use context_guard::config::Limits;
use context_guard::gateway::{EventMemory, EventReader, EventStreams, SessionTable};
use futures_util::FutureExt;
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

const MAX_SESSIONS: usize = 5;
const MAX_PER_OWNER: usize = 2;

#[derive(Arbitrary, Debug)]
enum Step {
    Insert(u8, String),
    Get(String),
    Remove(String),
    Open,
    Send(u8, bool),
    Resume(u8, u64),
    ResumeText(String),
    Listen,
    End(u8),
    Forget(u8),
}

type Table = (SessionTable<(Arc<str>, String)>, BTreeMap<String, Arc<str>>);

fn insert((table, model): &mut Table, owner: u8, id: &str) {
    let owner: Arc<str> = ["alice", "bob", "carol", "dave"][usize::from(owner) % 4].into();
    let evicted = table.insert(&owner, id.to_owned(), (Arc::clone(&owner), id.to_owned()));
    model.insert(id.to_owned(), Arc::clone(&owner));
    if let Some((holder, evicted)) = evicted {
        let count = |name: &Arc<str>| model.values().filter(|owner| *owner == name).count();
        let is_fair = holder == owner || model.values().all(|name| count(name) <= count(&holder));
        assert!(is_fair, "{owner} ended a session of {holder}");
        assert_eq!(model.remove(&evicted), Some(holder));
    }
    assert_eq!(table.len(), model.len());
    assert!(table.len() <= MAX_SESSIONS);
    let held = model.values().filter(|name| **name == owner).count();
    assert!(held <= MAX_PER_OWNER, "{owner} has {held} sessions");
}

/// Reads all events that are there. Each names its stream, and numbers ascend.
fn read(reader: &mut EventReader, stream: u64, mut after: Option<u64>) {
    while let Some(Some((id, message))) = reader.next().now_or_never() {
        assert!(message.starts_with(format!("{stream}:").as_bytes()), "{id} is of another stream");
        let number = id.strip_prefix(&format!("{stream}-")).and_then(|number| number.parse().ok());
        assert!(number.is_some() && number > after, "{id} after {after:?}");
        after = number;
    }
}

fn resume(streams: &EventStreams, last: &str) {
    let Some(mut reader) = streams.resume(last) else { return };
    let (stream, number) = last.split_once('-').unwrap_or_default();
    let (Ok(stream), Ok(number)) = (stream.parse(), number.parse()) else {
        panic!("{last} is accepted")
    };
    read(&mut reader, stream, Some(number));
}

fuzz_target!(|steps: Vec<Step>| {
    let limits = Limits {
        sessions: MAX_SESSIONS,
        sessions_per_principal: Some(MAX_PER_OWNER),
        ..Limits::default()
    };
    let mut table: Table = (SessionTable::new(&limits), BTreeMap::new());
    let (streams, mut opened) = (EventMemory::default().streams(&"ann".into()), Vec::new());
    let pick = |opened: &[(u64, EventReader)], at: u8| {
        opened.get(usize::from(at) % (opened.len() + 1)).map_or(0, |(id, _)| *id)
    };
    for step in steps {
        match step {
            Step::Insert(owner, id) => insert(&mut table, owner, &id),
            Step::Get(id) => {
                let found = table.0.get(&id).cloned();
                assert_eq!(found, table.1.get(&id).map(|owner| (Arc::clone(owner), id)));
            }
            Step::Remove(id) => {
                assert_eq!(table.0.remove(&id).map(|(owner, _)| owner), table.1.remove(&id));
            }
            Step::Open => opened.push(streams.open()),
            Step::Send(at, is_notification) => {
                let id = pick(&opened, at);
                streams.send(id, format!("{id}:message").into_bytes(), is_notification);
            }
            Step::Resume(at, number) => {
                resume(&streams, &format!("{}-{number}", pick(&opened, at)))
            }
            Step::ResumeText(text) => resume(&streams, &text),
            Step::Listen => {
                if let Some(mut reader) = streams.listen() {
                    read(&mut reader, 0, None);
                }
            }
            Step::End(at) => streams.end(pick(&opened, at)),
            Step::Forget(at) => drop(streams.forget(pick(&opened, at))),
        }
    }
    for (id, reader) in &mut opened {
        read(reader, *id, None);
    }
});
