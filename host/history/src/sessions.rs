//! Sums by session, for the last seven days.

use std::collections::HashMap;

use rusqlite::{Statement, params};

use crate::cell::Sum;
use crate::error::Result;
use crate::event::Event;
use crate::query::{Dimension, Query};
use crate::reader::{Group, Reader};

/// The sums of a session since the last written batch.
pub(crate) struct SessionSums {
    pub(crate) client: &'static str,
    first_ms: u64,
    last_ms: u64,
    calls: u64,
    followups: u64,
    tokens_before: u64,
    tokens_sent: u64,
    tokens_followup: u64,
    oversized: u64,
    faults: u64,
}

impl SessionSums {
    /// Returns empty sums for the session of `event`.
    pub(crate) fn new(event: &Event) -> Self {
        Self {
            client: event.client,
            first_ms: event.at_ms,
            last_ms: event.at_ms,
            calls: 0,
            followups: 0,
            tokens_before: 0,
            tokens_sent: 0,
            tokens_followup: 0,
            oversized: 0,
            faults: 0,
        }
    }

    /// Adds a call, or a follow-up read if `is_follow_up` is true.
    pub(crate) fn add(&mut self, event: &Event, is_follow_up: bool) {
        self.first_ms = self.first_ms.min(event.at_ms);
        self.last_ms = self.last_ms.max(event.at_ms);
        if is_follow_up {
            self.followups += 1;
            self.tokens_followup += event.tokens_sent;
            return;
        }
        self.calls += 1;
        self.tokens_before += event.tokens_before;
        self.tokens_sent += event.tokens_sent;
        self.oversized += u64::from(event.is_oversized);
        self.faults += u64::from(event.outcome.is_fault());
    }
}

/// The statement of [`upsert`].
pub(crate) const UPSERT: &str = "
    INSERT INTO session VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
    ON CONFLICT (id) DO UPDATE SET
        first = min(first, excluded.first), last = max(last, excluded.last),
        calls = calls + excluded.calls, followups = followups + excluded.followups,
        tokens_before = tokens_before + excluded.tokens_before,
        tokens_sent = tokens_sent + excluded.tokens_sent,
        tokens_followup = tokens_followup + excluded.tokens_followup,
        oversized = oversized + excluded.oversized, faults = faults + excluded.faults";

/// Adds `sums` to the stored sums of a session. `id` is the id of its name, and `client` that of
/// the client.
pub(crate) fn upsert(
    statement: &mut Statement<'_>,
    id: i64,
    client: i64,
    sums: &SessionSums,
) -> Result<()> {
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    statement.execute(params![
        id,
        client,
        number(sums.first_ms),
        number(sums.last_ms),
        number(sums.calls),
        number(sums.followups),
        number(sums.tokens_before),
        number(sums.tokens_sent),
        number(sums.tokens_followup),
        number(sums.oversized),
        number(sums.faults),
    ])?;
    Ok(())
}

/// The stored sums of sessions, joined with the names of session and client.
pub(crate) const NAMED_SUMS: &str = "session AS sums JOIN name AS session ON session.id = sums.id
    JOIN name AS client ON client.id = sums.client";

/// The sums of the table, in the order in which [`Reader::session_groups`] reads them.
const SUMS: [(&str, Sum); 7] = [
    ("calls", Sum::Calls),
    ("followups", Sum::Followups),
    ("tokens_before", Sum::TokensBefore),
    ("tokens_sent", Sum::TokensSent),
    ("tokens_followup", Sum::TokensFollowup),
    ("oversized", Sum::Oversized),
    ("faults", Sum::Faults),
];

impl Reader {
    /// Returns the sums of the sessions with a request in the range of the query, grouped by its
    /// dimensions. The sums cover whole sessions. O(stored sessions).
    pub(crate) fn session_groups(&self, query: &Query) -> Result<HashMap<Vec<String>, Group>> {
        let columns = SUMS.map(|(column, _)| column).join(", ");
        let mut select = self.connection.prepare(&format!(
            "SELECT session.value, client.value, {columns} FROM {NAMED_SUMS}
             WHERE last >= ?1 AND first < ?2"
        ))?;
        let time = |at_ms: u64| i64::try_from(at_ms).unwrap_or(i64::MAX);
        let mut rows = select.query([time(query.from_ms), time(query.to_ms)])?;
        let mut groups: HashMap<Vec<String>, Group> = HashMap::new();
        while let Some(row) = rows.next()? {
            let (session, client): (String, String) = (row.get(0)?, row.get(1)?);
            if !query.accepts(Dimension::Session, &session)
                || !query.accepts(Dimension::Client, &client)
            {
                continue;
            }
            let value = |dimension: &Dimension| match dimension {
                Dimension::Client => client.clone(),
                _ => session.clone(),
            };
            let group = groups.entry(query.by.iter().map(value).collect()).or_default();
            for (at, (_, sum)) in SUMS.into_iter().enumerate() {
                let value: i64 = row.get(at + 2)?;
                group.total.add(sum, u64::try_from(value).unwrap_or_default());
            }
        }
        Ok(groups)
    }
}
