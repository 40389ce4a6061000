//! The admin endpoint on a Unix socket: its own user and root may ask, nobody else, and `rhumb
//! status` finds it by itself; one for readers tells a group how the daemon is, and nothing else.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::process::Command;

use crate::harness::{Place, Run, Running, remote};

/// A folder for sockets that the test has to itself.
fn with_runtime(place: &Place) -> impl Fn(&mut Command) + use<> {
    let folder = place.path("run");
    std::fs::create_dir_all(&folder).unwrap();
    move |command: &mut Command| {
        command.env("XDG_RUNTIME_DIR", &folder);
    }
}

fn start_rib(place: &Place, admin: &[&str]) -> Running {
    let mut arguments = vec!["rib", "--listen", "127.0.0.1:0", "--key", "rib.key", "--admin"];
    arguments.extend(admin);
    place.start_with(&arguments, with_runtime(place))
}

fn status(place: &Place, arguments: &[&str]) -> Run {
    let mut command = place.command(&["status"]);
    with_runtime(place)(&mut command);
    Run::of(command.args(arguments).output().unwrap())
}

fn mode(path: &std::path::Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn admin_alone_makes_a_socket_that_status_finds() {
    let place = Place::new();
    place.keygen("rib", "rib.key");
    let mut rib = start_rib(&place, &[]);
    let ready = rib.next_object();
    let socket = std::path::PathBuf::from(ready["admin"].as_str().unwrap());
    assert!(socket.starts_with(place.path("run/rhumb")), "{ready}");
    assert!(std::fs::symlink_metadata(&socket).unwrap().file_type().is_socket());
    assert_eq!((mode(&socket), mode(&place.path("run/rhumb"))), (0o600, 0o700));
    let shown = status(&place, &[]);
    assert!(shown.output.starts_with("rib "), "{}{}", shown.output, shown.errors);
    // Of two, one has to be named.
    place.keygen("router", "router.key");
    let to_rib = remote(&ready);
    let arguments =
        ["router", "--listen", "127.0.0.1:0", "--key", "router.key", "--rib", &to_rib, "--admin"];
    let mut router = place.start_with(&arguments, with_runtime(&place));
    let router_socket = router.next_object()["admin"].as_str().unwrap().to_owned();
    status(&place, &[]).is_refused_with(&["several daemons", &router_socket]);
    let shown = status(&place, &["--admin", &router_socket]);
    assert!(shown.output.starts_with("router "), "{}", shown.errors);
    // What ends takes its socket away; what is killed leaves it, and nobody minds.
    assert_eq!(router.end().0, 0);
    assert!(!std::path::Path::new(&router_socket).exists());
    assert!(status(&place, &[]).output.starts_with("rib "));
    rib.kill();
    status(&place, &[]).is_refused_with(&["no daemon of this user"]);
    let mut rib = start_rib(&place, &[]);
    assert_eq!(rib.next_object()["admin"], ready["admin"]);
    assert!(status(&place, &[]).output.starts_with("rib "));
}

#[test]
fn a_path_that_is_taken_is_left_alone() {
    let place = Place::new();
    place.keygen("rib", "rib.key");
    place.write("file", "mine");
    let (code, errors) = start_rib(&place, &["./file"]).end_by_itself();
    assert!(code == 2 && errors.contains("admin socket") && errors.contains("file"), "{errors}");
    assert_eq!(std::fs::read_to_string(place.path("file")).unwrap(), "mine");
    let _other = UnixListener::bind(place.path("socket")).unwrap();
    let (code, errors) = start_rib(&place, &["./socket"]).end_by_itself();
    assert!(code == 2 && errors.contains("in use by another process"), "{errors}");
    // A folder that others can enter is not the place for it.
    std::fs::create_dir_all(place.path("run/rhumb")).unwrap();
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(place.path("run/rhumb"), open).unwrap();
    let (code, errors) = start_rib(&place, &[]).end_by_itself();
    assert!(code == 2 && errors.contains("not this user's alone"), "{errors}");
}

/// A command of the binary as a user who has this group besides; nothing where this process may not
/// become one.
fn as_reader(place: &Place, group: u32, arguments: &[&str]) -> Option<Run> {
    let binary = place.path("rhumb");
    if !binary.exists() {
        std::fs::copy(env!("CARGO_BIN_EXE_rhumb"), &binary).unwrap();
        let everybody = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&binary, everybody).unwrap();
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", &format!("--groups={group}")]).arg(&binary);
    let output = command.args(arguments).current_dir(place.folder()).output().ok()?;
    let run = Run::of(output);
    (!run.errors.contains("setpriv")).then_some(run)
}

#[test]
fn readers_see_how_a_daemon_is_and_get_nothing_else() {
    const READERS: u32 = 64321;
    let place = Place::new();
    place.keygen("rib", "rib.key");
    let folder = place.path("readers");
    let set = |mode| {
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    std::fs::create_dir(&folder).unwrap();
    // One that the group writes to, or that others enter, is none.
    for mode in [0o770, 0o755] {
        set(mode);
        let (code, errors) = start_rib(&place, &["readers:readers/rib.sock"]).end_by_itself();
        assert!(code == 2 && errors.contains("install -d -m 0750"), "{errors}");
    }
    set(0o750);
    if std::os::unix::fs::chown(&folder, None, Some(READERS)).is_err() {
        println!("skipped: giving a folder to a group needs root");
        return;
    }
    let everybody = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(place.folder(), everybody).unwrap();
    let mut rib = start_rib(&place, &["readers:readers/rib.sock"]);
    let socket = rib.next_object()["admin"].as_str().unwrap().to_owned();
    assert_eq!(socket, folder.join("rib.sock").display().to_string());
    let ask = ["status", "--admin", "readers/rib.sock"];
    let Some(run) = as_reader(&place, READERS, &ask) else {
        println!("skipped: becoming another user needs root and setpriv");
        return;
    };
    assert!(run.output.starts_with("rib "), "{}", run.errors);
    assert_ne!(as_reader(&place, READERS + 1, &ask).unwrap().code, 0, "another group's");
    let backup = ["rib", "backup", "/dev/shm/no-copy-for-readers", "--admin", "readers/rib.sock"];
    let list = ["rib", "list", "--admin", "readers/rib.sock"];
    for not_theirs in [&backup[..], &list] {
        let run = as_reader(&place, READERS, not_theirs).unwrap();
        assert!(run.code != 0 && run.errors.contains("to its own user and root"), "{}", run.errors);
    }
    // Whoever holds connections keeps nobody but readers from asking.
    place.write("hold.pl", HOLD);
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", &format!("--groups={READERS}")]);
    command.args(["perl", "hold.pl"]).current_dir(place.folder());
    let mut holder = Running::spawn(command);
    assert_eq!(holder.next_line(), "held");
    assert!(status(&place, &ask[1..]).output.starts_with("rib "));
    // It is opened by mistake: others who come in then are told nothing.
    set(0o755);
    as_reader(&place, READERS + 1, &ask).unwrap().is_refused_with(&["own user and root only"]);
    assert!(status(&place, &ask[1..]).output.starts_with("rib "));
}

/// Begins many requests, and finishes none.
const HOLD: &str = "
use Socket;
$SIG{PIPE} = 'IGNORE';
$| = 1;
my @all;
for (1..40) {
    socket(my $one, AF_UNIX, SOCK_STREAM, 0) or die;
    connect($one, sockaddr_un('readers/rib.sock')) or die;
    syswrite($one, 'GET');
    push @all, $one;
}
print \"held\\n\";
<STDIN>;
";

/// The mode of the file may be changed by mistake; who asks is looked at all the same.
#[test]
fn another_user_is_refused_even_where_the_file_lets_everybody_in() {
    let place = Place::new();
    place.keygen("rib", "rib.key");
    let mut rib = start_rib(&place, &["./socket"]);
    rib.next_object();
    let everybody = std::fs::Permissions::from_mode(0o777);
    for path in [place.path("socket"), place.folder().to_owned()] {
        std::fs::set_permissions(path, everybody.clone()).unwrap();
    }
    let binary = place.path("rhumb");
    std::fs::copy(env!("CARGO_BIN_EXE_rhumb"), &binary).unwrap();
    std::fs::set_permissions(&binary, everybody).unwrap();
    let other = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&binary)
        .args(["status", "--admin", "./socket"])
        .current_dir(place.folder())
        .output();
    match other {
        Ok(output) => {
            let run = Run::of(output);
            if run.errors.contains("setpriv") {
                println!("skipped: becoming another user needs root: {}", run.errors);
                return;
            }
            run.is_refused_with(&["answers its own user and root only"]);
        }
        Err(error) => println!("skipped: no setpriv: {error}"),
    }
    assert!(status(&place, &["--admin", "./socket"]).output.starts_with("rib "));
}
