//! `rhumb capability master`, `signer` and `mint`: what an operator makes.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rhumb_capability::{Epoch, Master};
use rhumb_daemon::cli::{MasterArguments, MintArguments, SignerArguments};
use rhumb_daemon::config::ConfigFile;
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::key::fresh_secret;
use rhumb_daemon::output::Form;
use rhumb_daemon::secret_file;
use rhumb_keyserver::principal::{
    KnownWaypoint, PRINCIPALS_HEAD, PrincipalFile, master_text, parse_master_head,
    parse_principals, principal_line,
};
use rhumb_keyserver::record::SharedKey;
use rhumb_keyserver::tsig::{FRESH_SECRET_LEN, TsigKey};
use serde_json::json;
use zeroize::Zeroizing;

use super::Report;

/// Makes a waypoint's master key.
pub(super) fn master(arguments: &MasterArguments, form: Form) -> Outcome {
    let waypoint = arguments.waypoint;
    let epoch = match &arguments.after {
        None => Epoch(1),
        Some(path) => {
            let text = secret_file::read(path, "rhumb capability master ADDR")?;
            let (of, epoch) = parse_master_head(&text).map_err(|fault| {
                Failure::setup_text(format!("file {}: {fault}", path.display()))
            })?;
            if of != waypoint {
                return Err(Failure::setup_text(format!(
                    "{} is the master of {of}, not of {waypoint}",
                    path.display()
                )));
            }
            Epoch(epoch.0.wrapping_add(1))
        }
    };
    let out = arguments.out.clone().unwrap_or_else(|| PathBuf::from(format!("{waypoint}.master")));
    let secret = Zeroizing::new(fresh_secret()?);
    let key = *secret.first_chunk().expect("invariant: a secret is longer than a key");
    secret_file::create(&out, &master_text(waypoint, epoch, &Master::new(key)))?;
    form.print(&Report {
        text: format!("master of {waypoint}, epoch {}\nkey written to {}", epoch.0, out.display()),
        object: json!({"waypoint": waypoint, "epoch": epoch.0, "file": out}),
    });
    Ok(())
}

/// Makes a key that signs DNS messages.
pub(super) fn signer(arguments: &SignerArguments, form: Form) -> Outcome {
    let secret: Zeroizing<[u8; FRESH_SECRET_LEN]> = Zeroizing::new(fresh_secret()?);
    let key = TsigKey::new(&arguments.name, &*secret).map_err(|error| {
        Failure::setup_text(format!("`{}` cannot name a key: {error}", arguments.name))
    })?;
    let name = key.name().to_string();
    let out = arguments.out.clone().unwrap_or_else(|| PathBuf::from(format!("{name}.tsig")));
    secret_file::create(&out, &key.to_text())?;
    form.print(&Report {
        text: format!("signer {name}\nkey written to {}", out.display()),
        object: json!({"name": name, "file": out}),
    });
    Ok(())
}

/// Makes a principal.
pub(super) fn principal(arguments: &MintArguments, file: &ConfigFile, form: Form) -> Outcome {
    let number = arguments.principal;
    let zone = file.zone()?;
    let configured = file.waypoints()?;
    let mut waypoints: Vec<KnownWaypoint> =
        configured.iter().map(|waypoint| waypoint.known).collect();
    if let Some(unknown) = arguments
        .waypoint
        .iter()
        .find(|wanted| waypoints.iter().all(|known| known.address != **wanted))
    {
        return Err(Failure::setup_text(format!(
            "waypoint {unknown} is not in the configuration file; add [[keyserver.waypoint]]"
        )));
    }
    if !arguments.waypoint.is_empty() {
        waypoints.retain(|known| arguments.waypoint.contains(&known.address));
    }
    let addresses: Vec<_> = waypoints.iter().map(|known| known.address).collect();
    let secret = Zeroizing::new(fresh_secret()?);
    let line = principal_line(number, &SharedKey::new(*secret));
    let made = PrincipalFile::new(number, zone, SharedKey::new(*secret), waypoints);
    let made = made.ok_or_else(|| {
        Failure::setup_text(format!("zone `{zone}` or the waypoints cannot be used; see --check"))
    })?;
    let out = arguments.out.clone().unwrap_or_else(|| PathBuf::from(format!("{number}.principal")));
    if out.exists() {
        return Err(Failure::setup_text(format!(
            "file {} exists and is never overwritten; give another with --out",
            out.display()
        )));
    }
    let book = file.principals_book()?;
    let is_new = append_to_book(&book, number.0, &line)?;
    secret_file::create(&out, &made.to_text())?;
    let book_text = book.display();
    let restart = if is_new { " (a new book)" } else { "" };
    form.print(&Report {
        text: format!(
            "principal {number} of {zone}\nfile for it: {} (hand it over in secret)\nin the book: \
             {book_text}{restart}",
            out.display()
        ),
        object: json!({
            "principal": number.0,
            "zone": made.zone().text(),
            "waypoints": addresses,
            "file": out,
            "book": book,
        }),
    });
    Ok(())
}

/// Adds a line to the operator's book, which is replaced as a whole: a key server that reads it
/// meanwhile sees the old or the new one. Returns whether there was none before.
fn append_to_book(book: &Path, number: u32, line: &str) -> Outcome<bool> {
    let shown = book.display();
    let failed = |error: io::Error| Failure::operation_text(format!("book {shown}: {error}"));
    let lock_path = with_suffix(book, ".lock");
    // Two mints at once must not lose each other's line.
    let lock = open_private(&lock_path).map_err(failed)?;
    lock.lock().map_err(failed)?;
    let is_new = !book.exists();
    let mut text = if is_new {
        Zeroizing::new(format!("{PRINCIPALS_HEAD}\n"))
    } else {
        secret_file::read(book, "rhumb capability mint NUMBER")?
    };
    let known = parse_principals(&text)
        .map_err(|fault| Failure::setup_text(format!("book {shown}: {fault}")))?;
    if known.contains_key(&rhumb_capability::Principal(number)) {
        return Err(Failure::setup_text(format!(
            "principal {number} is in {shown} already; take another number, or delete its line to \
             give it a new key"
        )));
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(line);
    let new_path = with_suffix(book, ".new");
    let mut new = open_private(&new_path).map_err(failed)?;
    new.set_len(0).and_then(|()| new.write_all(text.as_bytes())).map_err(failed)?;
    new.sync_all().map_err(failed)?;
    std::fs::rename(&new_path, book).map_err(failed)?;
    let folder = book.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))
        .and_then(|folder| folder.sync_all())
        .map_err(failed)?;
    Ok(is_new)
}

fn open_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
