//! Carriage files: a domain's word that a neighbour may carry for it, which its RIB shows to that
//! neighbour.

use std::fmt;
use std::path::{Path, PathBuf};

use rhumb_daemon::cli::CarryArguments;
use rhumb_daemon::clock;
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::key;
use rhumb_daemon::output::Form;
use rhumb_trust::{Carriage, DelegationError, Window};
use serde::Serialize;
use serde_json::json;

use super::{SECONDS_A_DAY, border, until};

pub(super) fn run(arguments: &CarryArguments, form: Form) -> Outcome {
    let domain = key::load_any(&arguments.key)?;
    let now = clock::now();
    let window = Window::starting(now.unix_s(), u64::from(arguments.days) * SECONDS_A_DAY);
    let up_to = arguments.within.then_some(arguments.neighbour);
    let carriage = Carriage::sign(&domain, arguments.neighbour, up_to, now.unix_ms, window)
        .map_err(|error| explain(&arguments.key, error))?;
    carriage.save(&arguments.out).map_err(|error| explain(&arguments.out, error))?;
    form.print(&Report { carriage, written_to: Some(arguments.out.clone()) });
    Ok(())
}

/// Whether a file is one of these, be it damaged.
pub(super) fn is_one(file: &Path) -> bool {
    !matches!(
        Carriage::load(file),
        Err(DelegationError::Malformed { line: 1 } | DelegationError::File { .. })
    )
}

pub(super) fn inspect(file: &Path, form: Form) -> Outcome {
    let carriage = Carriage::load(file).map_err(|error| explain(file, error))?;
    form.print(&Report { carriage, written_to: None });
    Ok(())
}

fn explain(path: &Path, error: DelegationError) -> Failure {
    let file = path.display();
    match error {
        DelegationError::Itself => {
            Failure::setup_text("a domain is not its own neighbour; give another with --by")
        }
        DelegationError::Malformed { line } => Failure::setup_text(format!(
            "{file}: line {line} is not that of a carriage file; get it from the domain once more"
        )),
        DelegationError::File { .. } | DelegationError::NoDomain => border::explain(path, error),
        error => Failure::setup_text(format!("{file}: {error}; get it from the domain once more")),
    }
}

struct Report {
    carriage: Carriage,
    /// Where it was written, if it was made now.
    written_to: Option<PathBuf>,
}

impl Serialize for Report {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (carriage, now_s) = (&self.carriage, clock::now().unix_s());
        let mut facts = json!({
            "domain": carriage.domain().to_string(),
            "neighbour": carriage.neighbour().to_string(),
            "up_to": carriage.up_to().map(|it| it.to_string()),
            "not_after_s": carriage.certificate().not_after_s,
            "holds": carriage.check(now_s).is_ok(),
        });
        if let Some(file) = &self.written_to {
            facts["file"] = json!(file);
        }
        facts.serialize(serializer)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (carriage, now_s) = (&self.carriage, clock::now().unix_s());
        let whom = match carriage.up_to() {
            None => "everybody".to_owned(),
            Some(domain) if domain == carriage.neighbour() => {
                "its own names and its customers'".to_owned()
            }
            Some(domain) => format!("those within {domain}"),
        };
        writeln!(f, "{} says:", carriage.domain())?;
        writeln!(f, "  my neighbour {} may carry for me", carriage.neighbour())?;
        writeln!(f, "  to and from {whom}")?;
        writeln!(f, "  {}", until(carriage.certificate(), now_s))?;
        match &self.written_to {
            Some(file) => write!(
                f,
                "written to {0}; give it to the domain's RIB: carriage = \"{0}\" in the \
                 [[rib.neighbour]] that is meant",
                file.display()
            ),
            None => write!(f, "signed by it"),
        }
    }
}
