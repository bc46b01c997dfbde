//! The table as text: a line for each figure, with its ratios and whether its goal is reached.

use super::lines::Goal;
use super::{BARE, Found, KAFKA, ODRADEK};
use crate::bench::report::{name, number};

/// A figure of a line.
#[derive(Debug, PartialEq)]
pub(super) struct Entry<'a> {
    pub(super) title: &'a str,
    pub(super) key: &'static str,
    pub(super) metric: &'static str,
    pub(super) bare: Option<f64>,
    pub(super) odradek: Option<f64>,
    pub(super) kafka: Option<f64>,
    /// Odradek's figure over the bare loop's.
    pub(super) of_bare: Option<f64>,
    /// How many times better than Kafka.
    pub(super) times_kafka: Option<f64>,
    pub(super) goal: Goal,
    /// Whether the goal is reached; `None` without one, or if a figure is missing.
    pub(super) reached: Option<bool>,
}

/// All figures.
pub(super) fn entries(results: &[Found]) -> Vec<Entry<'_>> {
    let mut entries = Vec::new();
    for found in results {
        for metric in &found.metrics {
            let of = |system: &str| found.figures.get(system)?.median(metric.name);
            let (bare, odradek, kafka) = (of(BARE), of(ODRADEK), of(KAFKA));
            let of_bare = ratio(odradek, bare);
            let times_kafka = if is_better_low(metric.name) {
                ratio(kafka, odradek)
            } else {
                ratio(odradek, kafka)
            };
            let other_line = |key: &str| {
                let other = results.iter().find(|other| other.key == key)?;
                other.figures.get(ODRADEK)?.median(metric.name)
            };
            let reached = match metric.goal {
                Goal::None => None,
                Goal::ShareOfBare(share) => of_bare.map(|ratio| ratio >= share),
                Goal::TimesBare(times) => of_bare.map(|ratio| ratio <= times),
                Goal::AtMost(most) => odradek.map(|value| value <= most),
                Goal::ShareOfLine(key, share) => {
                    ratio(odradek, other_line(key)).map(|ratio| ratio >= share)
                }
            };
            entries.push(Entry {
                title: &found.title,
                key: found.key,
                metric: metric.name,
                bare,
                odradek,
                kafka,
                of_bare,
                times_kafka,
                goal: metric.goal,
                reached,
            });
        }
    }
    entries
}

/// The table, line by line.
pub(super) fn text(results: &[Found]) -> Vec<String> {
    let head = [
        "", "bare", "odradek", "kafka", "of bare", "x kafka", "goal", "",
    ];
    let mut lines = vec![row("", &head)];
    let mut title = "";
    for entry in entries(results) {
        if entry.title != title {
            title = entry.title;
            lines.push(title.to_owned());
        }
        let value = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), number);
        let cells = [
            String::new(),
            value(entry.bare),
            value(entry.odradek),
            value(entry.kafka),
            entry
                .of_bare
                .map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")),
            value(entry.times_kafka),
            goal(entry.goal),
            match entry.reached {
                Some(true) => "reached".to_owned(),
                Some(false) => "MISSED".to_owned(),
                None => String::new(),
            },
        ];
        lines.push(row(
            &format!("  {}", name(entry.metric)),
            &cells.each_ref().map(String::as_str),
        ));
    }
    lines
}

fn row(first: &str, cells: &[&str; 8]) -> String {
    let [_, bare, odradek, kafka, of_bare, times_kafka, goal, reached] = cells;
    format!(
        "{first:<16}{bare:>12}{odradek:>12}{kafka:>12}{of_bare:>9}{times_kafka:>9}  {goal:<28}{reached}"
    )
    .trim_end()
    .to_owned()
}

fn goal(goal: Goal) -> String {
    match goal {
        Goal::None => String::new(),
        Goal::ShareOfBare(share) => format!(">= {share:.2} of bare"),
        Goal::TimesBare(times) => format!("<= {times:.2} of bare"),
        Goal::AtMost(most) => format!("<= {}", number(most)),
        Goal::ShareOfLine(key, share) => format!(">= {share:.2} of {key}"),
    }
}

fn ratio(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    let (one, other) = (one?, other?);
    (other > 0.0).then(|| one / other)
}

fn is_better_low(metric: &str) -> bool {
    ["_us", "_ms", "_mb", "seconds", "kib_each"]
        .iter()
        .any(|end| metric.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::compare::lines::Metric;
    use crate::bench::figures::Figures;

    fn found(key: &'static str, metric: Metric, values: &[(&'static str, f64)]) -> Found {
        let figures = values.iter().map(|(system, value)| {
            let mut figures = Figures::default();
            figures.add(&vec![(metric.name, *value)]);
            (*system, figures)
        });
        Found {
            title: key.to_owned(),
            key,
            metrics: vec![metric],
            figures: figures.collect(),
        }
    }

    fn metric(name: &'static str, goal: Goal) -> Metric {
        Metric { name, goal }
    }

    #[test]
    fn rates_are_better_high_and_latencies_low() {
        let results = [
            found(
                "rate",
                metric("mb_per_s", Goal::ShareOfBare(0.9)),
                &[(BARE, 1000.0), (ODRADEK, 900.0), (KAFKA, 300.0)],
            ),
            found(
                "latency",
                metric("p99_us", Goal::TimesBare(1.2)),
                &[(BARE, 100.0), (ODRADEK, 130.0), (KAFKA, 1300.0)],
            ),
        ];
        let entries = entries(&results);
        assert_eq!(entries[0].of_bare, Some(0.9));
        assert_eq!(entries[0].times_kafka, Some(3.0));
        assert_eq!(entries[0].reached, Some(true));
        assert_eq!(entries[1].of_bare, Some(1.3));
        assert_eq!(entries[1].times_kafka, Some(10.0));
        assert_eq!(entries[1].reached, Some(false));
    }

    #[test]
    fn what_was_not_measured_is_neither_reached_nor_missed() {
        let results = [found(
            "rate",
            metric("mb_per_s", Goal::ShareOfBare(0.9)),
            &[(ODRADEK, 900.0)],
        )];
        let entry = &entries(&results)[0];
        assert_eq!((entry.of_bare, entry.reached), (None, None));
    }

    #[test]
    fn a_line_can_be_held_against_another_one() {
        let goal = Goal::ShareOfLine("one", 0.7);
        let results = [
            found(
                "one",
                metric("records_per_s", Goal::None),
                &[(ODRADEK, 100.0)],
            ),
            found("many", metric("records_per_s", goal), &[(ODRADEK, 69.0)]),
        ];
        assert_eq!(entries(&results)[1].reached, Some(false));
    }

    #[test]
    fn the_table_reads_like_one() {
        let results = [found(
            "produce",
            metric("mb_per_s", Goal::ShareOfBare(0.9)),
            &[(BARE, 1000.0), (ODRADEK, 950.0), (KAFKA, 190.0)],
        )];
        let text = text(&results).join("\n");
        assert_eq!(
            text,
            "                        bare     odradek       kafka  of bare  x kafka  goal
produce
  MB/s                  1000         950         190     0.95     5.00  >= 0.90 of bare             reached"
        );
    }
}
