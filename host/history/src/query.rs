//! The query language, which the command line and the admin API share.

use context_guard_protocol::glob;

use crate::cell::Level;
use crate::error::{Error, Result};
use crate::event::Outcome;
use crate::measure::Measure;
use crate::time::{parse_duration, parse_time};

/// The maximum number of dimensions of one query.
const MAX_BY: usize = 2;
/// The maximum number of periods of a query with a step.
const MAX_STEPS: u64 = 5_000;
/// The maximum range for which minutes are read if the query has no step, in seconds.
const MAX_MINUTES_SECONDS: u64 = 3 * 3_600;

/// A property of calls by which a query groups and filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// The name of the upstream.
    Upstream,
    /// The name of the tool.
    Tool,
    /// The profile of the client.
    Client,
    /// The outcome of the call.
    Outcome,
    /// The revision of the guard.
    Revision,
    /// The digest of the session's id.
    Session,
}

impl Dimension {
    /// All dimensions.
    pub const ALL: [Self; 6] =
        [Self::Upstream, Self::Tool, Self::Client, Self::Outcome, Self::Revision, Self::Session];

    /// Returns the name of the dimension in queries and answers.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Upstream => "upstream",
            Self::Tool => "tool",
            Self::Client => "client",
            Self::Outcome => "outcome",
            Self::Revision => "revision",
            Self::Session => "session",
        }
    }

    /// Returns the dimension with this name. `None` if there is none.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dimension| dimension.name() == name)
    }
}

/// A query: measures grouped by dimensions, over a range of time.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    pub(crate) measures: Vec<Measure>,
    pub(crate) by: Vec<Dimension>,
    /// The filters of the query. For each dimension that occurs, a call must match one of its
    /// patterns. `*` matches any characters.
    pub(crate) filters: Vec<(Dimension, String)>,
    pub(crate) from_ms: u64,
    pub(crate) to_ms: u64,
    pub(crate) top: Option<usize>,
    pub(crate) is_ascending: bool,
    pub(crate) step_seconds: Option<u64>,
    pub(crate) now_ms: u64,
}

impl Query {
    /// The names of the parameters of a query.
    pub const PARAMETERS: [&str; 8] =
        ["measure", "by", "where", "from", "to", "top", "order", "step"];

    /// Parses a query from its parameters. All parameters but `where` may occur once. `now_ms` is
    /// the current time in milliseconds since 1970. Without parameters, the query is for the calls
    /// of the last day.
    ///
    /// # Errors
    /// [`Error::Query`] for an unknown name or an invalid value, with the valid ones.
    pub fn parse<'p>(
        parameters: impl IntoIterator<Item = (&'p str, &'p str)>,
        now_ms: u64,
    ) -> Result<Self> {
        let mut query = Self {
            measures: Vec::new(),
            by: Vec::new(),
            filters: Vec::new(),
            from_ms: now_ms.saturating_sub(86_400_000),
            to_ms: now_ms,
            top: None,
            is_ascending: false,
            step_seconds: None,
            now_ms,
        };
        let mut seen = Vec::new();
        for (name, value) in parameters {
            if name != "where" && seen.contains(&name) {
                return fault(&format!("the parameter `{name}` occurs twice"));
            }
            seen.push(name);
            query.set(name, value)?;
        }
        if query.measures.is_empty() {
            query.measures.push(Measure::Calls);
        }
        if query.from_ms >= query.to_ms {
            return fault("`from` must be before `to`");
        }
        query.level()?;
        query.check_session()?;
        Ok(query)
    }

    /// Rejects a query by sessions that needs more than the sums of sessions.
    fn check_session(&self) -> Result<()> {
        if !self.uses(Dimension::Session) {
            return Ok(());
        }
        let others = Dimension::ALL.into_iter().filter(|dimension| {
            !matches!(dimension, Dimension::Session | Dimension::Client) && self.uses(*dimension)
        });
        let missing = self.measures.iter().filter(|measure| !measure.is_of_sessions());
        let step = self.step_seconds.map(|_| "`step`".to_owned());
        let refused: Vec<String> = others
            .map(|dimension| format!("`{}`", dimension.name()))
            .chain(missing.map(|measure| format!("`{}`", measure.name())))
            .chain(step)
            .collect();
        if refused.is_empty() {
            return Ok(());
        }
        let measures = Measure::ALL.into_iter().filter(|measure| measure.is_of_sessions());
        let measures: Vec<&str> = measures.map(Measure::name).collect();
        fault(&format!(
            "`session` has no {}: it goes with `client` and the measures {}; \
             single requests of a session are in its records",
            refused.join(", "),
            measures.join(", ")
        ))
    }

    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let time = |value: &str| {
            parse_time(value, self.now_ms).ok_or_else(|| {
                Error::Query(format!(
                    "invalid time `{value}` in `{name}`: use a time before now such as -7d, -2h or -10m, `now`, or RFC 3339 such as 2026-11-24T08:00:00Z"
                ))
            })
        };
        match name {
            "measure" => {
                for name in value.split(',') {
                    let names = Measure::ALL.map(Measure::name);
                    let measure =
                        Measure::find(name).ok_or_else(|| unknown("measure", name, &names))?;
                    self.measures.push(measure);
                }
            }
            "by" => {
                for name in value.split(',') {
                    let dimension = dimension(name)?;
                    if self.by.contains(&dimension) || self.by.len() == MAX_BY {
                        let text = format!("`by` takes up to {MAX_BY} different dimensions");
                        return fault(&text);
                    }
                    self.by.push(dimension);
                }
            }
            "where" => value.split(',').try_for_each(|filter| self.filter(filter))?,
            "from" => self.from_ms = time(value)?,
            "to" => self.to_ms = time(value)?,
            "top" => match value.parse() {
                Ok(top) if top > 0 => self.top = Some(top),
                _ => return fault(&format!("invalid `top`: `{value}` is not a number above 0")),
            },
            "order" => match value {
                "asc" | "desc" => self.is_ascending = value == "asc",
                _ => return Err(unknown("order", value, &["asc", "desc"])),
            },
            "step" => {
                let step = parse_duration(value).filter(|step| *step > 0);
                let text =
                    || format!("invalid `step` `{value}`: use a duration such as 1m, 1h or 1d");
                self.step_seconds = Some(step.ok_or_else(|| Error::Query(text()))?);
            }
            _ => return Err(unknown("parameter", name, &Self::PARAMETERS)),
        }
        Ok(())
    }

    /// Adds a filter such as `client:claude-code` or `endpoint:files::read*`.
    fn filter(&mut self, filter: &str) -> Result<()> {
        let Some((name, pattern)) = filter.split_once(':') else {
            let text =
                format!("invalid `where` `{filter}`: use dimension:value, such as tool:read*");
            return fault(&text);
        };
        if name == "endpoint" {
            let (upstream, tool) = pattern.split_once("::").unwrap_or(("*", pattern));
            self.filters.push((Dimension::Upstream, upstream.to_owned()));
            self.filters.push((Dimension::Tool, tool.to_owned()));
            return Ok(());
        }
        let dimension = dimension(name)?;
        let outcomes = Outcome::ALL.map(Outcome::name);
        if dimension == Dimension::Outcome
            && !outcomes.iter().any(|name| glob::matches(pattern, name))
        {
            return Err(unknown("outcome", pattern, &outcomes));
        }
        self.filters.push((dimension, pattern.to_owned()));
        Ok(())
    }

    /// Returns true if the query groups or filters by this dimension.
    pub(crate) fn uses(&self, dimension: Dimension) -> bool {
        self.by.contains(&dimension) || self.filters.iter().any(|(of, _)| *of == dimension)
    }

    /// Returns true if the filters accept a value of a dimension.
    pub(crate) fn accepts(&self, dimension: Dimension, value: &str) -> bool {
        let mut patterns = self.filters.iter().filter(|(of, _)| *of == dimension).peekable();
        patterns.peek().is_none() || patterns.any(|(_, pattern)| glob::matches(pattern, value))
    }

    /// Returns the level whose cells answer the query.
    ///
    /// # Errors
    /// [`Error::Query`] if no stored level has the step.
    pub(crate) fn level(&self) -> Result<Level> {
        let age = self.now_ms.saturating_sub(self.from_ms) / 1_000;
        let range = (self.to_ms - self.from_ms) / 1_000;
        let stored = Level::ALL.into_iter().filter(|level| age <= level.retention_seconds());
        let Some(step) = self.step_seconds else {
            let is_short = range <= MAX_MINUTES_SECONDS;
            let mut fitting = stored.filter(|level| *level != Level::Minute || is_short);
            return Ok(fitting.next().unwrap_or(Level::Day));
        };
        if range / step > MAX_STEPS {
            let text = format!("`step` gives more than {MAX_STEPS} periods: use a longer one");
            return fault(&text);
        }
        let mut fitting = stored.filter(|level| step % level.seconds() == 0);
        fitting.next_back().map_or_else(
            || {
                let text = "`step` must be a multiple of 1m in the last 48 hours, of 1h in the last 35 days, and of 1d before";
                fault(text)
            },
            Ok,
        )
    }
}

fn dimension(name: &str) -> Result<Dimension> {
    let names = Dimension::ALL.map(Dimension::name);
    Dimension::find(name).ok_or_else(|| unknown("dimension", name, &names))
}

fn fault<T>(text: &str) -> Result<T> {
    Err(Error::Query(text.to_owned()))
}

fn unknown(kind: &str, name: &str, valid: &[&str]) -> Error {
    Error::Query(format!("unknown {kind} `{name}`: use one of {}", valid.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_790_000_000_000;

    fn parse(text: &str) -> Result<Query, String> {
        let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
        Query::parse(pairs, NOW).map_err(|error| error.to_string())
    }

    #[test]
    fn example_of_the_reference_is_parsed() {
        let query = parse(
            "measure=net_tokens_saved&by=tool&from=-7d&top=10&step=1h&where=client:claude-code",
        )
        .unwrap();
        assert_eq!(query.measures, [Measure::NetTokensSaved]);
        assert_eq!((query.by.as_slice(), query.top), (&[Dimension::Tool][..], Some(10)));
        assert_eq!((query.from_ms, query.to_ms), (NOW - 7 * 86_400_000, NOW));
        assert!(query.accepts(Dimension::Client, "claude-code"));
        assert!(!query.accepts(Dimension::Client, "qwen-code"));
        assert!(query.accepts(Dimension::Tool, "any"));
    }

    #[test]
    fn errors_name_the_valid_values() {
        for (text, expected) in [
            ("measure=tokns", "one of calls, followups, tokens_before"),
            ("by=tools", "one of upstream, tool, client, outcome, revision, session"),
            ("by=session,tool", "`session` has no `tool`: it goes with `client`"),
            ("by=session&measure=latency_p95,calls&step=1h", "no `latency_p95`, `step`"),
            ("where=session:a*,outcome:fault", "`session` has no `outcome`"),
            ("group=tool", "one of measure, by, where, from, to, top, order, step"),
            ("where=outcome:pagnated", "paginated, summarized, chunked, cursor_expired"),
            ("where=tool", "dimension:value"),
            ("where=tol:x", "one of upstream"),
            ("from=yesterday", "RFC 3339"),
            ("from=-1h&to=-2h", "`from` must be before `to`"),
            ("step=7m&from=-7d", "multiple of 1m in the last 48 hours"),
            ("step=30m&from=-40d&to=-36d", "multiple of 1m in the last 48 hours"),
            ("step=1s", "more than 5000 periods"),
            ("step=0h", "a duration such as"),
            ("top=0", "not a number above 0"),
            ("order=up", "one of asc, desc"),
            ("by=tool&by=client", "occurs twice"),
            ("by=tool,client,outcome", "up to 2"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn level_depends_on_range_age_and_step() {
        for (text, expected) in [
            ("from=-10m", Level::Minute),
            ("from=-7d", Level::Hour),
            ("from=-100d", Level::Day),
            ("from=-80h&to=-79h", Level::Hour),
            ("from=-2d&step=5m", Level::Minute),
            ("from=-2d&step=6h", Level::Hour),
            ("from=-7d&step=1d", Level::Day),
        ] {
            assert_eq!(parse(text).unwrap().level().unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn endpoints_are_upstream_and_tool() {
        let query = parse("where=endpoint:files::read*,outcome:paginated").unwrap();
        assert!(query.accepts(Dimension::Upstream, "files"));
        assert!(query.accepts(Dimension::Tool, "read_file"));
        assert!(!query.accepts(Dimension::Tool, "list"));
        assert!(!query.accepts(Dimension::Outcome, "passed"));
    }
}
