//! What rounds found: values by metric, their median and their spread.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// What one round found, by metric; the unit is the last part of the name.
pub(super) type Sample = Vec<(&'static str, f64)>;

/// The values of all rounds, by metric, in the order of the rounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Figures(pub(super) BTreeMap<String, Vec<f64>>);

impl Figures {
    /// Adds a round.
    pub(super) fn add(&mut self, sample: &Sample) {
        for (metric, value) in sample {
            self.0.entry((*metric).to_owned()).or_default().push(*value);
        }
    }

    /// The median of a metric, if it was measured.
    pub(super) fn median(&self, metric: &str) -> Option<f64> {
        median(self.0.get(metric)?)
    }

    /// Least and greatest value of a metric.
    pub(super) fn spread(&self, metric: &str) -> Option<(f64, f64)> {
        let values = self.0.get(metric)?;
        let least = values.iter().copied().reduce(f64::min)?;
        let greatest = values.iter().copied().reduce(f64::max)?;
        Some((least, greatest))
    }
}

/// The middle value; of an even number the mean of the two in the middle.
pub(super) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = *sorted.get(sorted.len() / 2 - 1)?;
    Some((lower + upper) / 2.0)
}

/// Latencies in nanoseconds, to three digits, up to ten minutes.
pub(super) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 600_000_000_000, 3).expect("these bounds are valid")
}

/// Records a latency; one beyond the bounds counts as the largest.
pub(super) fn record(histogram: &mut Histogram<u64>, latency: std::time::Duration) {
    histogram.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
}

/// Percentiles of latencies, in microseconds.
pub(super) fn percentiles(histogram: &Histogram<u64>, sample: &mut Sample) {
    for (metric, quantile) in [
        ("p50_us", 0.5),
        ("p90_us", 0.9),
        ("p99_us", 0.99),
        ("p999_us", 0.999),
        ("max_us", 1.0),
    ] {
        let nanos = histogram.value_at_quantile(quantile);
        sample.push((metric, nanos as f64 / 1000.0));
    }
}

/// Adds the latencies of another thread.
pub(super) fn merge(into: &mut Histogram<u64>, other: &Histogram<u64>) -> Result<(), Failure> {
    into.add(other)
        .map_err(|error| Failure::failed(format!("cannot add latencies: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_whatever_the_order() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(&[7.0]), Some(7.0));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn one_bad_round_moves_the_spread_and_not_the_median() {
        let mut figures = Figures::default();
        for value in [100.0, 101.0, 3.0, 102.0, 99.0] {
            figures.add(&vec![("mb_per_s", value)]);
        }
        assert_eq!(figures.median("mb_per_s"), Some(100.0));
        assert_eq!(figures.spread("mb_per_s"), Some((3.0, 102.0)));
        assert_eq!(figures.median("p50_us"), None);
    }

    #[test]
    fn percentiles_are_in_microseconds() {
        let mut latencies = histogram();
        for micros in 1..=1000 {
            record(&mut latencies, std::time::Duration::from_micros(micros));
        }
        let mut sample = Sample::new();
        percentiles(&latencies, &mut sample);
        let value = |name| sample.iter().find(|(metric, _)| *metric == name).unwrap().1;
        assert!((value("p50_us") - 500.0).abs() < 2.0);
        assert!((value("p99_us") - 990.0).abs() < 2.0);
        assert!((value("max_us") - 1000.0).abs() < 2.0);
    }
}
