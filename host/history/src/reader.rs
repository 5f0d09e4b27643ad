//! Runs queries on the history file.

use std::collections::HashMap;
use std::path::Path;

use rusqlite::{Connection, Row};
use serde_json::{Map, Value, json};

use crate::cell::{HISTOGRAMS, Level, SUMS, Values};
use crate::error::Result;
use crate::event::Outcome;
use crate::query::{Dimension, Query};
use crate::schema::{self, CELLS, NameKind, REVISION_CELLS, Table};
use crate::time::format_time;

/// A reader of the history file.
pub struct Reader {
    connection: Connection,
}

/// The values of one group: in total, and by the start of each period.
#[derive(Default)]
struct Group {
    total: Values,
    points: HashMap<i64, Values>,
}

impl Reader {
    /// Opens an existing history file. Writers may use it at the same time.
    ///
    /// # Errors
    /// [`crate::Error::Missing`], [`crate::Error::Database`], [`crate::Error::Version`].
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Self { connection: schema::open_to_read(path)? })
    }

    /// Runs a query. The answer is a JSON object with the range of time that was read (`from`,
    /// `to`, in whole periods of `level`), the `rows` in order of the first measure, and the
    /// `total` of all matching calls. With a step, each row has `points`. O(cells in the range).
    ///
    /// # Errors
    /// [`crate::Error::Database`], [`crate::Error::Query`].
    pub fn run(&self, query: &Query) -> Result<Value> {
        let level = query.level()?;
        let table = if query.uses(Dimension::Revision) { REVISION_CELLS } else { CELLS };
        let width_ms = level.seconds() * 1_000;
        let range = (level.bucket(query.from_ms), level.bucket(query.to_ms.saturating_sub(1)) + 1);
        let groups = self.groups(query, table, level, range)?;
        let mut total = Values::default();
        groups.values().for_each(|group| total.merge(&group.total));
        let mut rows: Vec<(Vec<String>, Group)> = groups.into_iter().collect();
        sort(&mut rows, query);
        rows.truncate(query.top.unwrap_or(usize::MAX));
        let rows: Vec<Value> = rows.iter().map(|(names, group)| row(query, names, group)).collect();
        let time = |bucket: i64| format_time(u64::try_from(bucket).unwrap_or_default() * width_ms);
        let mut answer = json!({
            "from": time(range.0),
            "to": time(range.1),
            "level": level.name(),
            "rows": rows,
            "total": measures(query, &total),
            "dropped": self.dropped()?,
        });
        if let (Some(step), Some(answer)) = (query.step_seconds, answer.as_object_mut()) {
            answer.insert("step_seconds".to_owned(), step.into());
        }
        Ok(answer)
    }

    /// Returns the number of requests that were dropped because the writer could not keep up.
    fn dropped(&self) -> Result<i64> {
        let select = "SELECT coalesce(max(value), 0) FROM meta WHERE key = 'dropped'";
        Ok(self.connection.query_row(select, [], |row| row.get(0))?)
    }

    fn groups(
        &self,
        query: &Query,
        table: Table,
        level: Level,
        range: (i64, i64),
    ) -> Result<HashMap<Vec<String>, Group>> {
        let names = self.names()?;
        let has_histograms = query.measures.iter().any(|measure| measure.needs_histogram());
        let mut columns = [&["bucket"], table.keys, &SUMS].concat();
        if has_histograms {
            columns.extend(HISTOGRAMS);
        }
        let select = format!(
            "SELECT {} FROM {} WHERE level = ?1 AND bucket >= ?2 AND bucket < ?3",
            columns.join(", "),
            table.name
        );
        let mut statement = self.connection.prepare(&select)?;
        let mut rows = statement.query([level.code(), range.0, range.1])?;
        let mut groups: HashMap<Vec<String>, Group> = HashMap::new();
        let mut texts: HashMap<Vec<i64>, Option<Vec<String>>> = HashMap::new();
        while let Some(row) = rows.next()? {
            let ids = (0..table.keys.len()).map(|at| row.get(1 + at));
            let ids: Vec<i64> = ids.collect::<rusqlite::Result<_>>()?;
            // Few combinations of names occur in many cells.
            let group = texts.entry(ids).or_insert_with_key(|ids| names.group(query, table, ids));
            let Some(group) = group else { continue };
            let first = 1 + table.keys.len();
            let entry = match groups.get_mut(group) {
                Some(entry) => entry,
                None => groups.entry(group.clone()).or_default(),
            };
            if let Some(step) = query.step_seconds {
                let step = i64::try_from(step / level.seconds()).unwrap_or(1);
                let bucket: i64 = row.get(0)?;
                let point = entry.points.entry(bucket.div_euclid(step)).or_default();
                add(point, row, first, has_histograms)?;
            }
            add(&mut entry.total, row, first, has_histograms)?;
        }
        Ok(groups)
    }

    fn names(&self) -> Result<Names> {
        let mut names = HashMap::new();
        let mut statement =
            self.connection.prepare("SELECT id, value FROM name WHERE kind != ?1")?;
        let mut rows = statement.query([NameKind::Session.code()])?;
        while let Some(row) = rows.next()? {
            names.insert(row.get(0)?, row.get(1)?);
        }
        Ok(Names(names))
    }
}

/// The names of upstreams, tools and clients by id.
struct Names(HashMap<i64, String>);

impl Names {
    /// Returns the values of the dimensions of the query for the key of a cell. `None` if the cell
    /// does not pass the filters.
    fn group(&self, query: &Query, table: Table, ids: &[i64]) -> Option<Vec<String>> {
        let value = |dimension: Dimension| {
            let at = table.keys.iter().position(|key| *key == dimension.name())?;
            let id = ids.get(at)?;
            Some(match dimension {
                Dimension::Outcome => {
                    let outcome = usize::try_from(*id).ok().and_then(|id| Outcome::ALL.get(id));
                    outcome.map_or("unknown", |outcome| outcome.name()).to_owned()
                }
                Dimension::Revision => id.to_string(),
                _ => self.0.get(id).cloned().unwrap_or_default(),
            })
        };
        let filtered = Dimension::ALL
            .into_iter()
            .filter(|dimension| query.filters.iter().any(|(of, _)| of == dimension));
        for dimension in filtered {
            if !query.accepts(dimension, &value(dimension)?) {
                return None;
            }
        }
        query.by.iter().map(|dimension| value(*dimension)).collect()
    }
}

/// Adds the values of a cell, whose columns begin at `first`. Without building the histograms of
/// each cell, since most queries read none.
fn add(
    values: &mut Values,
    row: &Row<'_>,
    first: usize,
    has_histograms: bool,
) -> rusqlite::Result<()> {
    for (at, sum) in values.sums.iter_mut().enumerate() {
        let more: i64 = row.get(first + at)?;
        *sum = sum.saturating_add(more);
    }
    if has_histograms {
        for (at, histogram) in values.histograms.iter_mut().enumerate() {
            let bytes = row.get_ref(first + SUMS.len() + at)?;
            histogram.merge_bytes(bytes.as_blob().unwrap_or_default());
        }
    }
    Ok(())
}

/// Sorts groups by the first measure, then by name.
fn sort(rows: &mut [(Vec<String>, Group)], query: &Query) {
    let rank = |group: &Group| {
        let value = query.measures.first().map(|measure| measure.value(&group.total));
        value.and_then(|value| value.as_f64()).unwrap_or(f64::NEG_INFINITY)
    };
    rows.sort_by(|(one, one_group), (other, other_group)| {
        let ascending = rank(one_group).total_cmp(&rank(other_group));
        let order = if query.is_ascending { ascending } else { ascending.reverse() };
        order.then_with(|| one.cmp(other))
    });
}

fn row(query: &Query, names: &[String], group: &Group) -> Value {
    let mut row = Map::new();
    for (dimension, name) in query.by.iter().zip(names) {
        row.insert(dimension.name().to_owned(), name.as_str().into());
    }
    row.extend(measures(query, &group.total));
    if let Some(step) = query.step_seconds {
        let mut points: Vec<_> = group.points.iter().collect();
        points.sort_by_key(|(bucket, _)| **bucket);
        let points = points.into_iter().map(|(bucket, values)| {
            let mut point = measures(query, values);
            let at = u64::try_from(*bucket).unwrap_or_default() * step * 1_000;
            point.insert("at".to_owned(), format_time(at).into());
            Value::Object(point)
        });
        row.insert("points".to_owned(), points.collect());
    }
    Value::Object(row)
}

fn measures(query: &Query, values: &Values) -> Map<String, Value> {
    let measures = query.measures.iter();
    measures.map(|measure| (measure.name().to_owned(), measure.value(values))).collect()
}
