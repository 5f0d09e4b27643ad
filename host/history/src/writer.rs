//! The thread that writes events to the file.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::thread::park_timeout;
use std::time::{Duration, Instant};

use lru::LruCache;
use rusqlite::{Connection, Transaction, TransactionBehavior, params};
use tracing::warn;

use crate::cell::{CellKey, Level, Values};
use crate::chunk::{ChunkKey, ChunkWriter};
use crate::error::Result;
use crate::event::{Event, Follows, Sample};
use crate::migration::chunk_id;
use crate::retention;
use crate::schema::NameKind;
use crate::sessions::{self, SessionSums};

/// The maximum number of events in the queue of the writer. It suffices for 16,000 calls per second
/// in the 2 s between batches.
pub(crate) const MAX_QUEUED: usize = 32_768;
/// The maximum number of stored answers whose calls are known, to assign follow-up reads.
const MAX_ORIGINS: NonZeroUsize = NonZeroUsize::new(20_000).unwrap();
/// The number of waiting cells, or of records, from which further calls are dropped while the file
/// cannot be written. Samples are not dropped.
const MAX_WAITING: usize = 100_000;
/// The time between two checks for expired cells and records, in milliseconds of the time of
/// events.
const RETENTION_INTERVAL_MS: u64 = 600_000;

/// A message to the writer.
pub(crate) enum Message {
    Event(Box<Event>),
    Sample(Box<Sample>),
    /// Writes all waiting cells and records now, and replies.
    Flush(SyncSender<()>),
}

/// The settings of a writer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriterOptions {
    /// The maximum size of the file, in bytes.
    pub(crate) max_bytes: u64,
    /// The delay after the first event of a batch until the batch is written.
    pub(crate) interval: Duration,
}

/// The call to which a stored answer belongs.
#[derive(Clone)]
struct Origin {
    key: CellKey,
    /// The row id of the call's record. 0 before the record is written.
    record: Rc<Cell<i64>>,
}

struct RawRecord {
    event: Event,
    id: Rc<Cell<i64>>,
    parent: Option<Rc<Cell<i64>>>,
}

/// The events since the last transaction.
#[derive(Default)]
struct Batch {
    cells: HashMap<CellKey, Values>,
    records: Vec<RawRecord>,
    sessions: HashMap<String, SessionSums>,
}

/// The ids of those names and series in the file that are never deleted.
#[derive(Default)]
struct Ids {
    names: HashMap<(NameKind, String), i64>,
    series: HashMap<[i64; 4], u64>,
}

pub(crate) struct Writer {
    connection: Connection,
    options: WriterOptions,
    batch: Batch,
    origins: LruCache<String, Origin>,
    ids: Ids,
    /// The number of events that were dropped because the channel was full.
    dropped: Arc<AtomicU64>,
    stored_dropped: u64,
    is_failing: bool,
    /// The time of the newest event at the last check for expired data, in milliseconds since 1970.
    last_retention_ms: u64,
}

impl Writer {
    pub(crate) fn new(
        connection: Connection,
        options: WriterOptions,
        dropped: Arc<AtomicU64>,
    ) -> Self {
        Self {
            connection,
            options,
            batch: Batch::default(),
            origins: LruCache::new(MAX_ORIGINS),
            ids: Ids::default(),
            dropped,
            stored_dropped: 0,
            is_failing: false,
            last_retention_ms: 0,
        }
    }

    /// Writes events until all senders are dropped.
    ///
    /// Between two batches the thread is parked and does not wait for the queue. A send that wakes
    /// a waiting receiver would cost a system call on the request path.
    pub(crate) fn run(mut self, messages: &Receiver<Message>) {
        let mut due: Option<Instant> = None;
        loop {
            let mut first = None;
            match due {
                Some(due) => park_timeout(due.saturating_duration_since(Instant::now())),
                // An idle process does not wake up.
                None => match messages.recv() {
                    Ok(message) => first = Some(message),
                    Err(_) => return self.flush(),
                },
            }
            let mut replies = Vec::new();
            for message in first.into_iter().chain(messages.try_iter()).take(MAX_QUEUED) {
                match message {
                    Message::Event(event) => {
                        self.add(*event);
                        due.get_or_insert_with(|| Instant::now() + self.options.interval);
                    }
                    Message::Sample(sample) => {
                        let values = self.batch.cells.entry(CellKey::from_sample(&sample));
                        values.or_default().sample(&sample);
                        due.get_or_insert_with(|| Instant::now() + self.options.interval);
                    }
                    Message::Flush(reply) => replies.push(reply),
                }
            }
            if !replies.is_empty() || due.is_some_and(|due| due <= Instant::now()) {
                self.flush();
                due = self.is_failing.then(|| Instant::now() + self.options.interval);
                for reply in replies {
                    let _ = reply.send(());
                }
            }
        }
    }

    /// Adds an event to the batch of cells, records and sessions.
    fn add(&mut self, event: Event) {
        let origin = match &event.follows {
            Follows::Call(Some(snapshot)) => self.origins.get(snapshot).cloned(),
            _ => None,
        };
        let id = Rc::new(Cell::new(0));
        let is_follow_up = event.follows != Follows::Nothing;
        let (key, record) = match &origin {
            Some(origin) => (origin.key.clone(), Rc::clone(&origin.record)),
            None => (CellKey::from_event(&event), Rc::clone(&id)),
        };
        // A page may store the result of a query, whose pages belong to the same call.
        for snapshot in &event.snapshots {
            let origin = Origin { key: key.clone(), record: Rc::clone(&record) };
            self.origins.put(snapshot.clone(), origin);
        }
        if self.batch.cells.len() >= MAX_WAITING || self.batch.records.len() >= MAX_WAITING {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let values = self.batch.cells.entry(key).or_default();
        if is_follow_up {
            values.follow_up(&event);
        } else {
            values.call(&event);
        }
        if !event.session.is_empty() {
            let session = self.batch.sessions.entry(event.session.clone());
            session.or_insert_with(|| SessionSums::new(&event)).add(&event, is_follow_up);
        }
        let parent = origin.map(|origin| origin.record);
        self.batch.records.push(RawRecord { event, id, parent });
    }

    /// Writes the batch. If that fails, retains the batch for the next attempt.
    fn flush(&mut self) {
        match self.write() {
            Ok(()) if self.is_failing => {
                self.is_failing = false;
                warn!("the history is written again");
            }
            Ok(()) => {}
            Err(error) => {
                if !self.is_failing {
                    warn!("the history cannot be written now: {error}");
                }
                self.is_failing = true;
                // Ids of a transaction that was rolled back do not exist.
                self.ids = Ids::default();
            }
        }
    }

    fn write(&mut self) -> Result<()> {
        let dropped = self.dropped.load(Ordering::Relaxed);
        if self.batch.cells.is_empty() && dropped == self.stored_dropped {
            return Ok(());
        }
        let (ids, batch) = (&mut self.ids, &self.batch);
        // Without the lock from the start, a transaction that reads first could not write later.
        let behavior = TransactionBehavior::Immediate;
        let transaction = self.connection.transaction_with_behavior(behavior)?;
        write_cells(&transaction, ids, batch)?;
        write_records(&transaction, ids, batch)?;
        if dropped > self.stored_dropped {
            let more = i64::try_from(dropped - self.stored_dropped).unwrap_or(i64::MAX);
            transaction.execute(
                "INSERT INTO meta VALUES ('dropped', ?1)
                 ON CONFLICT (key) DO UPDATE SET value = value + excluded.value",
                [more],
            )?;
        }
        transaction.commit()?;
        self.stored_dropped = dropped;
        let newest = self.batch.records.iter().map(|record| record.event.at_ms).max();
        self.batch = Batch::default();
        let newest = newest.unwrap_or_default();
        if newest.saturating_sub(self.last_retention_ms) >= RETENTION_INTERVAL_MS {
            self.last_retention_ms = newest;
            retention::delete_expired(&mut self.connection, newest)?;
        }
        retention::limit_size(&mut self.connection, self.options.max_bytes)
    }
}

impl Ids {
    /// Returns the id of a name. Adds the name to the file if it is missing.
    fn name(&mut self, transaction: &Transaction<'_>, kind: NameKind, value: &str) -> Result<i64> {
        let key = (kind, value.to_owned());
        if let Some(id) = self.names.get(&key) {
            return Ok(*id);
        }
        let parameters = params![kind.code(), value];
        transaction
            .execute("INSERT OR IGNORE INTO name (kind, value) VALUES (?1, ?2)", parameters)?;
        let select = "SELECT id FROM name WHERE kind = ?1 AND value = ?2";
        let id = transaction.query_row(select, parameters, |row| row.get(0))?;
        // Names of sessions are deleted with their last record.
        if kind != NameKind::Session {
            self.names.insert(key, id);
        }
        Ok(id)
    }

    /// Returns the id of the series of a cell. Adds the series to the file if it is missing.
    fn series(&mut self, transaction: &Transaction<'_>, key: &CellKey) -> Result<u64> {
        let names = [
            self.name(transaction, NameKind::Upstream, &key.upstream)?,
            self.name(transaction, NameKind::Tool, &key.tool)?,
            self.name(transaction, NameKind::Client, key.client)?,
            key.outcome.code(),
        ];
        if let Some(id) = self.series.get(&names) {
            return Ok(*id);
        }
        transaction.execute(
            "INSERT OR IGNORE INTO series (upstream, tool, client, outcome)
             VALUES (?1, ?2, ?3, ?4)",
            names,
        )?;
        let select = "SELECT id FROM series
            WHERE upstream = ?1 AND tool = ?2 AND client = ?3 AND outcome = ?4";
        let id: i64 = transaction.query_row(select, names, |row| row.get(0))?;
        let id = u64::try_from(id).unwrap_or_default();
        self.series.insert(names, id);
        Ok(id)
    }
}

fn write_cells(transaction: &Transaction<'_>, ids: &mut Ids, batch: &Batch) -> Result<()> {
    let mut chunks: BTreeMap<i64, BTreeMap<ChunkKey, Values>> = BTreeMap::new();
    for (key, values) in &batch.cells {
        let series = ids.series(transaction, key)?;
        let cell = ChunkKey { series, revision: key.revision };
        for level in Level::ALL {
            let chunk = chunks.entry(chunk_id(level.code(), key.bucket(level))).or_default();
            chunk.entry(cell).or_default().merge(values);
        }
    }
    let mut upsert = transaction.prepare(
        "INSERT INTO chunk (id, data) VALUES (?1, ?2)
         ON CONFLICT (id) DO UPDATE SET data = merge_chunks(data, excluded.data)",
    )?;
    for (id, cells) in chunks {
        let mut chunk = ChunkWriter::default();
        cells.iter().for_each(|(key, values)| chunk.push(*key, values));
        upsert.execute((id, chunk.finish()))?;
    }
    Ok(())
}

fn write_records(transaction: &Transaction<'_>, ids: &mut Ids, batch: &Batch) -> Result<()> {
    let mut sessions: HashMap<&str, Option<i64>> = HashMap::from([("", None)]);
    let mut upsert = transaction.prepare(sessions::UPSERT)?;
    for (session, sums) in &batch.sessions {
        let id = ids.name(transaction, NameKind::Session, session)?;
        let client = ids.name(transaction, NameKind::Client, sums.client)?;
        sessions::upsert(&mut upsert, id, client, sums)?;
        sessions.insert(session, Some(id));
    }
    let mut names = Vec::with_capacity(batch.records.len());
    for RawRecord { event, .. } in &batch.records {
        names.push((
            ids.name(transaction, NameKind::Upstream, &event.upstream)?,
            ids.name(transaction, NameKind::Tool, &event.tool)?,
            ids.name(transaction, NameKind::Client, event.client)?,
        ));
    }
    let mut insert = transaction.prepare(
        "INSERT INTO record (at, parent, session, upstream, tool, client, outcome, revision,
            decision, tokens_before, tokens_sent, latency_us, bytes)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
    )?;
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    for (RawRecord { event, id, parent }, (upstream, tool, client)) in
        batch.records.iter().zip(names)
    {
        let parent = parent.as_ref().map(|parent| parent.get()).filter(|parent| *parent > 0);
        let row = insert.insert(params![
            number(event.at_ms),
            parent,
            sessions.get(event.session.as_str()).copied().flatten(),
            upstream,
            tool,
            client,
            event.outcome.code(),
            number(event.revision),
            event.mode,
            number(event.tokens_before),
            number(event.tokens_sent),
            number(event.latency_us),
            number(event.bytes_sent),
        ])?;
        id.set(row);
    }
    Ok(())
}
