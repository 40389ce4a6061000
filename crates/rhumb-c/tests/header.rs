//! The header says what the source does: each call with its parameters, and each constant.

use std::collections::BTreeMap;
use std::path::Path;

/// Name, and the types of parameters and result, as Rust has them.
type Calls = BTreeMap<String, Vec<String>>;

#[test]
fn the_header_declares_each_call_as_it_is() {
    let header = read("include/rhumb.h");
    let declared = declared(&without_comments(&header));
    let sources = ["src/node.rs", "src/port.rs", "src/stream.rs"].map(read);
    let defined: Calls = sources.iter().flat_map(|source| defined(source)).collect();
    assert!(defined.len() > 20, "{defined:?}");
    assert_eq!(declared, defined);
}

#[test]
fn a_difference_is_found() {
    let c = "int rhumb_a(const rhumb_node *node, uint16_t port, rhumb_error *error);";
    let rust = |port: &str| {
        format!(
            "pub unsafe extern \"C\" fn rhumb_a(node: *const Node, port: {port}, \
             error: *mut RhumbError) -> c_int {{"
        )
    };
    assert_eq!(declared(c), defined(&rust("u16")));
    assert_ne!(declared(c), defined(&rust("u32")));
}

#[test]
fn constants_and_codes_are_the_same() {
    let header = read("include/rhumb.h");
    let version = format!("#define RHUMB_VERSION \"{}\"", env!("CARGO_PKG_VERSION"));
    assert!(header.contains(&version), "{version}");
    let border = read("src/border.rs");
    for (name, value) in [("MESSAGE_SIZE", "512"), ("NAME_SIZE", "53")] {
        assert!(header.contains(&format!("#define RHUMB_{name} {value}")), "{name}");
    }
    assert!(border.contains("const MESSAGE_SIZE: usize = 512;"));
    let fault = read("../rhumb-node/src/foreign/fault.rs");
    let codes = header.lines().filter_map(|line| {
        let (name, value) = line.trim().strip_prefix("RHUMB_")?.split_once(" = ")?;
        Some((name.replace('_', "").to_lowercase(), value.trim_end_matches(',').to_owned()))
    });
    let codes: BTreeMap<_, _> = codes.filter(|(name, _)| name != "ok").collect();
    let kinds = fault.lines().filter_map(|line| {
        let (name, value) = line.trim().strip_suffix(',')?.split_once(" = ")?;
        Some((name.to_lowercase(), value.to_owned()))
    });
    assert!(codes.len() >= 9, "{codes:?}");
    assert_eq!(codes, kinds.collect());
}

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn without_comments(header: &str) -> String {
    let parts = header.split("/*").map(|it| it.split_once("*/").map_or(it, |(_, after)| after));
    parts.collect()
}

fn declared(header: &str) -> Calls {
    let statements = header.split(';').filter_map(|it| {
        let (before, parameters) = it.trim().strip_suffix(')')?.split_once('(')?;
        let before = before.lines().last()?;
        let (result, name) =
            before.split_at(before.find("rhumb_").filter(|_| !before.contains('}'))?);
        let name = name.trim();
        if name.contains(' ') || !name.starts_with("rhumb_") {
            return None;
        }
        let parameters = parameters.split(',').filter(|it| it.trim() != "void").map(of_c);
        let result = (result.trim() != "void").then(|| of_c(&format!("{result} result")));
        Some((name.to_owned(), parameters.chain(result).collect()))
    });
    statements.collect()
}

/// The type of a parameter in C, as Rust has it.
fn of_c(parameter: &str) -> String {
    let text = parameter.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.contains("[RHUMB_NAME_SIZE]") {
        return "*mut NameText".to_owned();
    }
    let is_const = text.starts_with("const ");
    let stars = text.matches('*').count();
    let base = text.trim_start_matches("const ").split([' ', '*']).next().unwrap_or_default();
    let base = match base {
        "char" => "c_char",
        "int" => "c_int",
        "void" => "c_void",
        "size_t" => "usize",
        "uint16_t" => "u16",
        "uint32_t" => "u32",
        "uint64_t" => "u64",
        "rhumb_error" => "RhumbError",
        "rhumb_node" => "Node",
        "rhumb_options" => "Options",
        "rhumb_service" => "Here<Service>",
        "rhumb_port" => "Port",
        "rhumb_message" => "MessageHead",
        "rhumb_listener" => "Listening",
        "rhumb_stream" => "Stream",
        other => panic!("an unknown type: {other}"),
    };
    match (stars, is_const) {
        (0, _) => base.to_owned(),
        (1, true) => format!("*const {base}"),
        (stars, false) => format!("{}{base}", "*mut ".repeat(stars)),
        _ => panic!("an unknown type: {text}"),
    }
}

fn defined(source: &str) -> Calls {
    let functions = source.split("extern \"C\" fn ").skip(1).map(|function| {
        let (head, _) = function.split_once('{').expect("a body");
        let (name, rest) = head.split_once('(').expect("parameters");
        let (parameters, result) = rest.rsplit_once(')').expect("an end");
        let parameters = parameters.split(',').filter_map(|it| it.split_once(": "));
        let parameters = parameters.map(|(_, of)| of.trim().to_owned());
        let result = result.trim().strip_prefix("-> ").map(|it| it.trim().to_owned());
        (name.to_owned(), parameters.chain(result).collect())
    });
    functions.collect()
}
