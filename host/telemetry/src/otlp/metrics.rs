//! Converts metrics from OpenMetrics text to OTLP, so that both exports have the same numbers.

use std::collections::BTreeMap;

use super::messages::{
    Data, Gauge, Histogram, HistogramPoint, KeyValue, Metric, NumberPoint, Sum, attribute,
};
use crate::conventions::{LABELS, METRICS};

/// The temporality of all sums: cumulative since the start of the process.
const CUMULATIVE: i32 = 2;

/// A metric in the Prometheus text.
#[derive(Default)]
struct Parsed {
    kind: String,
    help: String,
    unit: String,
    /// The data points by their labels, without the label `le`.
    points: BTreeMap<String, Point>,
}

#[derive(Default)]
struct Point {
    value: f64,
    sum: f64,
    count: u64,
    /// The upper bounds of buckets, with the counts of values up to each bound.
    buckets: Vec<(f64, u64)>,
}

/// Returns the metrics in an OpenMetrics text. Ignores lines that cannot be parsed. `start` and
/// `now` are in nanoseconds since 1970.
pub(super) fn parse(text: &str, start: u64, now: u64) -> Vec<Metric> {
    let mut metrics = BTreeMap::<String, Parsed>::new();
    for line in text.lines() {
        match line.strip_prefix("# ") {
            Some(comment) => {
                let mut words = comment.splitn(3, ' ');
                let (kind, name) = (words.next().unwrap_or_default(), words.next());
                let (Some(name), value) = (name, words.next().unwrap_or_default()) else {
                    continue;
                };
                let metric = metrics.entry(name.to_owned()).or_default();
                match kind {
                    "TYPE" => value.clone_into(&mut metric.kind),
                    "HELP" => value.trim_end_matches('.').clone_into(&mut metric.help),
                    "UNIT" => value.clone_into(&mut metric.unit),
                    _ => {}
                }
            }
            None => drop(sample(line, &mut metrics)),
        }
    }
    let filled = metrics.into_iter().filter(|(_, metric)| !metric.points.is_empty());
    filled.map(|(name, metric)| convert(&name, metric, start, now)).collect()
}

/// Adds the sample in a line to its metric. `None` if the line is invalid.
fn sample(line: &str, metrics: &mut BTreeMap<String, Parsed>) -> Option<()> {
    let (series, value) = line.rsplit_once(' ')?;
    let (full, labels) = match series.split_once('{') {
        Some((name, labels)) => (name, labels.strip_suffix('}')?),
        None => (series, ""),
    };
    let suffix = ["_bucket", "_sum", "_count", "_total", ""]
        .into_iter()
        .find(|suffix| full.strip_suffix(suffix).is_some_and(|name| metrics.contains_key(name)))?;
    let metric = metrics.get_mut(full.strip_suffix(suffix)?)?;
    let (labels, bound) = split_bound(labels);
    let point = metric.points.entry(labels).or_default();
    match suffix {
        "_bucket" if bound.starts_with('+') => {}
        "_bucket" => {
            point.buckets.push((bound.parse().ok()?, value.parse().ok()?));
        }
        "_sum" => point.sum = value.parse().ok()?,
        "_count" => point.count = value.parse().ok()?,
        _ => point.value = value.parse().ok()?,
    }
    Some(())
}

/// Splits the label `le` from the others. Returns the other labels and the value of `le`.
///
/// A quote within a value is escaped. No value therefore contains the name of a label with its
/// quote.
fn split_bound(labels: &str) -> (String, &str) {
    let found = match labels.strip_prefix("le=\"") {
        Some(rest) => Some(("", rest)),
        None => labels.split_once(",le=\""),
    };
    let split = found.and_then(|(before, rest)| Some((before, rest.split_once('"')?)));
    match split {
        Some((before, (bound, after))) => {
            let after = if before.is_empty() { after.trim_start_matches(',') } else { after };
            (format!("{before}{after}"), bound)
        }
        None => (labels.to_owned(), ""),
    }
}

fn convert(name: &str, metric: Parsed, start: u64, now: u64) -> Metric {
    let base = name.strip_suffix("_seconds").filter(|_| metric.unit == "seconds").unwrap_or(name);
    let convention = METRICS.iter().find(|(prometheus, _)| *prometheus == base);
    let own = || name.replacen("context_guard_", "context_guard.", 1);
    let otlp = convention.map_or_else(own, |(_, otlp)| (*otlp).to_owned());
    let unit = match metric.unit.as_str() {
        "seconds" => "s",
        _ if otlp == "context_guard.result.tokens" => "{token}",
        _ => "",
    };
    let numbers = |points: BTreeMap<String, Point>, start| {
        let one = |(labels, point): (String, Point)| NumberPoint {
            start_time_unix_nano: start,
            time_unix_nano: now,
            as_double: Some(point.value),
            attributes: attributes(&labels),
        };
        points.into_iter().map(one).collect()
    };
    let data = match metric.kind.as_str() {
        "counter" => Data::Sum(Sum {
            data_points: numbers(metric.points, start),
            aggregation_temporality: CUMULATIVE,
            is_monotonic: true,
        }),
        "histogram" => {
            let points = metric.points.into_iter();
            let points = points.map(|(labels, point)| histogram(&labels, point, start, now));
            let data_points = points.collect();
            Data::Histogram(Histogram { data_points, aggregation_temporality: CUMULATIVE })
        }
        _ => Data::Gauge(Gauge { data_points: numbers(metric.points, 0) }),
    };
    Metric { name: otlp, description: metric.help, unit: unit.to_owned(), data: Some(data) }
}

/// Returns the OTLP data point of a histogram. Prometheus counts all values up to a bound, OTLP
/// those between two bounds.
fn histogram(labels: &str, point: Point, start: u64, now: u64) -> HistogramPoint {
    let counts = point.buckets.iter().map(|(_, count)| *count).chain([point.count]);
    let mut below = 0;
    let bucket_counts = counts.map(|count| {
        let between = count.saturating_sub(below);
        below = count;
        between
    });
    HistogramPoint {
        start_time_unix_nano: start,
        time_unix_nano: now,
        count: point.count,
        sum: Some(point.sum),
        bucket_counts: bucket_counts.collect(),
        explicit_bounds: point.buckets.iter().map(|(bound, _)| *bound).collect(),
        attributes: attributes(labels),
    }
}

/// Parses labels such as `a="b",c="d"`. Ignores labels without a value.
fn attributes(labels: &str) -> Vec<KeyValue> {
    let (mut found, mut rest) = (Vec::new(), labels);
    while let Some((name, after)) = rest.split_once("=\"") {
        let mut value = String::new();
        let mut characters = after.char_indices();
        let mut end = after.len();
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => {
                    end = at + 1;
                    break;
                }
                '\\' => match characters.next() {
                    Some((_, 'n')) => value.push('\n'),
                    Some((_, escaped)) => value.push(escaped),
                    None => {}
                },
                other => value.push(other),
            }
        }
        let name = name.trim_start_matches(',');
        let convention = LABELS.iter().find(|(prometheus, _)| *prometheus == name);
        if !value.is_empty() {
            found.push(attribute(convention.map_or(name, |(_, otlp)| otlp), value));
        }
        rest = after.get(end..).unwrap_or_default();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# HELP context_guard_requests Answered requests.
# TYPE context_guard_requests counter
context_guard_requests_total{upstream=\"a\\\"b\",outcome=\"passed\",none=\"\"} 3
# HELP mcp_server_operation_duration_seconds Time.
# TYPE mcp_server_operation_duration_seconds histogram
# UNIT mcp_server_operation_duration_seconds seconds
mcp_server_operation_duration_seconds_sum{mcp_method_name=\"ping\"} 1.5
mcp_server_operation_duration_seconds_count{mcp_method_name=\"ping\"} 4
mcp_server_operation_duration_seconds_bucket{le=\"0.01\",mcp_method_name=\"ping\"} 1
mcp_server_operation_duration_seconds_bucket{mcp_method_name=\"ping\",le=\"0.02\"} 3
mcp_server_operation_duration_seconds_bucket{le=\"+Inf\",mcp_method_name=\"ping\"} 4
# TYPE context_guard_sessions gauge
context_guard_sessions 2
# TYPE context_guard_empty gauge
# EOF
";

    #[test]
    fn all_kinds_are_converted() {
        let metrics = parse(TEXT, 5, 9);
        let names: Vec<&str> = metrics.iter().map(|metric| metric.name.as_str()).collect();
        assert_eq!(
            names,
            ["context_guard.requests", "context_guard.sessions", "mcp.server.operation.duration"]
        );
        let Some(Data::Sum(sum)) = &metrics[0].data else { panic!("{metrics:?}") };
        let point = &sum.data_points[0];
        assert_eq!((point.as_double, point.start_time_unix_nano), (Some(3.0), 5));
        let expected = [attribute("upstream", "a\"b"), attribute("outcome", "passed")];
        assert_eq!(point.attributes, expected);
        let Some(Data::Histogram(histogram)) = &metrics[2].data else { panic!("{metrics:?}") };
        let point = &histogram.data_points[0];
        assert_eq!((point.count, point.sum, metrics[2].unit.as_str()), (4, Some(1.5), "s"));
        assert_eq!(point.bucket_counts, [1, 2, 1]);
        assert_eq!(point.explicit_bounds, [0.01, 0.02]);
        assert_eq!(point.attributes, [attribute("mcp.method.name", "ping")]);
    }
}
