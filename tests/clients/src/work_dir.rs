//! A folder for one test, under this package's `target`: gone after success, kept after failure.

use std::path::{Path, PathBuf};

/// The folder.
pub struct WorkDir {
    path: PathBuf,
}

impl WorkDir {
    /// A new, empty folder whose name starts with `name`.
    pub fn new(name: &str) -> Self {
        let path = target()
            .join("work")
            .join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path)
            .unwrap_or_else(|error| panic!("{} cannot be created: {error}", path.display()));
        Self { path }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path inside.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("files are kept in {}", self.path.display());
        } else if let Err(error) = std::fs::remove_dir_all(&self.path) {
            eprintln!("{} cannot be removed: {error}", self.path.display());
        }
    }
}

/// The `target` folder of this package.
pub fn target() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target")
}
