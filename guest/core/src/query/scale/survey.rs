//! Chooses the scale of a field from its values.

use super::amount::{Units, amount, decimal_comma, money};
use super::version::is_version;
use super::written::WrittenUnits;
use super::{DateTime, DayOrder, Scale, day_order};
use crate::query::date;
use crate::query::names::join_names;
use crate::query::value::{Number, Value, quote};

/// The maximum number of distinct units or currencies that are counted separately.
const MAX_UNITS: usize = 24;
/// Words in names of fields that hold versions.
const VERSION_WORDS: [&str; 5] = ["python", "release", "releases", "version", "versions"];
/// The number of values in a note.
const MAX_SAMPLES: usize = 3;

/// The forms of the values of a field.
#[derive(Debug, Default)]
pub(in crate::query) struct ScaleSurvey {
    /// The number of JSON numbers.
    numbers: u64,
    /// The number of texts that are numbers.
    plain: u64,
    dotted: DottedNumbers,
    /// The number of amounts of each unit.
    units: Vec<(String, u64)>,
    /// The number of amounts of money in each currency.
    currencies: Vec<(String, u64)>,
    /// The number of amounts of money with a decimal comma, and of those with a decimal dot.
    commas: (u64, u64),
    /// The number of amounts of money in parentheses.
    parentheses: u64,
    versions: u64,
    times: u64,
    zones: u64,
    /// The number of dates with the day first, with the month first, and of those that may be
    /// either.
    orders: [u64; 3],
    /// The number of texts of no other form.
    others: u64,
    leading: LeadingDigits,
    booleans: u64,
    objects: u64,
    /// The number of records that have several values.
    several: u64,
    samples: Vec<String>,
    /// The units of amounts, as they are written.
    pub(super) written: WrittenUnits,
}

/// Texts that begin with a number, such as `$5/mo`.
#[derive(Debug, Default)]
struct LeadingDigits {
    count: u64,
    /// The least and the greatest number of leading digits.
    range: Option<(usize, usize)>,
}

/// Texts such as `3.10`, which may be numbers or versions.
#[derive(Debug, Default)]
struct DottedNumbers {
    /// True if the texts have different numbers of decimals.
    is_uneven: bool,
    /// True if a text has several decimals and ends in zero.
    ends_in_zero: bool,
    decimals: Option<usize>,
    /// The maximum number of decimals.
    most: usize,
}

impl ScaleSurvey {
    /// Adds a value. O(value).
    pub(in crate::query) fn add(&mut self, value: &Value<'_>) {
        let text = match value {
            Value::Null => return,
            Value::Object => {
                self.objects += 1;
                return;
            }
            Value::Bool(_) => {
                self.booleans += 1;
                return;
            }
            Value::Number(text) => {
                self.numbers += 1;
                self.dotted.add(text);
                return;
            }
            Value::Text(text) => text.trim(),
        };
        if text.is_empty() {
            return;
        }
        if self.samples.len() < MAX_SAMPLES && text.len() <= 40 {
            let sample = quote(text);
            if !self.samples.contains(&sample) {
                self.samples.push(sample);
            }
        }
        let may_be_typed = text.len() <= 60 && text.bytes().any(|byte| byte.is_ascii_digit());
        if !may_be_typed {
            self.others += 1;
        } else if Number::parse_plain(text).is_some() {
            self.plain += 1;
            self.dotted.add(text);
        } else if !self.add_time(text) && !self.add_money(text) && !self.add_amount(text) {
            if is_version(text) {
                self.versions += 1;
            } else {
                self.others += 1;
                self.leading.add(text);
            }
        }
    }

    /// Counts a record with several values.
    pub(in crate::query) fn add_several(&mut self) {
        self.several += 1;
    }

    fn add_time(&mut self, text: &str) -> bool {
        let order = day_order(text);
        let date = DateTime::read(
            text,
            order.filter(|order| *order != DayOrder::Unknown).unwrap_or(DayOrder::DayFirst),
        );
        let Some(date) = date else { return false };
        self.times += 1;
        self.zones += u64::from(date.has_zone());
        let at = order.map(|order| match order {
            DayOrder::DayFirst => 0,
            DayOrder::MonthFirst => 1,
            DayOrder::Unknown => 2,
        });
        if let Some(count) = at.and_then(|at| self.orders.get_mut(at)) {
            *count += 1;
        }
        true
    }

    fn add_money(&mut self, text: &str) -> bool {
        let comma = decimal_comma(text);
        let Some(found) = money(text, comma.unwrap_or(false)) else { return false };
        match comma {
            Some(true) => self.commas.0 += 1,
            Some(false) => self.commas.1 += 1,
            None => {}
        }
        self.parentheses += u64::from(found.has_parentheses);
        count(&mut self.currencies, found.currency);
        true
    }

    fn add_amount(&mut self, text: &str) -> bool {
        amount(text).is_some_and(|(_, unit)| {
            count(&mut self.units, unit);
            self.written.add(text);
            true
        })
    }

    /// Returns the number of amounts with a unit.
    pub(super) fn amounts(&self) -> u64 {
        sum(&self.units)
    }

    /// Returns the number of numbers without a unit.
    pub(super) fn plain_numbers(&self) -> u64 {
        self.numbers + self.plain
    }

    /// Returns true if all values are objects, which have no order.
    pub(in crate::query) fn has_only_objects(&self) -> bool {
        self.objects > 0 && self.booleans == 0 && self.numbers == 0 && self.texts() == 0
    }

    /// Returns true if there are texts, and each of them has a form other than plain text.
    pub(in crate::query) fn is_uniform(&self) -> bool {
        self.others == 0 && self.texts() > 0
    }

    /// Returns true if a date determines the order of day and month.
    pub(in crate::query) fn shows_day_order(&self) -> bool {
        self.orders[0] + self.orders[1] > 0
    }

    /// Returns true if all samples are durations without hours, such as `00:04:12`.
    pub(in crate::query) fn has_no_hours(&self) -> bool {
        self.samples.iter().all(|sample| has_no_hours(sample))
    }

    /// Returns true if all samples are months without a day, such as `2024-05`.
    pub(in crate::query) fn has_months(&self) -> bool {
        self.samples.iter().all(|sample| date::is_month(sample.trim_matches('\'')))
    }

    /// Returns up to three quoted texts.
    pub(in crate::query) fn samples(&self) -> String {
        join_names(&self.samples, MAX_SAMPLES)
    }

    pub(super) fn texts(&self) -> u64 {
        let typed = self.versions + self.times + sum(&self.units) + sum(&self.currencies);
        self.plain + typed + self.others
    }

    /// Returns the scale that fits most values, and a note if another scale was possible. `name` is
    /// the name of the field.
    pub(in crate::query) fn scale(&self, name: &str) -> (Scale, Option<String>) {
        let (units, money) = (sum(&self.units), sum(&self.currencies));
        let texts = self.texts();
        let most = [self.times, money, units, self.versions].into_iter().max().unwrap_or(0);
        let numbers = (Scale::Number, None);
        let is_most = |count: u64| count == most && (count + self.plain) * 2 >= texts;
        if texts == 0 {
            return if self.numbers > 0 { numbers } else { (Scale::Text, None) };
        }
        if most == 0 {
            if self.plain * 2 < texts && self.numbers == 0 {
                let note = format!(
                    "values at {name}, such as {}, were compared as texts, not by the numbers in them",
                    self.samples()
                );
                return (Scale::Text, self.leading.is_uneven(texts).then_some(note));
            }
            return self.dotted_scale(name).unwrap_or(numbers);
        }
        let as_texts = |reason: String| {
            (Scale::Text, Some(format!("{reason} at {name} were compared as texts")))
        };
        // A number is no date. With numbers of JSON, it is no version either, unless most are.
        let is_majority = |count: u64| count * 2 >= texts + self.numbers;
        if is_most(self.times) && is_majority(self.times) {
            let has_zone = self.zones > 0;
            let order = match self.orders {
                [_, 0, 0] => DayOrder::DayFirst,
                [0, ..] if self.orders[1] > 0 => DayOrder::MonthFirst,
                [_, 0, _] if self.orders[0] > 0 => DayOrder::DayFirst,
                _ => {
                    return as_texts(format!(
                        "dates such as {}, in which day and month cannot be told apart,",
                        self.samples()
                    ));
                }
            };
            let local = self.times - self.zones;
            let note = (has_zone && local > 0).then(|| {
                format!("{local} of the times at {name} have no zone, and were taken as UTC")
            });
            return (Scale::Time { order, has_zone }, note);
        }
        if is_most(money) {
            let mut named = self.currencies.iter().filter(|(name, _)| !name.is_empty());
            let currency = named.next().map(|(name, _)| name.clone()).unwrap_or_default();
            if named.next().is_some() {
                return as_texts(format!(
                    "amounts of several currencies, such as {},",
                    self.samples()
                ));
            }
            if self.commas.0 > 0 && self.commas.1 > 0 {
                return as_texts(format!(
                    "numbers with commas and dots, such as {},",
                    self.samples()
                ));
            }
            // Beside words, a number in parentheses may be a mark.
            let has_parentheses = money + self.plain == texts;
            let has_comma = self.commas.0 > 0;
            return (Scale::Money { currency, has_comma, has_parentheses }, None);
        }
        if is_most(units) {
            let plain = (self.plain + self.numbers > 0).then_some("");
            let names = self.units.iter().map(|(name, _)| name.as_str()).chain(plain);
            return match Units::unify(names) {
                Some(units) => {
                    let is_several = self.written.names.len() > 1;
                    (Scale::Amount(units), self.bits_note(name, "").filter(|_| is_several))
                }
                None => {
                    as_texts(format!("amounts of different units, such as {},", self.samples()))
                }
            };
        }
        if is_most(self.versions) && (self.numbers == 0 || is_majority(self.versions)) {
            return (Scale::Version, None);
        }
        let plain = self.plain + self.numbers;
        if plain * 2 >= texts + self.numbers { numbers } else { (Scale::Text, None) }
    }

    /// Returns the scale for sums of amounts of money, with a note on those without a currency.
    /// `None` if most texts are not such amounts. `name` is the name of the field.
    pub(in crate::query) fn money_scale(&self, name: &str) -> Option<(Scale, Option<String>)> {
        let money = sum(&self.currencies);
        if money == 0 || (money + self.plain) * 2 < self.texts() {
            return None;
        }
        let bare = self.currencies.iter().filter(|(name, _)| name.is_empty());
        let bare = bare.map(|(_, count)| count).sum::<u64>() + self.plain + self.numbers;
        let is_mixed = bare > 0 && self.currencies.iter().any(|(name, _)| !name.is_empty());
        // Three digits after a dot may be thousands, as people write them in some countries.
        let dotted = self.samples.iter().find(|text| self.commas == (0, 0) && text.contains('.'));
        let note = match dotted {
            Some(text) => Some(format!("{text} at {name} was read with a dot before decimals")),
            None => is_mixed.then(|| {
                format!("values at {name} without a currency ({bare}) were added as they are")
            }),
        };
        let has_comma = match self.commas {
            (0, _) => Some(false),
            (_, 0) => Some(true),
            _ => None,
        };
        Some((Scale::Currencies(has_comma), note))
    }

    /// Returns the scale of texts such as `3.10`, with a note. `None` if they can only be numbers.
    fn dotted_scale(&self, name: &str) -> Option<(Scale, Option<String>)> {
        let is_named = words(name).iter().any(|word| VERSION_WORDS.contains(&word.as_str()));
        let is_uneven = self.dotted.is_uneven && self.dotted.most <= 2;
        if !is_uneven || (self.numbers > 0 && !is_named) {
            return None;
        }
        let read = |kind: &str, other: &str| {
            format!("{name} was compared as {kind}, not as {other}: it holds {}", self.samples())
        };
        if is_named {
            return Some((Scale::Version, Some(read("versions", "numbers"))));
        }
        Some((Scale::Number, Some(read("numbers", "versions"))))
    }

    /// Returns a note on values that do not fit the scale `scale`, and so come last or are left
    /// out.
    pub(in crate::query) fn off_scale_note(&self, scale: &Scale, field: &str) -> Option<String> {
        let numbers = self.numbers + self.plain;
        let on_scale = match scale {
            Scale::Number => numbers,
            Scale::Amount(_) => sum(&self.units) + numbers,
            Scale::Unit { .. } => sum(&self.units),
            Scale::Money { has_parentheses, .. } => {
                let marks = if *has_parentheses { 0 } else { self.parentheses };
                sum(&self.currencies) + numbers - marks
            }
            Scale::Currencies(_) => sum(&self.currencies) + numbers,
            Scale::Version => self.versions + numbers,
            Scale::Time { .. } | Scale::TimeOfDay(_) => self.times,
            Scale::Text => self.texts() - self.plain,
        };
        let all = self.numbers + self.texts() + self.booleans + self.objects;
        let (count, text) = match scale {
            Scale::Text if numbers == 0 || on_scale == 0 => (0, String::new()),
            Scale::Text => {
                let text = match numbers {
                    1 => format!("1 value at {field} is a number and comes before the texts"),
                    _ => {
                        format!("{numbers} values at {field} are numbers and come before the texts")
                    }
                };
                (numbers, text)
            }
            _ => {
                let count = all - on_scale;
                let kind = scale.name();
                let text = match count {
                    1 => format!("1 value at {field} is no {kind} and comes last"),
                    _ => format!("{count} values at {field} are no {kind}s and come last"),
                };
                (count, text)
            }
        };
        let several = format!(
            "records with several values at {field} ({}) are sorted by the first",
            self.several
        );
        match (count > 0, self.several > 0) {
            (true, true) => Some(format!("{text}; {several}")),
            (true, false) => Some(text),
            (false, true) => Some(several),
            (false, false) => None,
        }
    }
}

impl LeadingDigits {
    fn add(&mut self, text: &str) {
        let text = text.trim_start_matches(|c: char| !c.is_alphanumeric());
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 {
            self.count += 1;
            let (low, high) = self.range.unwrap_or((digits, digits));
            self.range = Some((low.min(digits), high.max(digits)));
        }
    }

    /// Returns true if most texts begin with numbers of different lengths, so that the texts do not
    /// sort by these numbers.
    fn is_uneven(&self, texts: u64) -> bool {
        self.count * 2 >= texts && self.range.is_some_and(|(low, high)| low < high)
    }
}

impl DottedNumbers {
    fn add(&mut self, text: &str) {
        let Some((_, decimals)) = text.split_once('.') else { return };
        let known = *self.decimals.get_or_insert(decimals.len());
        self.is_uneven |= known != decimals.len();
        self.most = self.most.max(decimals.len());
        self.ends_in_zero |= decimals.len() > 1 && decimals.ends_with('0');
    }
}

/// Returns true if a time has three parts and the first is zero.
pub(in crate::query) fn has_no_hours(time: &str) -> bool {
    let time = time.trim_matches(['\'', '"']);
    time.matches(':').count() == 2 && time.trim_start_matches('0').starts_with(':')
}

fn count(list: &mut Vec<(String, u64)>, name: String) {
    let known = list.iter().position(|(known, _)| *known == name);
    match known.or(list.len().checked_sub(1).filter(|last| last + 1 >= MAX_UNITS)) {
        Some(at) => list.iter_mut().skip(at).take(1).for_each(|(_, count)| *count += 1),
        None => list.push((name, 1)),
    }
}

fn sum(list: &[(String, u64)]) -> u64 {
    list.iter().map(|(_, count)| count).sum()
}

/// Returns the words of the last segment of a name, in lower case: `app` and `version` of
/// `meta.appVersion`.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for sign in name.rsplit('.').next().unwrap_or(name).chars() {
        if !sign.is_alphanumeric() || (was_lower && sign.is_uppercase()) {
            words.push(String::new());
        }
        was_lower = sign.is_lowercase();
        if let Some(word) = words.last_mut().filter(|_| sign.is_alphanumeric()) {
            word.extend(sign.to_lowercase());
        }
    }
    words
}
