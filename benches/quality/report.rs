//! The table.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::peer;

/// What became of one payload.
pub(crate) struct Sample {
    pub(crate) class: String,
    pub(crate) before: u64,
    pub(crate) after: u64,
    pub(crate) over: bool,
    pub(crate) within: bool,
    pub(crate) valid: bool,
    pub(crate) recovered: bool,
    pub(crate) needles: usize,
    pub(crate) kept: usize,
    /// Tokens of the text half: what the other gets to spend.
    pub(crate) text_tokens: u64,
    pub(crate) loss: String,
    pub(crate) peer: Option<peer::Kept>,
}

/// All samples under one budget.
pub(crate) struct Report {
    budget: u64,
    samples: Vec<Sample>,
}

impl Report {
    pub(crate) fn new(budget: u64) -> Self {
        Self { budget, samples: Vec::new() }
    }

    pub(crate) fn add(&mut self, sample: Sample) {
        self.samples.push(sample);
    }

    /// Whether every budget was held, every answer valid, every original kept.
    pub(crate) fn holds(&self) -> bool {
        self.samples.iter().all(|sample| sample.within && sample.valid && sample.recovered)
    }

    fn classes(&self) -> BTreeMap<&str, Vec<&Sample>> {
        let mut classes: BTreeMap<&str, Vec<&Sample>> = BTreeMap::new();
        for sample in &self.samples {
            classes.entry(&sample.class).or_default().push(sample);
        }
        classes
    }

    /// The table for people.
    pub(crate) fn markdown(&self) -> String {
        let mut table = format!(
            "\n## Budget {} tokens (o200k)\n\n| class | files | over budget | tokens of those, median | after: median | worst | fewer tokens: mean | median | worst | within budget | valid | recovered | needles kept | shrinkfit, same tokens | loss |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|\n",
            self.budget
        );
        for (class, samples) in self.classes() {
            table.push_str(&row(class, &samples));
        }
        let all: Vec<&Sample> = self.samples.iter().collect();
        table + &row("**all**", &all)
    }

    /// The same for programs.
    pub(crate) fn json(&self) -> Value {
        let classes: serde_json::Map<_, _> = self
            .classes()
            .into_iter()
            .map(|(class, samples)| (class.to_owned(), numbers(&samples)))
            .collect();
        let all: Vec<&Sample> = self.samples.iter().collect();
        json!({"budget": self.budget, "classes": classes, "all": numbers(&all)})
    }
}

/// The one in the middle, and the last of a sorted list; 0 where it is empty.
fn middle_and_last(mut values: Vec<u64>) -> (u64, u64) {
    values.sort_unstable();
    let middle = values.get(values.len() / 2).copied().unwrap_or(0);
    (middle, values.last().copied().unwrap_or(0))
}

fn numbers(samples: &[&Sample]) -> Value {
    let over: Vec<&&Sample> = samples.iter().filter(|sample| sample.over).collect();
    let (before, _) = middle_and_last(over.iter().map(|sample| sample.before).collect());
    let (after, worst) = middle_and_last(over.iter().map(|sample| sample.after).collect());
    // In thousandths that are left, so that the worst is the largest.
    let left: Vec<u64> =
        over.iter().map(|sample| sample.after * 1_000 / sample.before.max(1)).collect();
    let mean = left.iter().sum::<u64>() / (left.len() as u64).max(1);
    let (median_left, worst_left) = middle_and_last(left);
    let count = |test: fn(&Sample) -> bool| samples.iter().filter(|sample| test(sample)).count();
    let compared: Vec<&&&Sample> = over.iter().filter(|sample| sample.peer.is_some()).collect();
    let mut losses: BTreeMap<&str, usize> = BTreeMap::new();
    for sample in &over {
        *losses.entry(&sample.loss).or_default() += 1;
    }
    let fewer = |left: u64| {
        if over.is_empty() {
            Value::Null
        } else {
            json!((1_000 - i64::try_from(left).unwrap_or(1_000)) as f64 / 10.0)
        }
    };
    json!({
        "files": samples.len(), "over": over.len(), "medianBefore": before, "medianAfter": after, "worstAfter": worst,
        "fewerMean": fewer(mean), "fewerMedian": fewer(median_left), "fewerWorst": fewer(worst_left),
        "within": count(|sample| sample.within), "valid": count(|sample| sample.valid), "recovered": count(|sample| sample.recovered),
        "needles": over.iter().map(|sample| sample.needles).sum::<usize>(), "kept": over.iter().map(|sample| sample.kept).sum::<usize>(),
        "peer": {
            "files": compared.len(),
            "kept": compared.iter().filter_map(|sample| sample.peer.as_ref()).map(|peer| peer.kept).sum::<usize>(),
            "ours": compared.iter().map(|sample| sample.kept).sum::<usize>(),
            "failed": compared.iter().filter_map(|sample| sample.peer.as_ref()).filter(|peer| !peer.fits).count(),
            "tokens": compared.iter().filter_map(|sample| sample.peer.as_ref()).map(|peer| peer.tokens).sum::<u64>(),
            "ourTokens": compared.iter().map(|sample| sample.text_tokens).sum::<u64>(),
        },
        "loss": losses,
    })
}

fn row(class: &str, samples: &[&Sample]) -> String {
    let numbers = numbers(samples);
    let of = |name: &str| format!("{} of {}", numbers[name], numbers["files"]);
    let percent = |name: &str| {
        numbers[name].as_f64().map_or_else(String::new, |value| format!("{value:.1} %"))
    };
    let peer = &numbers["peer"];
    let peer_text = if peer["files"] == 0 {
        "-".to_owned()
    } else {
        let failed = if peer["failed"] == 0 {
            String::new()
        } else {
            format!(", {} do not fit", peer["failed"])
        };
        format!("{} against our {}{failed}", peer["kept"], peer["ours"])
    };
    let losses: Vec<String> = numbers["loss"]
        .as_object()
        .map(|losses| losses.iter().map(|(name, count)| format!("{name} {count}")).collect())
        .unwrap_or_default();
    format!(
        "| {class} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} of {} | {peer_text} | {} |\n",
        numbers["files"],
        numbers["over"],
        numbers["medianBefore"],
        numbers["medianAfter"],
        numbers["worstAfter"],
        percent("fewerMean"),
        percent("fewerMedian"),
        percent("fewerWorst"),
        of("within"),
        of("valid"),
        of("recovered"),
        numbers["kept"],
        numbers["needles"],
        losses.join(", ")
    )
}
