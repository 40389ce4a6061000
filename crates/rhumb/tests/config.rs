//! The configuration file: where it is looked for, what
//! it may say, and how it is told what is wrong.

use crate::harness::Place;

#[test]
fn an_unknown_key_is_named_with_its_line_and_the_nearest_there_is() {
    let place = Place::new();
    place.write("rhumb.toml", "log = \"info\"\n[rib]\nlisen = \"127.0.0.1:0\"\n");
    place.run(&["rib"]).is_refused_with(&[
        "rhumb.toml, line 3",
        "unknown key `lisen` in [rib]",
        "did you mean `listen`?",
    ]);
    place.write("rhumb.toml", "[rotuer]\n");
    place.run(&["rib"]).is_refused_with(&["line 1", "did you mean `router`?"]);
}

#[test]
fn a_wrong_value_is_named_with_its_line() {
    let place = Place::new();
    place.write("own.toml", "[rib]\nkey = \"rib.key\"\nlisten = \"here\"\n");
    place
        .run(&["--config", "own.toml", "rib"])
        .is_refused_with(&["own.toml, line 3", "`here` is not an address"]);
    place.write("own.toml", "[rib]\nkey = 5\n");
    place.run(&["--config", "own.toml", "rib"]).is_refused_with(&["own.toml, line 2"]);
    place.write("own.toml", "[rib\n");
    place.run(&["--config", "own.toml", "rib"]).is_refused_with(&["own.toml, line 1"]);
    place.run(&["--config", "none.toml", "rib"]).is_refused_with(&["none.toml", "No such file"]);
}

#[test]
fn the_file_here_comes_before_the_one_at_home_and_options_before_both() {
    let place = Place::new();
    std::fs::create_dir_all(place.path(".config/rhumb")).unwrap();
    place.write(".config/rhumb/rhumb.toml", "[rib]\nkey = \"home.key\"\n");
    place.run(&["rib"]).is_refused_with(&["no key file home.key"]);
    place.write("rhumb.toml", "[rib]\nkey = \"here.key\"\n");
    place.run(&["rib"]).is_refused_with(&["no key file here.key"]);
    place.run(&["rib", "--key", "option.key"]).is_refused_with(&["no key file option.key"]);
}

#[test]
fn a_file_is_enough_to_run_a_rib() {
    let place = Place::new();
    place.keygen("rib", "rib.key");
    place.write(
        "rhumb.toml",
        "[rib]\nkey = \"rib.key\"\nstore = \"own.redb\"\nlisten = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\n",
    );
    let mut rib = place.start(&["rib"]);
    let ready = rib.next_object();
    assert_eq!(ready["role"], "rib");
    assert!(ready["admin"].is_string());
    assert!(place.path("own.redb").exists());
    assert_eq!(rib.end().0, 0);
}
