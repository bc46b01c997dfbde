//! Kafka's `DumpLogSegments` as a judge of log files: an oracle that nobody here wrote.
//!
//! The tool ends with status 0 on damage, and its sanity check of an index passes wrong entries, so
//! every `.log` is read with `--deep-iteration` and every index with `--verify-index-only`, and the
//! verdict is in what it prints.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Linux takes no single argument of 128 KiB; the list of files is one argument.
const FILE_LIST_BYTES: usize = 100_000;

/// What the judge said.
#[derive(Debug, Default)]
pub struct Verdict {
    /// The files it looked at.
    pub files: usize,
    /// By partition folder: the batches in its segments.
    pub batches: BTreeMap<String, usize>,
    /// By partition folder: the records in its segments.
    pub records: BTreeMap<String, usize>,
    /// By partition folder: the compression codecs of its batches, as the tool names them.
    pub codecs: BTreeMap<String, BTreeSet<String>>,
    /// Every line that says that something is wrong, after the file it is about.
    pub faults: Vec<String>,
}

/// Judges every segment and index in the partition folders of a data directory that no program is
/// using.
pub fn judge(data_dir: &Path) -> Verdict {
    let mut verdict = Verdict::default();
    verdict.run("--deep-iteration", &files(data_dir, &["log"]));
    verdict.run(
        "--verify-index-only",
        &files(data_dir, &["index", "timeindex"]),
    );
    verdict
}

/// The keys of committed offsets in a partition of the topic of groups, as the tool decodes them: how
/// often each is there.
pub fn committed_keys(data_dir: &Path, partition: &str) -> BTreeMap<String, usize> {
    let mut keys = BTreeMap::new();
    let folder = data_dir.join(partition);
    let files: Vec<String> = entries(&folder)
        .into_iter()
        .filter(|file| file.extension().is_some_and(|have| have == "log"))
        .map(|file| file.to_string_lossy().into_owned())
        .collect();
    let output = Command::new("java")
        .arg("-cp")
        .arg(jars().join("*"))
        .args([
            "org.apache.kafka.tools.DumpLogSegments",
            "--offsets-decoder",
            "--files",
            &files.join(","),
        ])
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("java is needed and cannot be run: {error}"));
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Some((_, rest)) = line.split_once(" key: ") else {
            continue;
        };
        let key = rest.split(" payload: ").next().unwrap_or_default();
        if key.contains("\"partition\"") {
            *keys.entry(key.to_owned()).or_default() += 1;
        }
    }
    keys
}

/// The folder with Kafka's jars, put there by `run`.
pub fn jars() -> PathBuf {
    let jars = crate::work_dir::target().join("kafka-jars");
    assert!(
        jars.is_dir(),
        "Kafka's jars are not in {}; tests/clients/run fetches them",
        jars.display()
    );
    jars
}

/// The files with these extensions in all folders whose name ends with a partition number.
fn files(data_dir: &Path, extensions: &[&str]) -> Vec<String> {
    let mut files = Vec::new();
    for folder in entries(data_dir) {
        let is_partition = folder.is_dir()
            && name_of(&folder)
                .rsplit_once('-')
                .is_some_and(|(_, number)| number.parse::<u32>().is_ok());
        if !is_partition {
            continue;
        }
        files.extend(
            entries(&folder)
                .into_iter()
                .filter(|file| {
                    file.extension()
                        .is_some_and(|have| extensions.iter().any(|want| have == *want))
                })
                .map(|file| file.to_string_lossy().into_owned()),
        );
    }
    files
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries =
        std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a folder can be listed").path())
        .collect();
    paths.sort();
    paths
}

fn name_of(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

impl Verdict {
    /// Whether the batches of a partition folder are compressed with `codec`. A client sends a batch as it is when
    /// compression does not make it smaller, so some may be plain; all of them would mean that it was turned off.
    pub fn is_compressed_with(&self, partition: &str, codec: &str) -> bool {
        self.codecs.get(partition).is_some_and(|codecs| {
            codecs.contains(codec) && codecs.iter().all(|other| other == codec || other == "none")
        })
    }

    /// One Java process for as many files as one command line takes.
    fn run(&mut self, mode: &str, files: &[String]) {
        let mut rest = files;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fitting = rest.iter().take_while(|file| {
                bytes += file.len() + 1;
                bytes <= FILE_LIST_BYTES
            });
            let (now, later) = rest.split_at(fitting.count().max(1));
            self.run_once(mode, now);
            rest = later;
        }
    }

    fn run_once(&mut self, mode: &str, files: &[String]) {
        let mut tool = Command::new("java")
            .arg("-cp")
            .arg(jars().join("*"))
            .args([
                "org.apache.kafka.tools.DumpLogSegments",
                mode,
                "--files",
                &files.join(","),
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("java is needed and cannot be run: {error}"));
        let errors = tool.stderr.take().expect("its errors are piped");
        // Read at the same time: the tool would wait for a full pipe.
        let errors = std::thread::spawn(move || {
            std::io::read_to_string(errors).expect("its errors are text")
        });
        let output = BufReader::new(tool.stdout.take().expect("its output is piped"));
        let mut file = String::new();
        let mut seen = BTreeSet::new();
        for line in output.lines() {
            let line = line.expect("its output is text");
            if let Some(path) = line.strip_prefix("Dumping ") {
                file = path.to_owned();
                seen.insert(file.clone());
            }
            self.read_line(&file, &line);
        }
        let status = tool
            .wait()
            .expect("a child of this process can be waited for");
        let errors = errors
            .join()
            .expect("the reader of its errors does not panic");
        // The gaps of all segments come at the end, under a heading for each.
        let mut heading = "";
        for line in errors.lines() {
            if line.starts_with("Non-consecutive offsets in ") {
                heading = line;
            } else if !is_usual_error_line(line) {
                self.faults.push(format!("{heading}: {line}"));
            }
        }
        if !status.success() {
            self.faults
                .push(format!("{file}: the tool ended with {status}"));
        }
        self.faults.extend(
            files
                .iter()
                .filter(|file| !seen.contains(*file))
                .map(|file| format!("{file}: not read")),
        );
        self.files += files.len();
    }

    fn read_line(&mut self, file: &str, line: &str) {
        let partition = || Path::new(file).parent().map(name_of).unwrap_or_default();
        if line.starts_with("| offset: ") {
            *self.records.entry(partition()).or_default() += 1;
        } else if line.starts_with("baseOffset: ") {
            *self.batches.entry(partition()).or_default() += 1;
            if let Some(codec) = word_after(line, "compresscodec:") {
                self.codecs
                    .entry(partition())
                    .or_default()
                    .insert(codec.to_owned());
            }
        }
        if is_fault(line) {
            self.faults.push(format!("{file}: {line}"));
        }
    }
}

fn word_after<'a>(line: &'a str, label: &str) -> Option<&'a str> {
    line.split_whitespace()
        .skip_while(|word| *word != label)
        .nth(1)
}

fn is_fault(line: &str) -> bool {
    const FAULTS: [&str; 5] = [
        "isvalid: false",
        "mismatch",
        "not found",
        "out of order",
        "invalid bytes",
    ];
    let lower = line.to_lowercase();
    FAULTS.iter().any(|fault| lower.contains(fault))
}

/// What the tool writes to its error output when all is well.
fn is_usual_error_line(line: &str) -> bool {
    // A log library without a back end says so at every start. And the tool starts to count at -1
    // in every segment, so it finds a gap at the head of all but the first.
    line.starts_with("SLF4J:") || line.trim_start().starts_with("-1 is followed by")
}

#[cfg(test)]
mod tests {
    use super::{is_fault, is_usual_error_line};

    #[test]
    fn lines_of_damage_are_told_from_lines_of_the_tool_itself() {
        assert!(is_fault(
            "baseOffset: 0 lastOffset: 9 count: 10 crc: 1 isvalid: false"
        ));
        assert!(is_fault(
            "Mismatches in :/data/a-0/00000000000000000000.index"
        ));
        assert!(is_fault(
            "Index timestamp: 5, log timestamp: 4 out of order"
        ));
        assert!(!is_usual_error_line("  17 is followed by 19"));
        assert!(is_usual_error_line("  -1 is followed by 40086"));
        assert!(!is_fault(
            "baseOffset: 0 lastOffset: 9 count: 10 crc: 1 isvalid: true"
        ));
    }
}
