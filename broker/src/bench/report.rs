//! What a bench prints and keeps.

use std::path::PathBuf;

use serde_json::json;

use super::environment::Environment;
use super::figures::Figures;
use super::load::{Load, RoundArgs, Target, measure};
use super::row::{self, Row};
use crate::failure::Failure;
use crate::output::{Output, OutputFormat};

/// Where figures go.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ReportArgs {
    /// What is printed.
    #[arg(long, value_enum, default_value_t)]
    output: OutputFormat,
    /// Add the figures to this file, as a line of JSON.
    #[arg(long, value_name = "FILE")]
    rows: Option<PathBuf>,
    /// What the broker is called in that line.
    #[arg(long, value_name = "NAME", default_value = "odradek")]
    system: String,
    /// When the broker acknowledges, for that line: nothing in its answers shows it.
    #[arg(long, value_name = "NAME", default_value = "unknown")]
    durability: String,
}

impl ReportArgs {
    /// Runs a load, reports it, and returns what was found.
    pub(super) fn run(
        &self,
        load: &dyn Load,
        target: &Target,
        rounds: RoundArgs,
    ) -> Result<Figures, Failure> {
        let environment = Environment::now();
        let figures = measure(load, target, rounds)?;
        let times = rounds.times();
        let row = Row::new(
            load,
            &self.system,
            &self.durability,
            times,
            figures.clone(),
            environment,
        );
        self.report(&load.title(), row)?;
        Ok(figures)
    }

    /// Prints a row and keeps it.
    pub(super) fn report(&self, title: &str, row: Row) -> Result<(), Failure> {
        let mut out = Output::stdout();
        match self.output {
            OutputFormat::Json => out.json(&with_summary(&row))?,
            OutputFormat::Text => {
                out.line(title)?;
                text(&mut out, &row.rounds)?;
            }
        }
        out.flush()?;
        match &self.rows {
            Some(path) => row::append(path, &[row]),
            None => Ok(()),
        }
    }
}

/// A row with medians.
pub(super) fn with_summary(row: &Row) -> serde_json::Value {
    let medians: serde_json::Map<_, _> = row
        .rounds
        .0
        .keys()
        .map(|metric| (metric.clone(), json!(row.rounds.median(metric))))
        .collect();
    let mut value = json!(row);
    if let Some(fields) = value.as_object_mut() {
        fields.insert("median".to_owned(), medians.into());
    }
    value
}

fn text(out: &mut Output, figures: &Figures) -> Result<(), Failure> {
    for (metric, rounds) in &figures.0 {
        let Some((least, greatest)) = figures.spread(metric) else {
            continue;
        };
        out.line(format!(
            "  {:<18} {:>12}   ({} to {}, {})",
            name(metric),
            number(figures.median(metric).unwrap_or_default()),
            number(least),
            number(greatest),
            crate::output::counted(rounds.len() as u64, "round", "rounds")
        ))?;
    }
    Ok(())
}

/// A metric with its unit, for people.
pub(super) fn name(metric: &str) -> String {
    match metric {
        "mb_per_s" => "MB/s".to_owned(),
        "records_per_s" => "records/s".to_owned(),
        "broker_cores" => "broker's cores".to_owned(),
        "p999_us" => "p99.9 us".to_owned(),
        "seconds" => "opened in s".to_owned(),
        "kib_each" => "KiB each".to_owned(),
        "heartbeat_cores" => "heartbeats' cores".to_owned(),
        "heartbeat_us" => "CPU us each".to_owned(),
        "rebalance_cpu_ms" => "rebalance CPU ms".to_owned(),
        "start_ms" => "start ms".to_owned(),
        "resident_mb" => "resident MB".to_owned(),
        other => other.replace('_', " "),
    }
}

/// A number with as many digits as mean something.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 10_000.0 => {
            let digits = format!("{value:.0}");
            let mut grouped = String::new();
            for (place, digit) in digits.chars().enumerate() {
                if place > 0 && (digits.len() - place).is_multiple_of(3) && digit != '-' {
                    grouped.push(',');
                }
                grouped.push(digit);
            }
            grouped
        }
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_mean_something() {
        let texts = [1_234_567.8, 10_000.0, 9_999.4, 123.4, 12.34, 1.234, 0.0].map(number);
        assert_eq!(
            texts,
            ["1,234,568", "10,000", "9999", "123", "12.3", "1.23", "0.00"]
        );
    }
}
