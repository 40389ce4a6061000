//! A RIB whose cluster speaks TLS and asks for a password: what it is told of both in its
//! configuration file, and what it says where that is wrong.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use crate::cassandra::certificates::Authority;
use crate::cassandra::{Cassandra, Purpose, USER, cluster};
use crate::harness::{Place, Run, Running, remote};
use crate::network::{DEADLINE, answers, start_router, wait_until};

fn with_cluster(test: impl FnOnce(&mut Cassandra)) {
    match cluster(Purpose::Secured) {
        Ok(mut cluster) => test(&mut cluster),
        Err(why) => eprintln!("skipped: {why}"),
    }
}

/// A place with a RIB's key and files, as its configuration names them.
struct Files(Place);

impl Files {
    fn new(store: &str, ca: Option<&str>) -> Self {
        let place = Place::new();
        place.keygen("rib", "rib.key");
        let mut settings =
            format!("[rib]\nstore = \"{store}\"\nstore_credentials = \"password\"\n");
        if let Some(ca) = ca {
            place.write("ca.pem", ca);
            settings += "store_ca = \"ca.pem\"\n";
        }
        place.write("rib.toml", &settings);
        let files = Self(place);
        files.set_password(USER);
        files
    }

    fn set_password(&self, password: &str) {
        self.0.write("password", &format!("{USER}:{password}\n"));
        self.set_mode(0o600);
    }

    fn set_mode(&self, mode: u32) {
        fs::set_permissions(self.0.path("password"), Permissions::from_mode(mode)).unwrap();
    }

    fn start(&self, address: &str) -> (Running, String) {
        let further = ["--listen", address, "--create-schema", "1", "--log", "info"];
        let mut rib = self.0.start(&[&RIB[..], &further].concat());
        let ready = rib.next_object_within(DEADLINE);
        (rib, remote(&ready))
    }

    /// Starts what cannot begin.
    fn run(&self) -> Run {
        self.0.run(&[&RIB[..], &["--listen", "127.0.0.1:0"]].concat())
    }
}

#[test]
fn names_are_kept_in_a_cluster_that_speaks_tls_by_the_password_from_the_beginning() {
    with_cluster(|cluster| {
        let store = cluster.address("secured").to_string();
        let files = Files::new(&store, cluster.authority().map(Authority::pem).as_deref());
        let place = &files.0;
        let (rib, at_rib) = files.start("127.0.0.1:0");
        let (_near, near) = start_router(place, "near.key", &[&at_rib]);
        let (_far, far) = start_router(place, "far.key", &[&at_rib]);
        let mut first = place.start(&["receive", "--router", &near]);
        let name = first.next_object()["name"].as_str().unwrap().to_owned();
        wait_until("a name is found", || answers(place, &name, &far));
        // A signal has rules read again, and leaves the cluster as it is.
        files.set_password("wrong");
        fs::remove_file(place.path("ca.pem")).unwrap();
        rib.nudge("HUP");
        rib.wait_for_error("rules of access again");
        let mut second = place.start(&["receive", "--router", &near]);
        let name = second.next_object()["name"].as_str().unwrap().to_owned();
        wait_until("a name is found after that", || answers(place, &name, &far));
        rib.kill();
        files.run().is_refused_with(&["store_ca, file ca.pem", "No such file"]);
        place.write("ca.pem", &cluster.authority().unwrap().pem());
        files.run().is_refused_with(&["refuses the user or the password"]);
        files.set_password(USER);
        // Where it was, so that routers find it.
        let (_rib, again) = files.start(at_rib.split_once('@').unwrap().1);
        assert_eq!(again, at_rib);
        let (_late, late) = start_router(place, "late.key", &[&at_rib]);
        wait_until("it is found when all is right again", || answers(place, &name, &late));
    });
}

#[test]
fn a_cluster_that_does_not_prove_to_be_the_one_gets_no_password() {
    with_cluster(|cluster| {
        let store = cluster.address("secured").to_string();
        let other = Files::new(&store, Some(&Authority::new().pem()));
        let node = &cluster.address("secured").nodes()[0].clone();
        other.run().is_refused_with(&[node, "none of those in `store_ca` has signed"]);
        let plain = Files::new(&store, None);
        plain.run().is_refused_with(&[node, "with `store_ca`"]);
    });
}

#[test]
fn what_is_wrong_with_the_files_is_said_before_any_node_is_spoken_to() {
    let files = Files::new(NOBODY, Some("user:password"));
    files.run().is_refused_with(&["store_ca, file ca.pem", "no certificate in it"]);
    files.0.write("ca.pem", &Authority::new().pem()[..200]);
    files.run().is_refused_with(&["store_ca, file ca.pem", "damaged"]);
    files.0.write("ca.pem", &Authority::new().pem());
    files.set_mode(0o644);
    files.run().is_refused_with(&["password", "chmod 600"]);
    fs::write(files.0.path("password"), "nobody").unwrap();
    files.set_mode(0o600);
    files.run().is_refused_with(&["password", "USER:PASSWORD"]);
    fs::remove_file(files.0.path("password")).unwrap();
    files.run().is_refused_with(&["no file password"]);
    let file = [&RIB[..], &["--listen", "127.0.0.1:0", "--store", "rib.redb"]].concat();
    files.0.run(&file).is_refused_with(&["certificates", "cql://HOST/KEYSPACE"]);
}

#[test]
fn a_password_in_plain_text_is_warned_of_unless_it_stays_on_this_machine() {
    let warned = |store: &str, ca: Option<&str>| {
        let run = Files::new(store, ca).run();
        assert_eq!(run.code, 2, "{}", run.errors);
        assert!(run.errors.contains("can be reached"), "{}", run.errors);
        run.errors.matches("in plain text").count()
    };
    // It leads to this machine, but is no address of loopback.
    let open = "cql://0.0.0.0:1/rib";
    assert_eq!(warned(open, None), 1);
    assert_eq!(warned(open, Some(&Authority::new().pem())), 0);
    assert_eq!(warned(NOBODY, None), 0);
}

const RIB: [&str; 5] = ["rib", "--key", "rib.key", "--config", "rib.toml"];
/// Where no node listens.
const NOBODY: &str = "cql://127.0.93.77:1/rib";
