//! Cells: the sums and histograms of all calls in the same minute, hour or day, with the same
//! names.

use crate::event::{Event, Outcome, Sample};
use crate::histogram::Histogram;

/// A period for which cells are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// One minute, retained for 48 hours.
    Minute,
    /// One hour, retained for 35 days.
    Hour,
    /// One day in UTC, retained for 400 days.
    Day,
}

impl Level {
    /// All levels, from the finest to the coarsest. The position of a level is its code in the
    /// file.
    pub const ALL: [Self; 3] = [Self::Minute, Self::Hour, Self::Day];

    /// Returns the length of the period in seconds.
    #[must_use]
    pub const fn seconds(self) -> u64 {
        match self {
            Self::Minute => 60,
            Self::Hour => 3_600,
            Self::Day => 86_400,
        }
    }

    /// Returns the time for which cells are retained, in seconds.
    #[must_use]
    pub const fn retention_seconds(self) -> u64 {
        match self {
            Self::Minute => 48 * 3_600,
            Self::Hour => 35 * 86_400,
            Self::Day => 400 * 86_400,
        }
    }

    /// Returns the name of the level in answers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
        }
    }

    pub(crate) const fn code(self) -> i64 {
        match self {
            Self::Minute => 0,
            Self::Hour => 1,
            Self::Day => 2,
        }
    }

    /// Returns the number of the period that contains `at_ms`, a time in milliseconds since 1970.
    /// Periods are numbered from 1970.
    pub(crate) fn bucket(self, at_ms: u64) -> i64 {
        i64::try_from(at_ms / 1_000 / self.seconds()).unwrap_or(i64::MAX)
    }
}

/// A sum of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sum {
    Calls,
    TokensBefore,
    TokensSent,
    TokensFollowup,
    BytesBefore,
    BytesSent,
    Oversized,
    Paged,
    Chunked,
    Condensed,
    Faults,
    Followups,
    Samples,
    SampledEstimate,
    SampledActual,
    SamplesOff,
    TokensKeptOut,
    /// Calls of a tool that reached its upstream.
    ToolCalls,
    ToolFailures,
    /// The total time that the upstream needed for these calls, in microseconds.
    UpstreamMicros,
}

/// The number of sums of a cell. A sum has the same position in the file as in [`Sum`].
pub(crate) const SUMS: usize = Sum::UpstreamMicros as usize + 1;

/// The values of a cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Values {
    pub(crate) sums: [i64; SUMS],
    /// The latency in microseconds, the tokens of upstreams' answers, and the time in microseconds
    /// that upstreams needed for tool calls.
    pub(crate) histograms: [Histogram; 3],
}

impl Values {
    /// Returns the value of a sum.
    pub(crate) fn get(&self, sum: Sum) -> i64 {
        self.sums.get(sum as usize).copied().unwrap_or_default()
    }

    pub(crate) fn add(&mut self, sum: Sum, more: u64) {
        if let Some(value) = self.sums.get_mut(sum as usize) {
            *value = value.saturating_add(i64::try_from(more).unwrap_or(i64::MAX));
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (value, more) in self.sums.iter_mut().zip(other.sums) {
            *value = value.saturating_add(more);
        }
        for (histogram, more) in self.histograms.iter_mut().zip(&other.histograms) {
            histogram.merge(more);
        }
    }

    /// Adds a call.
    pub(crate) fn call(&mut self, event: &Event) {
        self.add(Sum::Calls, 1);
        self.add(Sum::TokensBefore, event.tokens_before);
        self.add(Sum::TokensSent, event.tokens_sent);
        self.add(Sum::TokensKeptOut, event.tokens_kept_out);
        self.add(Sum::BytesBefore, event.bytes_before);
        self.add(Sum::BytesSent, event.bytes_sent);
        self.add(Sum::Oversized, event.is_oversized.into());
        self.add(Sum::Paged, event.is_paged.into());
        self.add(Sum::Chunked, event.is_chunked.into());
        self.add(Sum::Condensed, event.is_condensed.into());
        self.add(Sum::Faults, event.outcome.is_fault().into());
        let [latency, tokens, upstream] = &mut self.histograms;
        latency.add(event.latency_us);
        tokens.add(event.tokens_before);
        if let Some(micros) = event.upstream_us {
            upstream.add(micros);
            self.add(Sum::ToolCalls, 1);
            self.add(Sum::ToolFailures, event.is_tool_failure.into());
            self.add(Sum::UpstreamMicros, micros);
        }
    }

    /// Adds a sample: an answer with estimated and exact token counts.
    pub(crate) fn sample(&mut self, sample: &Sample) {
        self.add(Sum::Samples, 1);
        self.add(Sum::SampledEstimate, sample.estimated);
        self.add(Sum::SampledActual, sample.actual);
        self.add(Sum::SamplesOff, sample.is_off.into());
    }

    /// Adds a follow-up read of a call.
    pub(crate) fn follow_up(&mut self, event: &Event) {
        self.add(Sum::Followups, 1);
        self.add(Sum::TokensFollowup, event.tokens_sent);
    }
}

/// The names under which a call is counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CellKey {
    /// The minute, in minutes since 1970.
    pub(crate) minute: i64,
    pub(crate) upstream: String,
    pub(crate) tool: String,
    pub(crate) client: &'static str,
    pub(crate) outcome: Outcome,
    pub(crate) revision: u64,
}

impl CellKey {
    pub(crate) fn from_event(event: &Event) -> Self {
        Self {
            minute: Level::Minute.bucket(event.at_ms),
            upstream: event.upstream.clone(),
            tool: event.tool.clone(),
            client: event.client,
            outcome: event.outcome,
            revision: event.revision,
        }
    }

    pub(crate) fn from_sample(sample: &Sample) -> Self {
        Self {
            minute: Level::Minute.bucket(sample.at_ms),
            upstream: sample.upstream.clone(),
            tool: sample.tool.clone(),
            client: sample.client,
            outcome: sample.outcome,
            revision: sample.revision,
        }
    }

    /// Returns the number of the period of `level` that contains the minute.
    pub(crate) fn bucket(&self, level: Level) -> i64 {
        let minutes = i64::try_from(level.seconds() / Level::Minute.seconds()).unwrap_or(1);
        self.minute.div_euclid(minutes)
    }
}
