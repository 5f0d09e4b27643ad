//! Runs queries on the history file.

use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;

use rusqlite::Connection;
use serde_json::{Map, Value, json};

use crate::cell::{Level, Values};
use crate::chunk::{self, ChunkKey};
use crate::error::Result;
use crate::event::Outcome;
use crate::migration::chunk_id;
use crate::query::{Dimension, Query};
use crate::schema::{self, NameKind};
use crate::time::format_time;

/// A reader of the history file.
pub struct Reader {
    pub(crate) connection: Connection,
}

/// The values of one group: in total, and by the start of each period.
#[derive(Default)]
pub(crate) struct Group {
    pub(crate) total: Values,
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

    /// Runs a query. The answer is a JSON object. `from` and `to` are the range of time that was
    /// read, in whole periods of `level`. `rows` has the groups in order of the first measure, and
    /// `total` the sums of all matching calls.
    ///
    /// With a step, each row has `points`. Groups of sessions have the sums of whole sessions.
    /// O(cells in the range), or O(sessions).
    ///
    /// # Errors
    /// [`crate::Error::Database`], [`crate::Error::Query`].
    pub fn run(&self, query: &Query) -> Result<Value> {
        let level = query.level()?;
        let width_ms = level.seconds() * 1_000;
        let range = (level.bucket(query.from_ms), level.bucket(query.to_ms.saturating_sub(1)) + 1);
        let groups = match query.uses(Dimension::Session) {
            true => self.session_groups(query)?,
            false => self.groups(query, level, range)?,
        };
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
    pub(crate) fn dropped(&self) -> Result<i64> {
        let select = "SELECT coalesce(max(value), 0) FROM meta WHERE key = 'dropped'";
        Ok(self.connection.query_row(select, [], |row| row.get(0))?)
    }

    /// Returns the values of all groups. Reads the sums of every cell in the range, and the
    /// histograms only if a measure needs one.
    pub(crate) fn groups(
        &self,
        query: &Query,
        level: Level,
        range: (i64, i64),
    ) -> Result<HashMap<Vec<String>, Group>> {
        let series = self.series()?;
        let has_histograms = query.measures.iter().any(|measure| measure.needs_histogram());
        let uses_revision = query.uses(Dimension::Revision);
        let step = query
            .step_seconds
            .map(|step| i64::try_from(step / level.seconds()).unwrap_or(1).max(1));
        let mut groups: Vec<(Vec<String>, Group)> = Vec::new();
        let mut positions: HashMap<Vec<String>, usize> = HashMap::new();
        let mut known = KnownGroups::default();
        let mut select =
            self.connection.prepare("SELECT id, data FROM chunk WHERE id >= ?1 AND id < ?2")?;
        let parts = match step {
            Some(_) => vec![(level, range)],
            None => with_whole_days(level, range),
        };
        for (level, range) in parts {
            let first = chunk_id(level.code(), 0);
            let mut rows = select.query([first + range.0, first + range.1])?;
            while let Some(row) = rows.next()? {
                let bucket = row.get::<_, i64>(0)? - first;
                let point = step.map(|step| bucket.div_euclid(step));
                for cell in chunk::cells(row.get_ref(1)?.as_blob().unwrap_or_default()) {
                    let revision = if uses_revision { cell.key.revision } else { 0 };
                    let key = ChunkKey { revision, ..cell.key };
                    let group = known.get_or_insert_with(key, || {
                        let names = series.get(&key.series)?.group(query, revision)?;
                        Some(*positions.entry(names).or_insert_with_key(|names| {
                            groups.push((names.clone(), Group::default()));
                            groups.len() - 1
                        }))
                    });
                    let Some((_, group)) = group.and_then(|at| groups.get_mut(at)) else {
                        continue;
                    };
                    let values = match point {
                        Some(point) => group.points.entry(point).or_default(),
                        None => &mut group.total,
                    };
                    cell.add_to(values, has_histograms);
                }
            }
        }
        for (_, group) in &mut groups {
            group.points.values().for_each(|values| group.total.merge(values));
        }
        Ok(groups.into_iter().collect())
    }

    /// Returns the names of each series, by the id of the series.
    fn series(&self) -> Result<HashMap<u64, Series>> {
        let names = self.names()?;
        let mut select =
            self.connection.prepare("SELECT id, upstream, tool, client, outcome FROM series")?;
        let mut all = HashMap::new();
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            let name = |at| -> rusqlite::Result<Rc<str>> {
                Ok(names.get(&row.get(at)?).cloned().unwrap_or_default())
            };
            let id = u64::try_from(row.get::<_, i64>(0)?).unwrap_or_default();
            let outcome = Outcome::name_of(row.get(4)?);
            all.insert(id, Series { names: [name(1)?, name(2)?, name(3)?], outcome });
        }
        Ok(all)
    }

    /// Returns the names of upstreams, tools and clients by id.
    pub(crate) fn names(&self) -> Result<HashMap<i64, Rc<str>>> {
        let mut names = HashMap::new();
        let mut statement =
            self.connection.prepare("SELECT id, value FROM name WHERE kind != ?1")?;
        let mut rows = statement.query([NameKind::Session.code()])?;
        while let Some(row) = rows.next()? {
            names.insert(row.get(0)?, row.get_ref(1)?.as_str().unwrap_or_default().into());
        }
        Ok(names)
    }
}

/// Returns the periods to read for a range of a level. Whole days replace their hours, because they
/// contain the same calls in fewer cells.
fn with_whole_days(level: Level, range: (i64, i64)) -> Vec<(Level, (i64, i64))> {
    const HOURS: i64 = 24;
    let days = (range.0.div_euclid(HOURS) + 1, range.1.div_euclid(HOURS));
    // The day of the first hour is whole, too, if the range begins with it.
    let days = if range.0 % HOURS == 0 { (days.0 - 1, days.1) } else { days };
    if level != Level::Hour || days.0 >= days.1 {
        return vec![(level, range)];
    }
    vec![
        (Level::Hour, (range.0, days.0 * HOURS)),
        (Level::Day, days),
        (Level::Hour, (days.1 * HOURS, range.1)),
    ]
}

/// The group of each series and revision. A vector is indexed by series, because ids of series are
/// small and few keys occur in many chunks.
#[derive(Default)]
struct KnownGroups(Vec<Vec<(u64, Option<usize>)>>);

impl KnownGroups {
    /// The maximum id of a series. It prevents a damaged chunk from exhausting memory.
    const MAX_SERIES: usize = 1 << 20;

    fn get_or_insert_with(
        &mut self,
        key: ChunkKey,
        find: impl FnOnce() -> Option<usize>,
    ) -> Option<usize> {
        let series = usize::try_from(key.series).ok().filter(|id| *id <= Self::MAX_SERIES)?;
        if self.0.len() <= series {
            self.0.resize(series + 1, Vec::new());
        }
        let revisions = self.0.get_mut(series)?;
        if let Some((_, group)) = revisions.iter().find(|(known, _)| *known == key.revision) {
            return *group;
        }
        let group = find();
        revisions.push((key.revision, group));
        group
    }
}

/// The names of a series.
struct Series {
    /// Upstream, tool and client.
    names: [Rc<str>; 3],
    outcome: &'static str,
}

impl Series {
    /// Returns the values of the query's dimensions for this series. `None` if the filters exclude
    /// them.
    fn group(&self, query: &Query, revision: u64) -> Option<Vec<String>> {
        let revision = revision.to_string();
        let [upstream, tool, client] = &self.names;
        let value = |dimension: &Dimension| match dimension {
            Dimension::Upstream => upstream,
            Dimension::Tool => tool,
            Dimension::Client => client,
            Dimension::Outcome => self.outcome,
            Dimension::Revision => revision.as_str(),
            // Cells have no sessions: queries of them read other sums.
            Dimension::Session => "",
        };
        if !Dimension::ALL.iter().all(|dimension| query.accepts(*dimension, value(dimension))) {
            return None;
        }
        Some(query.by.iter().map(|dimension| value(dimension).to_owned()).collect())
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_days_replace_their_hours() {
        let hours = |first: i64, end: i64| (Level::Hour, (first, end));
        assert_eq!(with_whole_days(Level::Hour, (30, 47)), [hours(30, 47)]);
        assert_eq!(
            with_whole_days(Level::Hour, (30, 100)),
            [hours(30, 48), (Level::Day, (2, 4)), hours(96, 100)]
        );
        assert_eq!(
            with_whole_days(Level::Hour, (48, 96)),
            [hours(48, 48), (Level::Day, (2, 4)), hours(96, 96)]
        );
        assert_eq!(with_whole_days(Level::Minute, (0, 5_000)), [(Level::Minute, (0, 5_000))]);
    }
}
