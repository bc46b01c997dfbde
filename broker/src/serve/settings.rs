//! What the broker is started with: flags over `--set` over the properties file over defaults.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use odradek_core::input::Endpoint;
use odradek_core::metadata::config::{BrokerConfig, ConfigProblem};

use super::Args;
use super::listeners::{check_advertised, client_listener, parse_listeners, resolve};
use crate::address::parse_endpoint;
use crate::failure::Failure;
use crate::{files, properties};

const DEFAULT_DATA_DIR: &str = "odradek-data";
const DEFAULT_LISTEN: &str = "127.0.0.1:9092";
/// A properties file has some dozens of lines.
const CONFIG_LIMIT_BYTES: u64 = 1 << 20;

/// Everything that `serve` needs to know.
#[derive(Debug)]
pub(super) struct Settings {
    /// An absolute path.
    pub(super) data_dir: PathBuf,
    /// Where to listen.
    pub(super) listen: SocketAddr,
    /// For the core.
    pub(super) config: BrokerConfig,
    /// What was set and has no effect.
    pub(super) warnings: Vec<String>,
}

/// A property's value and where it was set, for messages.
#[derive(Clone, Debug)]
struct Value {
    text: String,
    origin: String,
}

/// Properties by their key.
type Values = BTreeMap<String, Value>;

impl Settings {
    /// Brings all sources together.
    pub(super) fn gather(args: &Args) -> Result<Self, Failure> {
        let mut values = Values::new();
        if let Some(path) = &args.config {
            read_file(path, &mut values)?;
        }
        for (key, text) in &args.set {
            let value = Value {
                text: text.clone(),
                origin: format!("--set {key}"),
            };
            values.insert(key.clone(), value);
        }
        let mut warnings = Vec::new();
        let listen = listen(args, &values, &mut warnings)?;
        let advertise = advertise(args, &values)?;
        let data_dir = data_dir(args, &values)?;

        let pairs = values
            .iter()
            .map(|(key, value)| (key.clone(), value.text.clone()));
        let (mut config, idle) =
            BrokerConfig::from_properties(pairs).map_err(|problem| refuse(&problem, &values))?;
        warnings.extend(idle.iter().map(ToString::to_string));
        // What clients are shown is what is in force.
        let mut show = |key: &str, value: String| config.properties.insert(key.to_owned(), value);
        show("log.dirs", data_dir.display().to_string());
        show("listeners", format!("PLAINTEXT://{listen}"));
        if let Some(advertise) = &advertise {
            show("advertised.listeners", format!("PLAINTEXT://{advertise}"));
        }
        config.durability = args.durability.into();
        config.advertise = advertise;
        Ok(Self {
            data_dir,
            listen: resolve(&listen)
                .map_err(|why| Failure::usage(format!("cannot listen: {why}")))?,
            config,
            warnings,
        })
    }
}

fn read_file(path: &Path, values: &mut Values) -> Result<(), Failure> {
    let place = path.display();
    let bytes = files::read_small(path, CONFIG_LIMIT_BYTES)
        .map_err(|error| Failure::usage(format!("--config {place}: {error}")))?;
    let text = String::from_utf8(bytes)
        .map_err(|_| Failure::usage(format!("--config {place}: it is not UTF-8")))?;
    let properties = properties::parse(&text)
        .map_err(|why| Failure::usage(format!("--config {place}: {why}")))?;
    for property in properties {
        let value = Value {
            text: property.value,
            origin: format!("{place}:{}", property.line),
        };
        values.insert(property.key, value);
    }
    Ok(())
}

/// An unknown key or a value that is none, with where it was set.
fn refuse(problem: &ConfigProblem, values: &Values) -> Failure {
    let name = match problem {
        ConfigProblem::Unknown { name, .. } | ConfigProblem::Invalid { name, .. } => name,
        // What a group may not say is said in a request.
        ConfigProblem::Group(_) => return Failure::usage(problem),
    };
    match values.get(name) {
        Some(value) => Failure::usage(format!("{}: {problem}", value.origin)),
        None => Failure::usage(problem),
    }
}

fn listen(args: &Args, values: &Values, warnings: &mut Vec<String>) -> Result<Endpoint, Failure> {
    if let Some(text) = &args.listen {
        return parse_endpoint(text).map_err(|why| Failure::usage(format!("--listen: {why}")));
    }
    let Some(value) = set(values, "listeners") else {
        return parse_endpoint(DEFAULT_LISTEN).map_err(Failure::usage);
    };
    let text = |key| set(values, key).map_or("", |value| value.text.as_str());
    let found = parse_listeners(&value.text).and_then(|listeners| {
        client_listener(
            listeners,
            text("controller.listener.names"),
            text("listener.security.protocol.map"),
        )
    });
    let (endpoint, unused) = found.map_err(|why| wrong(value, "listeners", &why))?;
    warnings.extend(unused.iter().map(|name| {
        format!("the listener {name} is for controllers, which Odradek does not need: not opened")
    }));
    Ok(endpoint)
}

fn advertise(args: &Args, values: &Values) -> Result<Option<Endpoint>, Failure> {
    if let Some(text) = &args.advertise {
        return parse_endpoint(text)
            .and_then(check_advertised)
            .map(Some)
            .map_err(|why| Failure::usage(format!("--advertise: {why}")));
    }
    let Some(value) = set(values, "advertised.listeners") else {
        return Ok(None);
    };
    let controllers = set(values, "controller.listener.names").map_or("", |value| &value.text);
    let protocols = set(values, "listener.security.protocol.map").map_or("", |value| &value.text);
    parse_listeners(&value.text)
        .and_then(|listeners| client_listener(listeners, controllers, protocols))
        .and_then(|(endpoint, _)| check_advertised(endpoint))
        .map(Some)
        .map_err(|why| wrong(value, "advertised.listeners", &why))
}

fn data_dir(args: &Args, values: &Values) -> Result<PathBuf, Failure> {
    let dir = match (
        &args.data_dir,
        set(values, "log.dirs").or(set(values, "log.dir")),
    ) {
        (Some(dir), _) => dir.clone(),
        (None, Some(value)) if value.text.contains(',') => {
            let why = "Odradek keeps its data in one directory: name one";
            return Err(wrong(value, "log.dirs", why));
        }
        (None, Some(value)) => PathBuf::from(value.text.trim()),
        (None, None) => PathBuf::from(DEFAULT_DATA_DIR),
    };
    std::path::absolute(&dir).map_err(|error| {
        Failure::failed(format!(
            "the data directory '{}' has no absolute path: {error}; name another",
            dir.display()
        ))
    })
}

fn wrong(value: &Value, key: &str, why: &str) -> Failure {
    Failure::usage(format!("{}: config '{key}': {why}", value.origin))
}

/// A property that is set to something.
fn set<'a>(values: &'a Values, key: &str) -> Option<&'a Value> {
    values
        .get(key)
        .filter(|value| !value.text.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::io::Write;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn gather(line: &[&str]) -> Result<Settings, String> {
        let args = Line::parse_from([&["serve"], line].concat()).args;
        Settings::gather(&args).map_err(|failure| match failure {
            Failure::Usage(message) => message,
            other => panic!("{other:?}"),
        })
    }

    fn file(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    #[test]
    fn flags_win_over_set_and_set_over_the_file() {
        let file =
            file("num.partitions=2\nlog.dirs=/from/file\nlisteners=PLAINTEXT://127.0.0.1:1\n");
        let path = file.path().to_str().unwrap();
        let from_file = gather(&["--config", path]).unwrap();
        assert_eq!(from_file.data_dir, Path::new("/from/file"));
        assert_eq!(from_file.listen.port(), 1);
        assert_eq!(from_file.config.num_partitions, 2);
        let set = gather(&["--config", path, "--set", "num.partitions=3"]).unwrap();
        assert_eq!(set.config.num_partitions, 3);
        let flags = [
            "--config",
            path,
            "--data-dir",
            "/flag",
            "--listen",
            "127.0.0.1:2",
        ];
        let flags = gather(&flags).unwrap();
        assert_eq!(flags.data_dir, Path::new("/flag"));
        assert_eq!(flags.listen.port(), 2);
        assert_eq!(flags.config.properties["log.dirs"], "/flag");
    }

    #[test]
    fn an_unknown_key_is_named_with_its_place_and_the_nearest() {
        let file = file("node.id=1\nnum.partition=2\n");
        let path = file.path().to_str().unwrap();
        let error = gather(&["--config", path]).unwrap_err();
        assert!(error.contains(&format!("{path}:2")), "{error}");
        assert!(error.contains("'num.partitions'"), "{error}");
        let error = gather(&["--set", "log.segment.byte=2097152"]).unwrap_err();
        assert!(error.contains("--set"), "{error}");
        assert!(error.contains("'log.segment.bytes'"), "{error}");
    }

    #[test]
    fn a_key_without_effect_is_a_warning() {
        let settings = gather(&["--set", "num.io.threads=4"]).unwrap();
        assert_eq!(settings.warnings.len(), 1);
        assert!(settings.warnings[0].contains("num.io.threads"));
    }

    #[test]
    fn several_directories_and_wildcard_advertisements_are_refused() {
        assert!(
            gather(&["--set", "log.dirs=/a,/b"])
                .unwrap_err()
                .contains("one directory")
        );
        assert!(
            gather(&["--advertise", "0.0.0.0:9092"])
                .unwrap_err()
                .contains("--advertise")
        );
    }
}
