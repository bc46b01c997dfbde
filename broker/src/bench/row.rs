//! How a figure is kept: one line of JSON, with all that is needed to judge it and to find it
//! again.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::environment::Environment;
use super::figures::Figures;
use super::load::{Load, Times};
use crate::failure::Failure;

/// Format of a row; goes up when an old reader would misread it.
const VERSION: u32 = 1;

/// What one load found on one system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Row {
    version: u32,
    /// Such as `produce`.
    pub(super) bench: String,
    /// Such as `odradek`, `bare` or `kafka`.
    pub(super) system: String,
    /// When a record counted as acknowledged: `fsync` or `os`.
    pub(super) durability: String,
    /// What was loaded with.
    pub(super) parameters: Map<String, Value>,
    /// Length of a round and of its warm-up, in seconds.
    pub(super) seconds: f64,
    pub(super) warm_up: f64,
    /// Every round's value, by metric.
    pub(super) rounds: Figures,
    /// Under which conditions.
    #[serde(flatten)]
    pub(super) environment: Environment,
}

impl Row {
    /// What a load found.
    pub(super) fn new(
        load: &dyn Load,
        system: &str,
        durability: &str,
        times: Times,
        rounds: Figures,
        environment: Environment,
    ) -> Self {
        let of = (load.bench(), load.parameters());
        Self::of(of, system, durability, times, rounds, environment)
    }

    /// What something found that is not a load.
    pub(super) fn of(
        (bench, parameters): (&str, Map<String, Value>),
        system: &str,
        durability: &str,
        times: Times,
        rounds: Figures,
        environment: Environment,
    ) -> Self {
        Self {
            version: VERSION,
            bench: bench.to_owned(),
            system: system.to_owned(),
            durability: durability.to_owned(),
            parameters,
            seconds: times.measure.as_secs_f64(),
            warm_up: times.warm_up.as_secs_f64(),
            rounds,
            environment,
        }
    }

    /// A number among the parameters.
    pub(super) fn parameter(&self, name: &str) -> Option<f64> {
        self.parameters.get(name)?.as_f64()
    }

    /// Whether another row is about the same thing, measured another time.
    pub(super) fn is_about_the_same(&self, other: &Self) -> bool {
        self.bench == other.bench
            && self.system == other.system
            && self.durability == other.durability
            && self.parameters == other.parameters
    }
}

/// Adds rows to a file.
pub(super) fn append(path: &Path, rows: &[Row]) -> Result<(), Failure> {
    let mut text = String::new();
    for row in rows {
        let line = serde_json::to_string(row)
            .map_err(|error| Failure::failed(format!("cannot write a row: {error}")))?;
        text.push_str(&line);
        text.push('\n');
    }
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())))
}

/// Reads all rows of a file.
pub(super) fn read_all(path: &Path) -> Result<Vec<Row>, Failure> {
    let failed = |why: String| Failure::failed(format!("cannot read {}: {why}", path.display()));
    let file = File::open(path).map_err(|error| failed(error.to_string()))?;
    let mut rows = Vec::new();
    for (line, number) in BufReader::new(file).lines().zip(1..) {
        let line = line.map_err(|error| failed(error.to_string()))?;
        if line.trim().is_empty() {
            continue;
        }
        let row: Row = serde_json::from_str(&line)
            .map_err(|error| failed(format!("line {number} is no row: {error}")))?;
        if row.version != VERSION {
            return Err(failed(format!(
                "line {number} is of version {}, known is {VERSION}",
                row.version
            )));
        }
        rows.push(row);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::load::parameters;
    use std::time::Duration;

    fn row(system: &str, records: u32) -> Row {
        let mut figures = Figures::default();
        figures.add(&vec![("mb_per_s", 1000.5), ("p50_us", 40.0)]);
        figures.add(&vec![("mb_per_s", 1001.5), ("p50_us", 41.0)]);
        let times = Times {
            warm_up: Duration::from_millis(500),
            measure: Duration::from_secs(2),
        };
        let environment = Environment {
            time: 1_800_000_000,
            machine: "a processor, 2 cores, 24 GiB".to_owned(),
            kernel: "Linux 6.18.0".to_owned(),
            commit: "0123456789ab".to_owned(),
            load_average: 0.25,
            command: "odradek bench produce".to_owned(),
        };
        let of = ("produce", parameters([("records", records.into())]));
        Row::of(of, system, "os", times, figures, environment)
    }

    #[test]
    fn a_row_is_one_line_that_holds_everything() {
        let line = serde_json::to_string(&row("odradek", 1000)).unwrap();
        assert_eq!(
            line,
            r#"{"version":1,"bench":"produce","system":"odradek","durability":"os","parameters":{"records":1000},"seconds":2.0,"warm_up":0.5,"rounds":{"mb_per_s":[1000.5,1001.5],"p50_us":[40.0,41.0]},"time":1800000000,"machine":"a processor, 2 cores, 24 GiB","kernel":"Linux 6.18.0","commit":"0123456789ab","load_average":0.25,"command":"odradek bench produce"}"#
        );
    }

    #[test]
    fn rows_come_back_as_they_were_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.jsonl");
        append(&path, &[row("odradek", 10)]).unwrap();
        append(&path, &[row("kafka", 10), row("kafka", 20)]).unwrap();
        let rows = read_all(&path).unwrap();
        assert_eq!(
            rows,
            [row("odradek", 10), row("kafka", 10), row("kafka", 20)]
        );
        assert!(rows[1].is_about_the_same(&row("kafka", 10)));
        assert!(!rows[1].is_about_the_same(&rows[2]));
        assert!(!rows[1].is_about_the_same(&rows[0]));
    }

    #[test]
    fn a_row_of_another_version_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.jsonl");
        let line = serde_json::to_string(&row("odradek", 10)).unwrap();
        std::fs::write(&path, line.replace("\"version\":1", "\"version\":2")).unwrap();
        assert!(read_all(&path).is_err());
    }
}
