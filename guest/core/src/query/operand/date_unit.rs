//! Units of differences of dates.

use crate::query::date::DateTime;

/// The unit of a difference of dates, and its treatment of incomplete units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::query) struct DateUnit {
    pub(super) name: &'static str,
    pub(super) seconds: i64,
    pub(super) rounding: Rounding,
}

/// The treatment of incomplete units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rounding {
    /// With the fraction of a unit.
    Exact,
    /// The number of complete units, toward zero, as `TIMESTAMPDIFF` counts.
    Complete,
    /// The number of units that begin between the dates, as `DATEDIFF` counts.
    Boundaries,
}

impl DateUnit {
    /// Days with their fraction.
    pub(super) const EXACT_DAYS: Self =
        Self { name: "days", seconds: 86_400, rounding: Rounding::Exact };

    /// Returns the number of seconds of a unit.
    #[allow(clippy::cast_precision_loss, reason = "seconds of a calendar unit")]
    pub(in crate::query) fn seconds(self) -> f64 {
        self.seconds as f64
    }

    /// Returns the difference from `earlier` to `later`.
    #[allow(clippy::cast_precision_loss, reason = "seconds of a calendar date")]
    pub(super) fn between(self, later: &DateTime, earlier: &DateTime) -> f64 {
        // Days have the dates that are written, also in different zones.
        let in_zone = self.rounding != Rounding::Boundaries || self.seconds < 86_400;
        let (to, more) = later.instant(in_zone);
        let (from, other) = earlier.instant(in_zone);
        let unit = self.seconds;
        if self.rounding == Rounding::Boundaries {
            return (to.div_euclid(unit) - from.div_euclid(unit)) as f64;
        }
        let exact = ((to - from) as f64 + (more - other) as f64 * 1e-9) / unit as f64;
        if self.rounding == Rounding::Complete { exact.trunc() } else { exact }
    }
}

impl std::fmt::Display for DateUnit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.rounding {
            Rounding::Complete => write!(f, "complete {}", self.name),
            Rounding::Boundaries if self.seconds < 86_400 => {
                write!(f, "{} that begin between the dates", self.name)
            }
            _ => write!(f, "{}", self.name),
        }
    }
}
