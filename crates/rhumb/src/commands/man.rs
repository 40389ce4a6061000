//! `rhumb man`: manual pages, into a folder.

use std::fmt;
use std::path::Path;

use rhumb_daemon::cli::manual;
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::output::Form;
use serde::Serialize;

/// Runs the command.
pub(crate) fn run(folder: &Path, form: Form) -> Outcome {
    std::fs::create_dir_all(folder).map_err(|error| {
        Failure::setup_text(format!("{}: {error}; give another folder", folder.display()))
    })?;
    let pages = manual::pages();
    for page in &pages {
        let file = folder.join(&page.file);
        std::fs::write(&file, &page.text)
            .map_err(|error| Failure::operation_text(format!("{}: {error}", file.display())))?;
    }
    form.print(&Report { pages: pages.len(), folder });
    Ok(())
}

#[derive(Serialize)]
struct Report<'a> {
    pages: usize,
    folder: &'a Path,
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let folder = self.folder.display();
        write!(f, "{} pages in {folder}; read one: man -l {folder}/rhumb.1", self.pages)
    }
}
