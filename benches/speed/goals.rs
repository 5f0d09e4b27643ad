//! Performance goals, compared with the measured times.

use serde::Serialize;

use crate::report::duration;
use crate::turns::Times;

/// Goals for component calls relative to parsing the same bytes: the group, and the maximum ratio.
const OF_PARSING: [(&str, &str, f64); 9] = [
    ("first page of 1 MB, structured content", "page-structured-1MB", 0.125),
    ("first page of 1 MB, JSON in a text block", "page-text-1MB", 0.125),
    ("first page of 1 MB, the same in both", "page-both-1MB", 0.125),
    ("first chunk of 3 MB", "chunk-plain-3MB", 0.1),
    ("first chunk of 3 MB with its errors", "chunk-3MB", 0.1),
    ("projecting 1 MB, structured content", "project-structured-1MB", 0.333),
    ("projecting 1 MB, text", "project-text-1MB", 0.333),
    ("condensing 1 MB, structured content", "condense-structured-1MB", 0.333),
    ("condensing 1 MB, text", "condense-text-1MB", 0.333),
];

/// Goals for component calls relative to the core.
const OF_CORE: [(&str, &str); 6] = [
    ("component against core: page, structured content", "page-structured-1MB"),
    ("component against core: page, text", "page-text-1MB"),
    ("component against core: page of 100 kB", "page-text-100kB"),
    ("component against core: condensing", "condense-text-1MB"),
    ("component against core: projecting", "project-text-1MB"),
    ("component against core: chunk", "chunk-plain-3MB"),
];

/// A measurement: its group and its side.
type Series = (&'static str, &'static str);

/// Other goals: numerator, denominator, and the maximum ratio.
const RATIOS: [(&str, Series, Series, f64); 5] = [
    (
        "page 2, snapshot of 60 MB against 1 MB",
        ("page-first-of-60MB", "component"),
        ("page-first-of-1MB", "component"),
        1.5,
    ),
    (
        "last page, snapshot of 60 MB against 1 MB",
        ("page-last-of-60MB", "component"),
        ("page-last-of-1MB", "component"),
        1.5,
    ),
    (
        "pricing 10 MB by samples against all of it",
        ("price-10MB", "samples"),
        ("price-10MB", "all of it"),
        0.1,
    ),
    (
        "two threads against one, for the same answers",
        ("instance", "new, 100 kB, two threads at once"),
        ("instance", "new, 100 kB"),
        1.0 / 1.7,
    ),
    (
        "filter of the gateway against the component",
        ("page-text-100kB", "filter"),
        ("page-text-100kB", "component"),
        1.3,
    ),
];

/// The result for a goal, as written to JSON.
#[derive(Serialize)]
pub(crate) struct Goal {
    goal: &'static str,
    /// A ratio, or nanoseconds.
    value: f64,
    /// The result after other work, if it was measured.
    cold: Option<f64>,
    limit: f64,
    met: bool,
    nanoseconds: bool,
}

impl Goal {
    fn shown(&self, value: f64) -> String {
        if self.nanoseconds { duration(value) } else { format!("{value:.3}") }
    }
}

/// Returns the results for which there are times.
pub(crate) fn all(times: &Times) -> Vec<Goal> {
    let time = |(group, side): (&str, &str)| times.get(group)?.get(side).copied();
    let ratio = |this, that| Some(time(this)? / time(that)?);
    let goal = |goal, value: f64, cold, limit| Goal {
        goal,
        value,
        cold,
        limit,
        met: value <= limit,
        nanoseconds: false,
    };
    let of_parsing = OF_PARSING.iter().filter_map(|(name, group, limit)| {
        let value = ratio((group, "component"), (group, "value"))?;
        let cold = ratio((group, "component, cold"), (group, "value, cold"));
        Some(goal(name, value, cold, *limit))
    });
    let of_core = OF_CORE.iter().filter_map(|(name, group)| {
        Some(goal(name, ratio((group, "component"), (group, "core"))?, None, 1.3))
    });
    let ratios = RATIOS.iter().filter_map(|(name, this, that, limit)| {
        Some(goal(name, ratio(*this, *that)?, None, *limit))
    });
    let again = time(("instance", "used again, 100 kB"));
    let added = time(("instance", "new, 100 kB")).zip(again).map(|(new, again)| new - again);
    let absolute = [
        ("an answer of 1 kB that fits", time(("fits-1kB", "component")), 10_000.0),
        ("a new sandbox, added to 100 kB", added, 15_000.0),
        ("a search in 1,000 tools", time(("search-of-1000-tools", "component")), 1_000_000.0),
        ("a search in 10,000 tools", time(("search-of-10000-tools", "component")), 10_000_000.0),
        // At 200 MB/s, in addition to everything else that a call does.
        (
            "pricing all of 60 kB in the component, whole call",
            time(("fits-60kB", "component")),
            300_000.0,
        ),
    ];
    let absolute = absolute
        .into_iter()
        .filter_map(|(name, nanos, limit)| Some(goal(name, nanos?, None, limit)))
        .map(|goal| Goal { nanoseconds: true, ..goal });
    of_parsing.chain(of_core).chain(ratios).chain(absolute).collect()
}

/// Prints the results as a table.
pub(crate) fn print(goals: &[Goal]) {
    println!("\n| goal | measured | cold | at most | |\n|---|--:|--:|--:|---|");
    for goal in goals {
        println!(
            "| {} | {} | {} | {} | {} |",
            goal.goal,
            goal.shown(goal.value),
            goal.cold.map_or_else(String::new, |cold| goal.shown(cold)),
            goal.shown(goal.limit),
            if goal.met { "met" } else { "**above**" }
        );
    }
}
