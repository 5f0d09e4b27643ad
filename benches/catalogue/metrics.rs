//! Metrics of ranked tools.

use std::collections::HashSet;

use super::data::Query;

/// The mean metrics of a set of queries.
#[derive(Clone, Copy, Default)]
pub(crate) struct Metrics {
    pub(crate) recall_1: f64,
    pub(crate) recall_5: f64,
    pub(crate) recall_10: f64,
    pub(crate) ndcg_10: f64,
    pub(crate) complete_10: f64,
}

/// Returns the share of needs that the first `k` tools meet.
pub(crate) fn recall(ranked: &[&str], query: &Query, k: usize) -> f64 {
    let shown: HashSet<&str> = ranked.iter().take(k).copied().collect();
    let met = query.needs.iter().filter(|need| need.iter().any(|tool| shown.contains(&**tool)));
    met.count() as f64 / query.needs.len().max(1) as f64
}

/// Returns the normalized discounted gain of the first ten tools. A tool gains if it meets a need
/// that no earlier tool met.
fn ndcg(ranked: &[&str], query: &Query) -> f64 {
    let discount = |rank: usize| 1.0 / ((rank + 2) as f64).log2();
    let mut met = vec![false; query.needs.len()];
    let mut gain = 0.0;
    for (rank, tool) in ranked.iter().take(10).enumerate() {
        let mut needs = met.iter_mut().zip(&query.needs);
        let open = needs.find(|(met, need)| !**met && need.iter().any(|id| id == tool));
        if let Some((met, _)) = open {
            *met = true;
            gain += discount(rank);
        }
    }
    let ideal: f64 = (0..query.needs.len().min(10)).map(discount).sum();
    if ideal > 0.0 { gain / ideal } else { 0.0 }
}

/// Returns the mean metrics. `ranked` has the tools of each query.
pub(crate) fn evaluate(ranked: &[Vec<&str>], queries: &[Query]) -> Metrics {
    let count = queries.len().max(1) as f64;
    let mean = |metric: &dyn Fn(&[&str], &Query) -> f64| {
        ranked.iter().zip(queries).map(|(ranked, query)| metric(ranked, query)).sum::<f64>() / count
    };
    Metrics {
        recall_1: mean(&|ranked, query| recall(ranked, query, 1)),
        recall_5: mean(&|ranked, query| recall(ranked, query, 5)),
        recall_10: mean(&|ranked, query| recall(ranked, query, 10)),
        ndcg_10: mean(&ndcg),
        complete_10: mean(&|ranked, query| {
            f64::from(u8::from(recall(ranked, query, 10) > 1.0 - 1e-9))
        }),
    }
}

/// Returns the means of the metrics of several sets, each with the same weight.
pub(crate) fn mean(all: &[Metrics]) -> Metrics {
    let count = all.len().max(1) as f64;
    let mean = |metric: fn(&Metrics) -> f64| all.iter().map(metric).sum::<f64>() / count;
    Metrics {
        recall_1: mean(|metrics| metrics.recall_1),
        recall_5: mean(|metrics| metrics.recall_5),
        recall_10: mean(|metrics| metrics.recall_10),
        ndcg_10: mean(|metrics| metrics.ndcg_10),
        complete_10: mean(|metrics| metrics.complete_10),
    }
}
