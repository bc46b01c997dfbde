//! The simulator's disk beside the real one: what a broker asks of its files is asked of the virtual
//! disk too, which must come to the same.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use bytes::Bytes;
use odradek_core::effect::Effect;
use odradek_core::ids::{FilePath, OperationId};
use odradek_core::input::Completion;
use odradek_sim::choices::Choices;
use odradek_sim::disk::Disk;
use odradek_sim::disk::faults::{DiskFaults, DiskRates};
use odradek_sim::host::files::Files;

/// What the edge keeps in a data directory for itself.
const LOCK_FILE: &str = ".lock";

/// All there is below a directory, by path; a directory has no content.
pub(crate) type Tree = BTreeMap<String, Option<Bytes>>;

/// What is below a data directory, if there is one yet.
pub(crate) fn tree_of(data: &Path) -> Tree {
    let mut tree = Tree::new();
    if data.exists() {
        collect(data, &FilePath::root(), &mut tree);
    }
    tree
}

fn collect(directory: &Path, path: &FilePath, tree: &mut Tree) {
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let below = path.join(&name);
        if entry.file_type().unwrap().is_dir() {
            tree.insert(below.as_str().to_owned(), None);
            collect(&entry.path(), &below, tree);
        } else if name != LOCK_FILE {
            let content = fs::read(entry.path()).unwrap().into();
            tree.insert(below.as_str().to_owned(), Some(content));
        }
    }
}

/// A virtual disk that nothing fails on and that takes no time.
pub(crate) struct Mirror {
    disk: Disk,
    files: Files,
    faults: DiskFaults,
    choices: Choices,
    /// What came of reads and of file management, in words.
    results: BTreeMap<OperationId, String>,
}

impl Mirror {
    /// With what a directory held.
    pub(crate) fn with(tree: &Tree) -> Self {
        let mut disk = Disk::new();
        for (path, content) in tree {
            let path = path
                .split('/')
                .fold(FilePath::root(), |path, name| path.join(name));
            match content {
                None => disk.create_dir(&path).unwrap(),
                Some(content) => {
                    let inode = disk.create_file(&path).unwrap();
                    disk.write(inode, 0, content.clone()).unwrap();
                }
            }
        }
        Self {
            disk,
            files: Files::default(),
            faults: DiskFaults::new(DiskRates::default()),
            choices: Choices::new(0),
            results: BTreeMap::new(),
        }
    }

    /// Does at once what an effect asks of the files.
    pub(crate) fn carry_out(&mut self, effect: Effect) {
        let mut started = match effect {
            Effect::Open { file, path, length } => {
                self.files.open(file, &path, length, &self.disk);
                return;
            }
            Effect::Write {
                file,
                position,
                data,
            } => self.files.write(file, position, data),
            Effect::Flush { file } => self.files.flush(file),
            Effect::Manage { operation, op } => self.files.manage(operation, op),
            Effect::Read { operation, job } => self.files.read(operation, job),
            _ => return,
        };
        while let Some(next) = started.pop() {
            let faults = &self.faults;
            let outcome = self
                .files
                .execute(next.token, &mut self.disk, faults, &mut self.choices);
            started.extend(outcome.started);
            for report in outcome.reports {
                let completion = self.files.settle(report);
                self.results.extend(completion.as_ref().and_then(result_of));
            }
        }
    }

    /// Checks a completion of the real disk against what came of the same operation here.
    pub(crate) fn check(&mut self, completion: &Completion) -> Result<(), String> {
        let Some((operation, real)) = result_of(completion) else {
            return Ok(());
        };
        let virtually = self.results.remove(&operation);
        if virtually.as_ref() == Some(&real) {
            Ok(())
        } else {
            Err(format!(
                "{operation}: really {real}, virtually {virtually:?}"
            ))
        }
    }

    /// What is on it now, as reads see it.
    pub(crate) fn tree(&self) -> Tree {
        let mut tree = Tree::new();
        for path in self.disk.tree(&FilePath::root()) {
            if path != FilePath::root() {
                let content = self.disk.cached(&path).map(Bytes::copy_from_slice);
                tree.insert(path.as_str().to_owned(), content);
            }
        }
        tree
    }
}

/// What came of a read or of file management, in words.
fn result_of(completion: &Completion) -> Option<(OperationId, String)> {
    match completion {
        Completion::Managed { operation, result } => Some((*operation, format!("{result:?}"))),
        Completion::Read { operation, result } => Some((*operation, format!("{result:?}"))),
        _ => None,
    }
}
