//! The measures of queries: metrics that are computed from the sums and histograms of cells.

use serde_json::Value;

use crate::cell::{Sum, Values};

/// A measure of a query, which is a metric of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// The number of calls, without follow-up reads.
    Calls,
    /// The number of follow-up reads.
    Followups,
    /// The estimated tokens of upstreams' answers.
    TokensBefore,
    /// The estimated tokens of first answers as sent, without follow-up reads.
    TokensSent,
    /// The estimated tokens of follow-up reads.
    TokensFollowup,
    /// The estimated tokens of results of tools that programs kept out of their answers.
    TokensKeptOut,
    /// The tokens of upstreams' answers minus those of first answers.
    TokensSaved,
    /// The tokens of upstreams' answers minus those of first answers and follow-up reads.
    NetTokensSaved,
    /// The 95th percentile of the tokens of upstreams' answers.
    TokensP95,
    /// The net tokens saved as a share of the tokens of upstreams' answers, from 0 to 1.
    Reduction,
    /// The length of upstreams' answers, in bytes.
    BytesBefore,
    /// The length of first answers as sent, in bytes.
    BytesSent,
    /// The number of calls whose upstream's answer exceeded its token budget.
    Oversized,
    /// The oversized answers as a share of calls, from 0 to 1.
    OversizedShare,
    /// The number of calls that were answered with a page of a list.
    Paged,
    /// The number of calls that were answered with a chunk of a text.
    Chunked,
    /// The number of calls whose answer omits fields or values.
    Condensed,
    /// The number of calls that failed: faults of the guard and of upstreams.
    Faults,
    /// The failed calls as a share of calls, from 0 to 1.
    FaultRate,
    /// The number of answers whose tokens were counted by a tokenizer.
    Samples,
    /// The difference between the estimated and the counted tokens of these answers, as a share of
    /// the counted ones. It is negative if the estimates are too low.
    EstimateError,
    /// The number of answers whose estimate was off by more than 30 %.
    SamplesOff,
    /// The median time from request to answer, in milliseconds.
    LatencyP50,
    /// The 95th percentile of the time from request to answer, in milliseconds.
    LatencyP95,
    /// The 99th percentile of the time from request to answer, in milliseconds.
    LatencyP99,
}

impl Measure {
    /// All measures.
    pub const ALL: [Self; 25] = [
        Self::Calls,
        Self::Followups,
        Self::TokensBefore,
        Self::TokensSent,
        Self::TokensFollowup,
        Self::TokensKeptOut,
        Self::TokensSaved,
        Self::NetTokensSaved,
        Self::TokensP95,
        Self::Reduction,
        Self::BytesBefore,
        Self::BytesSent,
        Self::Oversized,
        Self::OversizedShare,
        Self::Paged,
        Self::Chunked,
        Self::Condensed,
        Self::Faults,
        Self::FaultRate,
        Self::Samples,
        Self::EstimateError,
        Self::SamplesOff,
        Self::LatencyP50,
        Self::LatencyP95,
        Self::LatencyP99,
    ];

    /// Returns the name of the measure in queries and answers.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Calls => "calls",
            Self::Followups => "followups",
            Self::TokensBefore => "tokens_before",
            Self::TokensSent => "tokens_sent",
            Self::TokensFollowup => "tokens_followup",
            Self::TokensKeptOut => "tokens_kept_out",
            Self::TokensSaved => "tokens_saved",
            Self::NetTokensSaved => "net_tokens_saved",
            Self::TokensP95 => "tokens_p95",
            Self::Reduction => "reduction",
            Self::BytesBefore => "bytes_before",
            Self::BytesSent => "bytes_sent",
            Self::Oversized => "oversized",
            Self::OversizedShare => "oversized_share",
            Self::Paged => "paged",
            Self::Chunked => "chunked",
            Self::Condensed => "condensed",
            Self::Faults => "faults",
            Self::FaultRate => "fault_rate",
            Self::Samples => "samples",
            Self::EstimateError => "estimate_error",
            Self::SamplesOff => "samples_off",
            Self::LatencyP50 => "latency_p50",
            Self::LatencyP95 => "latency_p95",
            Self::LatencyP99 => "latency_p99",
        }
    }

    /// Returns the measure with this name. `None` if there is none.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|measure| measure.name() == name)
    }

    /// Returns true if the measure is computed from a histogram.
    pub(crate) fn needs_histogram(self) -> bool {
        matches!(self, Self::TokensP95 | Self::LatencyP50 | Self::LatencyP95 | Self::LatencyP99)
    }

    /// Returns true if the sums of sessions contain the measure.
    pub(crate) fn is_of_sessions(self) -> bool {
        matches!(
            self,
            Self::Calls
                | Self::Followups
                | Self::TokensBefore
                | Self::TokensSent
                | Self::TokensFollowup
                | Self::TokensSaved
                | Self::NetTokensSaved
                | Self::Reduction
                | Self::Oversized
                | Self::OversizedShare
                | Self::Faults
                | Self::FaultRate
        )
    }

    /// Returns the value of the measure as a number. Null if there are no calls or samples to
    /// compute it from.
    pub(crate) fn value(self, values: &Values) -> Value {
        let sum = |sum| values.get(sum);
        let saved = sum(Sum::TokensBefore).saturating_sub(sum(Sum::TokensSent));
        let net = saved.saturating_sub(sum(Sum::TokensFollowup));
        let [latency, tokens, _] = &values.histograms;
        #[allow(clippy::cast_possible_truncation, reason = "an estimate of a count")]
        let whole = |number: Option<f64>| number.map(|number| number.round() as i64).into();
        // Latencies are stored in microseconds.
        let milliseconds = |quantile| {
            latency.quantile(quantile).map(|micros| (micros / 10.0).round() / 100.0).into()
        };
        match self {
            Self::Calls => sum(Sum::Calls).into(),
            Self::Followups => sum(Sum::Followups).into(),
            Self::TokensBefore => sum(Sum::TokensBefore).into(),
            Self::TokensSent => sum(Sum::TokensSent).into(),
            Self::TokensFollowup => sum(Sum::TokensFollowup).into(),
            Self::TokensKeptOut => sum(Sum::TokensKeptOut).into(),
            Self::TokensSaved => saved.into(),
            Self::NetTokensSaved => net.into(),
            Self::TokensP95 => whole(tokens.quantile(0.95)),
            Self::Reduction => share(net, sum(Sum::TokensBefore)),
            Self::BytesBefore => sum(Sum::BytesBefore).into(),
            Self::BytesSent => sum(Sum::BytesSent).into(),
            Self::Oversized => sum(Sum::Oversized).into(),
            Self::OversizedShare => share(sum(Sum::Oversized), sum(Sum::Calls)),
            Self::Paged => sum(Sum::Paged).into(),
            Self::Chunked => sum(Sum::Chunked).into(),
            Self::Condensed => sum(Sum::Condensed).into(),
            Self::Faults => sum(Sum::Faults).into(),
            Self::FaultRate => share(sum(Sum::Faults), sum(Sum::Calls)),
            Self::Samples => sum(Sum::Samples).into(),
            Self::EstimateError => share(
                sum(Sum::SampledEstimate).saturating_sub(sum(Sum::SampledActual)),
                sum(Sum::SampledActual),
            ),
            Self::SamplesOff => sum(Sum::SamplesOff).into(),
            Self::LatencyP50 => milliseconds(0.5),
            Self::LatencyP95 => milliseconds(0.95),
            Self::LatencyP99 => milliseconds(0.99),
        }
    }
}

/// Returns `part` as a share of `whole`, with four decimals. Null if `whole` is 0.
#[allow(clippy::cast_precision_loss, reason = "a ratio of counts")]
fn share(part: i64, whole: i64) -> Value {
    if whole == 0 {
        return Value::Null;
    }
    ((part as f64 / whole as f64 * 10_000.0).round() / 10_000.0).into()
}
