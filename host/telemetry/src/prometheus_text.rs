//! The older text format of Prometheus, for clients that do not accept OpenMetrics.

use std::fmt::Write as _;

/// Converts metrics from OpenMetrics to version 0.0.4 of the text format of Prometheus.
/// Differences: metadata of a counter contain the series name with `_total`, and there are no units
/// and no end mark.
#[must_use]
pub fn prometheus_text(openmetrics: &str) -> String {
    let mut text = String::with_capacity(openmetrics.len());
    let mut help = "";
    for line in openmetrics.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            // The type follows the help, and determines the name.
            (Some("#"), Some("HELP"), Some(_), _) => help = line,
            (Some("#"), Some("TYPE"), Some(name), Some(kind)) => {
                let total = if kind == "counter" { "_total" } else { "" };
                let described = help.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' '));
                if let Some((_, description)) = described {
                    let _ = writeln!(text, "# HELP {name}{total} {description}");
                }
                let _ = writeln!(text, "# TYPE {name}{total} {kind}");
            }
            (Some("#"), ..) => {}
            _ => {
                let _ = writeln!(text, "{line}");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_named_with_their_series() {
        let openmetrics = "\
# HELP a_requests Answered requests.
# TYPE a_requests counter
a_requests_total{b=\"c d\"} 3
# HELP a_time_seconds Time.
# TYPE a_time_seconds histogram
# UNIT a_time_seconds seconds
a_time_seconds_count 1
# EOF
";
        let expected = "\
# HELP a_requests_total Answered requests.
# TYPE a_requests_total counter
a_requests_total{b=\"c d\"} 3
# HELP a_time_seconds Time.
# TYPE a_time_seconds histogram
a_time_seconds_count 1
";
        assert_eq!(prometheus_text(openmetrics), expected);
    }
}
