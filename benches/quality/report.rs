//! The tables of the report.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::shrinkfit::Shrunk;

/// The measurements of one payload.
pub(crate) struct Sample {
    pub(crate) class: String,
    pub(crate) before: u64,
    pub(crate) after: u64,
    pub(crate) over: bool,
    pub(crate) within: bool,
    pub(crate) valid: bool,
    pub(crate) recovered: bool,
    pub(crate) key_facts: usize,
    pub(crate) recalled: usize,
    /// Tokens of the text content, which is the budget of `shrinkfit`.
    pub(crate) text_tokens: u64,
    pub(crate) loss: String,
    pub(crate) shrinkfit: Option<Shrunk>,
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

    /// Returns true if every answer is within its budget and valid, and every original was stored.
    pub(crate) fn passes(&self) -> bool {
        self.samples.iter().all(|sample| sample.within && sample.valid && sample.recovered)
    }

    fn classes(&self) -> BTreeMap<&str, Vec<&Sample>> {
        let mut classes: BTreeMap<&str, Vec<&Sample>> = BTreeMap::new();
        for sample in &self.samples {
            classes.entry(&sample.class).or_default().push(sample);
        }
        classes
    }

    /// Returns the Markdown table.
    pub(crate) fn markdown(&self) -> String {
        let mut table = format!(
            "\n## Budget {} tokens (o200k)\n\n| class | files | over budget | tokens of those, median | after: median | worst | saved: mean | median | worst | within budget | valid | recovered | key facts recalled | by shrinkfit, same tokens | loss |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|\n",
            self.budget
        );
        for (class, samples) in self.classes() {
            table.push_str(&row(class, &samples));
        }
        let all: Vec<&Sample> = self.samples.iter().collect();
        table + &row("**all**", &all)
    }

    /// Returns the table as JSON.
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

/// Returns the median and the maximum of a list, or zeros if it is empty.
fn median_and_max(mut values: Vec<u64>) -> (u64, u64) {
    values.sort_unstable();
    let median = values.get(values.len() / 2).copied().unwrap_or(0);
    (median, values.last().copied().unwrap_or(0))
}

fn numbers(samples: &[&Sample]) -> Value {
    let over: Vec<&&Sample> = samples.iter().filter(|sample| sample.over).collect();
    let (before, _) = median_and_max(over.iter().map(|sample| sample.before).collect());
    let (after, worst) = median_and_max(over.iter().map(|sample| sample.after).collect());
    // In thousandths that remain, so that the maximum is the worst.
    let left: Vec<u64> =
        over.iter().map(|sample| sample.after * 1_000 / sample.before.max(1)).collect();
    let mean = left.iter().sum::<u64>() / (left.len() as u64).max(1);
    let (median_left, worst_left) = median_and_max(left);
    let count = |test: fn(&Sample) -> bool| samples.iter().filter(|sample| test(sample)).count();
    let compared: Vec<&&&Sample> =
        over.iter().filter(|sample| sample.shrinkfit.is_some()).collect();
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
    let shrunk: Vec<&Shrunk> =
        compared.iter().filter_map(|sample| sample.shrinkfit.as_ref()).collect();
    json!({
        "files": samples.len(),
        "over": over.len(),
        "medianBefore": before,
        "medianAfter": after,
        "worstAfter": worst,
        "fewerMean": fewer(mean),
        "fewerMedian": fewer(median_left),
        "fewerWorst": fewer(worst_left),
        "within": count(|sample| sample.within),
        "valid": count(|sample| sample.valid),
        "recovered": count(|sample| sample.recovered),
        "keyFacts": over.iter().map(|sample| sample.key_facts).sum::<usize>(),
        "recalled": over.iter().map(|sample| sample.recalled).sum::<usize>(),
        "shrinkfit": {
            "files": compared.len(),
            "recalled": shrunk.iter().map(|shrunk| shrunk.recalled).sum::<usize>(),
            "ours": compared.iter().map(|sample| sample.recalled).sum::<usize>(),
            "failed": shrunk.iter().filter(|shrunk| !shrunk.fits).count(),
            "tokens": shrunk.iter().map(|shrunk| shrunk.tokens).sum::<u64>(),
            "ourTokens": compared.iter().map(|sample| sample.text_tokens).sum::<u64>(),
        },
        "loss": losses,
    })
}

fn row(class: &str, samples: &[&Sample]) -> String {
    let numbers = numbers(samples);
    let count_of = |name: &str| format!("{} of {}", numbers[name], numbers["files"]);
    let percent = |name: &str| {
        numbers[name].as_f64().map_or_else(String::new, |value| format!("{value:.1} %"))
    };
    let shrinkfit = &numbers["shrinkfit"];
    let comparison = if shrinkfit["files"] == 0 {
        "-".to_owned()
    } else {
        let failed = if shrinkfit["failed"] == 0 {
            String::new()
        } else {
            format!(", {} do not fit", shrinkfit["failed"])
        };
        format!("{} (context-guard {}){failed}", shrinkfit["recalled"], shrinkfit["ours"])
    };
    let losses: Vec<String> = numbers["loss"]
        .as_object()
        .map(|losses| losses.iter().map(|(name, count)| format!("{name} {count}")).collect())
        .unwrap_or_default();
    format!(
        "| {class} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} of {} | {comparison} | {} |\n",
        numbers["files"],
        numbers["over"],
        numbers["medianBefore"],
        numbers["medianAfter"],
        numbers["worstAfter"],
        percent("fewerMean"),
        percent("fewerMedian"),
        percent("fewerWorst"),
        count_of("within"),
        count_of("valid"),
        count_of("recovered"),
        numbers["recalled"],
        numbers["keyFacts"],
        losses.join(", ")
    )
}
