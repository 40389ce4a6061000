//! `rhumb`: secure routing by name. One binary: RIB, router, node tools and the demo.
//!
//! Standard output holds what a command reports, for people or (`--json`) for programs; standard
//! error holds log lines and, when a command fails, one line that says what and what to do. See
//! [`rhumb_daemon::failure`] for the exit codes.

#![forbid(unsafe_code)]

mod commands;

use std::io::IsTerminal;
use std::process::ExitCode;

use rhumb_daemon::cli::{
    CipherChoice, Command, CommandLine, RibArguments, RibCommand, TunArguments,
};
use rhumb_daemon::clock;
use rhumb_daemon::config::{ConfigFile, NodeSettings};
use rhumb_daemon::daemon;
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::network::running::Passed;
use rhumb_daemon::output::{Form, remark};
use rhumb_daemon::progress::Bar;
use tracing_subscriber::EnvFilter;

/// See decision 0103: a RIB spends up to a quarter less on look-ups, and a third less on what it
/// stores.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let line = CommandLine::read();
    clock::set_offset(line.clock_offset_s);
    let outcome = match (ConfigFile::find(line.config.as_deref()), &line.command) {
        // It says what is wrong with a file, and looks at the rest.
        (Err(failure), Command::Doctor(it)) => {
            commands::doctor::run(it, Err(failure), Form::from_flag(line.json))
        }
        (file, _) => file.and_then(|file| run(&line, file)),
    };
    match outcome {
        Ok(code) => code,
        Err(failure) => {
            remark(format_args!("rhumb: {failure}"));
            failure.exit_code()
        }
    }
}

fn run(line: &CommandLine, file: ConfigFile) -> Outcome<ExitCode> {
    let form = Form::from_flag(line.json);
    start_log(line.log.as_deref(), &file)?;
    let passed = settle(line, &file)?;
    let with_parent = line.with_parent;
    let node = |arguments| file.node(arguments);
    let outcome = match &line.command {
        Command::Demo(arguments) => {
            let domains = arguments.domains;
            let run = if domains { commands::demo::run_domains } else { commands::demo::run };
            run(arguments.file.as_deref(), with_parent, line.quiet, form)
        }
        Command::Rib(arguments) => rib(arguments, line, &file, form),
        Command::Network(it) => commands::network::run(it, &passed, with_parent, form),
        Command::Join(arguments) => commands::join::run(arguments, form),
        Command::Keygen(arguments) => commands::keygen::run(arguments, form),
        Command::Name(arguments) => commands::name::run(arguments, form),
        Command::Certify(arguments) => commands::certify::run(arguments, form),
        Command::Domain(arguments) => commands::domain::run(&arguments.command, &file, form),
        Command::Inspect(arguments) => commands::inspect::run(&arguments.file, form),
        Command::Router(it) => commands::router::run(&file.router(it)?, with_parent, form),
        Command::Send(arguments) => {
            let settings = file.node(&arguments.node)?;
            commands::send::run(arguments, &settings, with_parent, &Bar::new(line.quiet), form)
        }
        Command::Receive(arguments) => {
            let settings = file.receive(arguments)?;
            commands::receive::run(arguments, &settings, with_parent, line.quiet, form)
        }
        Command::Serve(it) => commands::serve::run(it, &node(&it.node)?, with_parent, form),
        Command::Forward(it) => commands::forward::run(it, &node(&it.node)?, with_parent, form),
        Command::Proxy(it) => commands::proxy::run(it, &node(&it.node)?, with_parent, form),
        Command::Up(it) => commands::up::start(it, &file, &passed, with_parent, form),
        Command::Tun(it) => tun(it, &node(&it.node)?, with_parent, form),
        Command::Group(group) => {
            let settings = file.node(group.command.node())?;
            commands::group::run(&group.command, &settings, with_parent, form)
        }
        Command::Ping(it) => commands::ping::run(it, &node(&it.node)?, with_parent, form),
        Command::Trace(it) => commands::trace::run(it, &node(&it.node)?, with_parent, form),
        Command::Keyserver(arguments) => {
            let settings = file.keyserver(arguments)?;
            commands::keyserver::run(&settings, arguments.check, with_parent, form)
        }
        Command::Capability(arguments) => {
            commands::capability::run(&arguments.command, &file, with_parent, form)
        }
        Command::Waypoint(it) => commands::waypoint::run(it, &file, with_parent, form),
        Command::Member(arguments) => commands::member::run(arguments, file, with_parent, form),
        Command::Exchange(it) => commands::exchange::run(it, &file, with_parent, form),
        Command::Status(it) => commands::status::run(it.admin.clone(), it.flows, &file, form),
        Command::Top(arguments) => commands::top::run(arguments, &file, form),
        Command::Dashboard(it) => {
            commands::dashboard::run(it, (&file, line.config.as_deref()), with_parent, form)
        }
        Command::Doctor(it) => return commands::doctor::run(it, Ok(file), form),
        Command::Why(arguments) => commands::why::run(arguments, &file, form),
        Command::Completions(arguments) => commands::completions::run(arguments.shell),
        Command::Man(arguments) => commands::man::run(&arguments.dir, form),
        #[cfg(target_os = "linux")]
        Command::Stamp(arguments) => {
            return commands::stamp::run(arguments, &file, with_parent, form);
        }
        #[cfg(not(target_os = "linux"))]
        Command::Stamp(_) => Err(Failure::setup_text("stamping needs Linux")),
    };
    outcome.map(|()| ExitCode::SUCCESS)
}

fn rib(arguments: &RibArguments, line: &CommandLine, file: &ConfigFile, form: Form) -> Outcome {
    match &arguments.command {
        Some(RibCommand::Stats { admin, seconds }) => {
            commands::rib::stats(admin.clone(), *seconds, file, form)
        }
        Some(RibCommand::List { begins, after, limit, admin }) => {
            let page = (begins.as_deref(), *after, usize::from(*limit));
            commands::rib::list(page, admin.clone(), file, form)
        }
        Some(RibCommand::Backup { file: to, admin }) => {
            commands::rib::back_up(to, admin.clone(), file, &Bar::new(line.quiet), form)
        }
        None => commands::rib::run(&mut file.rib(arguments)?, line.with_parent, form),
    }
}

#[cfg(target_os = "linux")]
fn tun(
    arguments: &TunArguments,
    settings: &NodeSettings,
    with_parent: bool,
    form: Form,
) -> Outcome {
    commands::tun::run(arguments, settings, with_parent, form)
}

#[cfg(not(target_os = "linux"))]
fn tun(_: &TunArguments, _: &NodeSettings, _: bool, _: Form) -> Outcome {
    Err(Failure::setup_text("TUN devices need Linux"))
}

/// Log lines go to standard error. The option is asked first,
/// then `RUST_LOG`, then the configuration file.
fn start_log(option: Option<&str>, file: &ConfigFile) -> Outcome {
    let variable = std::env::var(EnvFilter::DEFAULT_ENV).ok();
    let filter = option.or(variable.as_deref()).or(file.log()).unwrap_or(DEFAULT_LOG);
    // What the driver of CQL says of nodes is said by the RIB, in its own words.
    let all =
        if filter.contains(DRIVER) { filter.to_owned() } else { format!("{filter},{DRIVER}=off") };
    let parsed = EnvFilter::try_new(all).map_err(|error| {
        Failure::setup_text(format!("log filter `{filter}`: {error}; try `info`"))
    })?;
    tracing_subscriber::fmt()
        .with_env_filter(parsed)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        // Where nobody reads standard error any more, lines are lost, and no thread with them.
        .log_internal_errors(false)
        .init();
    Ok(())
}

/// What holds for the process, whatever it does, and of that what holds for those that it starts.
fn settle<'a>(line: &'a CommandLine, file: &ConfigFile) -> Outcome<Passed<'a>> {
    if let Some(settings) = file.telemetry(line.otlp.as_ref())? {
        daemon::name_collector(settings);
    }
    let cipher = line.cipher.map_or_else(|| file.cipher(), |it| Ok(Some(it)))?;
    cipher.map_or(Ok(()), use_cipher)?;
    tracing::debug!(by = ?rhumb_link::cipher_backend(), "AES-GCM is computed");
    let clock_offset_s = line.clock_offset_s;
    let (config, log, otlp) = (line.config.as_deref(), line.log.as_deref(), line.otlp.as_ref());
    Ok(Passed { config, log, cipher, otlp, clock_offset_s })
}

/// Says whose AES-GCM the process computes by, before any key is made.
fn use_cipher(choice: CipherChoice) -> Outcome {
    use rhumb_link::{Backend, CipherChoice as Choice};
    let asked = match choice {
        CipherChoice::Fastest => Choice::Fastest,
        CipherChoice::Library => Choice::Library,
        CipherChoice::Own => Choice::Own,
    };
    if asked == Choice::Own && Backend::of(asked) == Backend::Library {
        return Err(Failure::setup_text(
            "cipher: own needs a processor with AES-NI and PCLMULQDQ, or Armv8's AES and PMULL; \
             give --cipher fastest",
        ));
    }
    rhumb_link::use_cipher(asked);
    Ok(())
}

/// Quiet unless something is wrong: the ready line and `status` tell the rest.
const DEFAULT_LOG: &str = "warn";
/// The driver of CQL, as a target of log lines.
const DRIVER: &str = "scylla";
