//! Lists of sessions and of single requests, newest first.

use context_guard_protocol::glob;
use rusqlite::types::Value as Parameter;
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::event::Outcome;
use crate::reader::Reader;
use crate::schema::NameKind;
use crate::sessions::NAMED_SUMS;
use crate::time::{format_time, parse_time};

/// The default number of rows of a list.
const DEFAULT_ROWS: usize = 50;
/// The maximum number of rows of a list.
const MAX_ROWS: usize = 500;
/// The maximum number of requests that one list reads. A search for a rare value may need several
/// lists.
const MAX_SCANNED: i64 = 100_000;

/// A request for a list.
#[derive(Clone, Debug, Default)]
pub struct ListQuery {
    patterns: Vec<(&'static str, String)>,
    from_ms: u64,
    limit: usize,
    before: Option<i64>,
    id: Option<i64>,
}

impl ListQuery {
    /// Parses the parameters of a list of sessions: `from` and `limit`.
    ///
    /// # Errors
    /// [`Error::Query`] for an unknown name or an invalid value.
    pub fn sessions<'p>(
        parameters: impl IntoIterator<Item = (&'p str, &'p str)>,
        now_ms: u64,
    ) -> Result<Self> {
        Self::parse(parameters, now_ms, &["from", "limit"])
    }

    /// Parses the parameters of a list of requests:
    ///
    /// - `upstream`, `tool`, `client`, `outcome` and `session`: patterns, in which `*` matches any
    ///   characters;
    /// - `from` and `limit`;
    /// - `before`: the `id` of the last request in the previous list;
    /// - `id`: selects one request and its follow-up reads.
    ///
    /// # Errors
    /// [`Error::Query`] for an unknown name or an invalid value.
    pub fn records<'p>(
        parameters: impl IntoIterator<Item = (&'p str, &'p str)>,
        now_ms: u64,
    ) -> Result<Self> {
        const NAMES: [&str; 9] =
            ["upstream", "tool", "client", "outcome", "session", "from", "limit", "before", "id"];
        Self::parse(parameters, now_ms, &NAMES)
    }

    fn parse<'p>(
        parameters: impl IntoIterator<Item = (&'p str, &'p str)>,
        now_ms: u64,
        names: &[&'static str],
    ) -> Result<Self> {
        let mut list = Self { limit: DEFAULT_ROWS, ..Self::default() };
        for (name, value) in parameters {
            let Some(name) = names.iter().copied().find(|known| *known == name) else {
                let names = names.join(", ");
                return fault(format!("unknown parameter `{name}`: use one of {names}"));
            };
            let number = || match value.parse::<i64>() {
                Ok(number) if number > 0 => Ok(number),
                _ => fault(format!("invalid `{name}`: `{value}` is not a number above 0")),
            };
            match name {
                "from" => match parse_time(value, now_ms) {
                    Some(time) => list.from_ms = time,
                    None => {
                        return fault(format!(
                            "invalid time `{value}` in `from`: use a time before now such as -7d, or RFC 3339"
                        ));
                    }
                },
                "limit" => {
                    list.limit = usize::try_from(number()?).unwrap_or(MAX_ROWS);
                    if list.limit > MAX_ROWS {
                        return fault(format!("`limit` is {MAX_ROWS} at most"));
                    }
                }
                "before" => list.before = Some(number()?),
                "id" => list.id = Some(number()?),
                name => list.patterns.push((name, value.to_owned())),
            }
        }
        Ok(list)
    }

    fn accepts(&self, name: &str, value: &str) -> bool {
        let mut patterns = self.patterns.iter().filter(|(of, _)| *of == name);
        patterns.all(|(_, pattern)| glob::matches(pattern, value))
    }
}

impl Reader {
    /// Returns the sessions of the last seven days as a JSON object, the latest first. The
    /// parameters of `list` limit the period further, and the number of rows. A session is
    /// identified by a digest of its id. O(stored sessions), at most 20,000.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn sessions(&self, list: &ListQuery) -> Result<Value> {
        let mut select = self.connection.prepare(&format!(
            "SELECT session.value, client.value, first, last, calls, followups, tokens_before,
                tokens_sent, tokens_followup, oversized, faults
             FROM {NAMED_SUMS} WHERE last >= ?1 ORDER BY last DESC LIMIT ?2"
        ))?;
        let limit = i64::try_from(list.limit).unwrap_or(i64::MAX);
        let from = i64::try_from(list.from_ms).unwrap_or(i64::MAX);
        let mut rows = select.query([from, limit])?;
        let mut sessions = Vec::new();
        while let Some(row) = rows.next()? {
            let number = |at| row.get::<_, i64>(at);
            let (before, sent, followup) = (number(6)?, number(7)?, number(8)?);
            sessions.push(json!({
                "session": row.get::<_, String>(0)?,
                "client": row.get::<_, String>(1)?,
                "first": time(number(2)?),
                "last": time(number(3)?),
                "calls": number(4)?,
                "followups": number(5)?,
                "tokens_before": before,
                "tokens_sent": sent,
                "tokens_followup": followup,
                "net_tokens_saved": before.saturating_sub(sent).saturating_sub(followup),
                "oversized": number(9)?,
                "faults": number(10)?,
            }));
        }
        Ok(json!({ "sessions": sessions }))
    }

    /// Returns single requests as a JSON object, the newest first. `next` is the value of `before`
    /// for the next list, or null at the end. O(requests until the list is full), at most 100,000.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn records(&self, list: &ListQuery) -> Result<Value> {
        let (condition, start) = match (list.id, list.before) {
            (Some(id), _) => ("(id = ?1 OR parent = ?1) AND id >= ?1", id),
            (None, Some(before)) => ("id < ?1", before),
            (None, None) => ("id <= ?1", i64::MAX),
        };
        let mut select = self.connection.prepare(&format!(
            "SELECT id, at, parent, session, upstream, tool, client, outcome, revision, decision,
                tokens_before, tokens_sent, latency_us, bytes
             FROM (SELECT * FROM record WHERE {condition} ORDER BY id DESC LIMIT ?2)"
        ))?;
        let names = self.names()?;
        let mut session =
            self.connection.prepare("SELECT value FROM name WHERE id = ?1 AND kind = ?2")?;
        let mut rows = select.query([start, MAX_SCANNED])?;
        let (mut records, mut last, mut scanned) = (Vec::new(), None, 0);
        let mut next = None;
        while let Some(row) = rows.next()? {
            scanned += 1;
            let name = |at| -> Result<String> {
                let name = names.get(&row.get(at)?);
                Ok(name.map(|name| name.to_string()).unwrap_or_default())
            };
            let number = |at| row.get::<_, Option<i64>>(at);
            let at = number(1)?.unwrap_or_default();
            if u64::try_from(at).is_ok_and(|at| at < list.from_ms) {
                break;
            }
            let outcome = Outcome::name_of(row.get(7)?);
            let (upstream, tool, client) = (name(4)?, name(5)?, name(6)?);
            let named = [("upstream", upstream.as_str()), ("tool", &tool), ("client", &client)];
            let fits = named.iter().all(|(name, value)| list.accepts(name, value))
                && list.accepts("outcome", outcome);
            if !fits {
                last = number(0)?;
                continue;
            }
            let session = match number(3)? {
                Some(id) => {
                    let parameters = [Parameter::from(id), NameKind::Session.code().into()];
                    let mut found = session.query(parameters)?;
                    found.next()?.map(|row| row.get::<_, String>(0)).transpose()?
                }
                None => None,
            };
            if !list.accepts("session", session.as_deref().unwrap_or_default()) {
                last = number(0)?;
                continue;
            }
            if records.len() == list.limit {
                next = last;
                break;
            }
            last = number(0)?;
            #[allow(clippy::cast_precision_loss, reason = "microseconds of a request")]
            let latency_ms = number(12)?.unwrap_or_default() as f64 / 1_000.0;
            records.push(json!({
                "id": last,
                "at": time(at),
                "parent": number(2)?,
                "session": session,
                "upstream": upstream,
                "tool": tool,
                "client": client,
                "outcome": outcome,
                "revision": number(8)?,
                "decision": row.get::<_, Option<String>>(9)?,
                "tokens_before": number(10)?,
                "tokens_sent": number(11)?,
                "latency_ms": latency_ms,
                "bytes_sent": number(13)?,
            }));
        }
        if scanned == MAX_SCANNED {
            next = last;
        }
        Ok(json!({ "records": records, "next": next }))
    }

    /// Returns the state of the file as a JSON object: its size, and the numbers of records,
    /// sessions and dropped requests.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn state(&self) -> Result<Value> {
        let count = |select: &str| -> Result<i64> {
            Ok(self.connection.query_row(select, [], |row| row.get(0))?)
        };
        Ok(json!({
            "bytes": crate::retention::used_bytes(&self.connection)?,
            "records": count("SELECT coalesce(max(id) - min(id) + 1, 0) FROM record")?,
            "sessions": count("SELECT count(*) FROM session")?,
            "dropped": self.dropped()?,
        }))
    }

    /// Returns a number that changes when another connection writes to the file.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn version(&self) -> Result<i64> {
        Ok(self.connection.pragma_query_value(None, "data_version", |row| row.get(0))?)
    }
}

fn time(at_ms: i64) -> String {
    format_time(u64::try_from(at_ms).unwrap_or_default())
}

fn fault<T>(text: String) -> Result<T> {
    Err(Error::Query(text))
}
