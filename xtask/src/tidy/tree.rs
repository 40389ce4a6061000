//! The files of the project, read once. Paths are relative to the root and written with `/`.

use std::collections::BTreeMap;
use std::path::Path;

#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// The text, or `None` where a file is not text.
    files: BTreeMap<String, Option<String>>,
}

impl Tree {
    /// Reads everything below `root` except version control and build output.
    ///
    /// # Errors
    /// When a folder or file cannot be read.
    pub(crate) fn load(root: &Path) -> Result<Self, String> {
        let mut tree = Self::default();
        tree.load_folder(root, "")?;
        Ok(tree)
    }

    fn load_folder(&mut self, folder: &Path, prefix: &str) -> Result<(), String> {
        let describe = |error: std::io::Error| format!("{}: {error}", folder.display());
        for entry in std::fs::read_dir(folder).map_err(describe)? {
            let entry = entry.map_err(describe)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            let kind = entry.file_type().map_err(describe)?;
            if kind.is_dir() {
                if !is_left_out(&name, &entry.path()) {
                    self.load_folder(&entry.path(), &format!("{path}/"))?;
                }
            } else if kind.is_file() && name != ".git" {
                // In a work tree of git's, `.git` is a file that says where the repository is.
                let bytes = std::fs::read(entry.path()).map_err(describe)?;
                self.files.insert(path, String::from_utf8(bytes).ok());
            }
        }
        Ok(())
    }

    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let files = files.iter();
        Self { files: files.map(|(path, text)| ((*path).into(), Some((*text).into()))).collect() }
    }

    /// Path and text of every text file.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)))
    }

    /// Path and text of every Rust source file.
    pub(crate) fn rust_files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts().filter(|(path, _)| path.ends_with(".rs"))
    }

    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.as_deref()
    }

    /// Whether there is a file or folder of this path; the root's is empty.
    pub(crate) fn has(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        path.is_empty()
            || self.files.contains_key(path)
            || self
                .files
                .range(folder.clone()..)
                .next()
                .is_some_and(|(p, _)| p.starts_with(&folder))
    }

    /// The folders of the crates: `crates/*`.
    pub(crate) fn crate_folders(&self) -> Vec<String> {
        let names = self.files.keys().filter_map(|path| {
            let (name, _) = path.strip_prefix("crates/")?.split_once('/')?;
            Some(format!("crates/{name}"))
        });
        let mut folders: Vec<String> = names.collect();
        folders.dedup();
        folders
    }
}

fn is_left_out(name: &str, folder: &Path) -> bool {
    // Cargo marks its output with CACHEDIR.TAG, whatever the folder is called.
    name == ".git" || name == "target" || folder.join("CACHEDIR.TAG").exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_folders_and_crates_are_found() {
        let tree = Tree::of(&[
            ("README.md", ""),
            ("crates/a/src/lib.rs", ""),
            ("crates/a/Cargo.toml", ""),
            ("crates/b-c/Cargo.toml", ""),
        ]);
        assert!(tree.has("") && tree.has("README.md") && tree.has("crates/a/src"));
        assert!(!tree.has("crates/b") && !tree.has("READ"));
        assert_eq!(tree.crate_folders(), ["crates/a", "crates/b-c"]);
        assert_eq!(tree.rust_files().count(), 1);
    }

    #[test]
    fn build_output_is_left_out() {
        let folder = std::env::temp_dir().join(format!("rhumb-tidy-tree-{}", std::process::id()));
        let files =
            ["src/a.rs", "target/b.rs", "built/CACHEDIR.TAG", "built/c.rs", ".git/d", "tree/.git"];
        for path in files {
            let path = folder.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let tree = Tree::load(&folder);
        std::fs::remove_dir_all(&folder).unwrap();
        let paths: Vec<String> = tree.unwrap().texts().map(|(path, _)| path.to_owned()).collect();
        assert_eq!(paths, ["src/a.rs"]);
    }
}
