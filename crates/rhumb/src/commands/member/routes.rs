//! `rhumb member routes` and `rhumb member status`: what a
//! running proxy says, for people and for programs.

use std::fmt::{self, Write};
use std::path::{Path, PathBuf};

use rhumb_bgp::policy::prefix::address_of;
use rhumb_bgp::wire::Prefix;
use rhumb_daemon::config::ConfigFile;
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::output::Form;
use rhumb_daemon::status;
use serde::Serialize;
use serde_json::Value;

use super::control::{Request, ask};

/// Runs `rhumb member routes`.
pub(super) fn run(
    control: Option<&Path>,
    prefix: Option<Prefix>,
    file: &ConfigFile,
    form: Form,
) -> Outcome {
    let request = Request::Routes { prefix: prefix.map(prefix_text) };
    let routes = ask(&socket(control, file)?, &request)?;
    form.print(&Routes(routes));
    Ok(())
}

/// Runs `rhumb member status`.
pub(super) fn status(control: Option<&Path>, file: &ConfigFile, form: Form) -> Outcome {
    let told = ask(&socket(control, file)?, &Request::Status)?;
    status::show(told, form);
    Ok(())
}

fn socket(control: Option<&Path>, file: &ConfigFile) -> Outcome<PathBuf> {
    let socket = control.map(Path::to_owned).or_else(|| file.member_control());
    socket.ok_or_else(|| {
        Failure::setup_text(
            "no control socket; give --control FILE, or control = \"FILE\" in [member], where the proxy has it",
        )
    })
}

/// As everybody writes it.
pub(super) fn prefix_text(prefix: Prefix) -> String {
    format!("{}/{}", address_of(prefix), prefix.prefix_len())
}

/// What the proxy told.
#[derive(Serialize)]
#[serde(transparent)]
struct Routes(Value);

impl fmt::Display for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        let list = |key: &str| self.0[key].as_array().cloned().unwrap_or_default();
        let mut before = Value::Null;
        for route in list("routes") {
            if route["prefix"] != before {
                before = route["prefix"].clone();
                writeln!(text, "{}", word(&before))?;
            }
            let mark = if route["in_use"] == true { ">" } else { " " };
            writeln!(
                text,
                "{mark} from {}, path {}, {}: {}",
                word(&route["from"]),
                path(&route["path"]),
                word(&route["rpki"]),
                word(&route["why"]),
            )?;
        }
        for route in list("own") {
            writeln!(text, "{} (own), path {}", word(&route["prefix"]), path(&route["path"]))?;
            for version in route["versions"].as_array().into_iter().flatten() {
                let names: Vec<String> =
                    version.as_array().into_iter().flatten().map(word).collect();
                writeln!(text, "  to {}", names.join(", "))?;
            }
            if route["versions"].as_array().is_none_or(Vec::is_empty) {
                writeln!(text, "  to nobody")?;
            }
        }
        if text.is_empty() {
            text.push_str("no routes");
        }
        f.write_str(text.trim_end())
    }
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or("?").to_owned()
}

fn path(value: &Value) -> String {
    let numbers = value.as_array().into_iter().flatten().map(Value::to_string);
    let numbers: Vec<String> = numbers.collect();
    if numbers.is_empty() { "empty".to_owned() } else { numbers.join(" ") }
}
