//! Keys, joining, pings, and names that are served.

use std::ffi::{c_char, c_int};
use std::path::Path;
use std::time::Duration;

use rhumb_node::foreign::{
    Fault, Here, find_router, generate, identity_of_node, parse_name, runtime,
};
use rhumb_node::{AdCert, Config, Passphrase, Role, RouterChoice, Service, save_key};

use crate::border::{
    NameText, RhumbError, call, give, held, name_text, place_for, put, quietly, take_back, text,
    text_if_any, wait,
};

/// `rhumb_node`.
pub type Node = Here<rhumb_node::Node>;

/// `rhumb_options`.
#[repr(C)]
pub struct Options {
    router: *const c_char,
    key: *const c_char,
    passphrase: *const c_char,
    timeout_ms: u32,
    unpublished: c_int,
    no_tls: c_int,
}

/// The version of the library.
#[unsafe(no_mangle)]
pub extern "C" fn rhumb_version() -> *const c_char {
    VERSION.as_ptr().cast()
}

/// Makes a key file.
///
/// # Safety
/// As the header says: texts end with a zero, `name` has its size, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rhumb_key_generate(
    path: *const c_char,
    passphrase: *const c_char,
    name: *mut NameText,
    error: *mut RhumbError,
) -> c_int {
    let work = || {
        // SAFETY: both are texts or null, by this function's contract.
        let (path, passphrase) =
            unsafe { (text(path, "path")?, text_if_any(passphrase, "passphrase")?) };
        let passphrase = passphrase.map(|it| Passphrase::new(it.to_owned()));
        let identity = generate(Role::Node)?;
        save_key(Path::new(path), &identity, passphrase.as_ref())?;
        // SAFETY: it has the size of a name, or is null, by this function's contract.
        unsafe { put(name, name_text(identity.name())) };
        Ok(())
    };
    // SAFETY: the contract is the same.
    unsafe { call(error, work) }
}

/// Joins.
///
/// # Safety
/// As the header says: `options` and what it points to are good, or null, and `node` is a place for
/// a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rhumb_join(
    options: *const Options,
    node: *mut *mut Node,
    error: *mut RhumbError,
) -> c_int {
    let work = || {
        // SAFETY: it is a place for a pointer, or null, by this function's contract.
        let place = unsafe { place_for(node, "node")? };
        // SAFETY: it points to options, or is null, by this function's contract.
        let options = unsafe { options.as_ref() };
        let options = options.ok_or_else(|| Fault::invalid("options is NULL; give some"))?;
        // SAFETY: they are texts or null, by this function's contract.
        let (router, key, passphrase) = unsafe {
            (
                text_if_any(options.router, "router")?,
                text_if_any(options.key, "key")?,
                text_if_any(options.passphrase, "passphrase")?,
            )
        };
        let passphrase = passphrase.map(|it| Passphrase::new(it.to_owned()));
        let identity = identity_of_node(key.map(Path::new), passphrase.as_ref())?;
        let joined = runtime()?.block_on(async {
            let router = match router {
                Some(router) => find_router(router).await?.into(),
                None => RouterChoice::discovered(),
            };
            let mut config = Config::new(router);
            if options.timeout_ms > 0 {
                config.join_timeout = Duration::from_millis(options.timeout_ms.into());
            }
            config.require_published = options.unpublished == 0;
            config.tls = options.no_tls == 0;
            Ok::<_, Fault>(rhumb_node::Node::join(identity, config).await?)
        });
        *place = give(joined?);
        Ok(())
    };
    // SAFETY: the contract is the same.
    unsafe { call(error, work) }
}

/// Leaves, and takes the node back.
///
/// # Safety
/// As the header says: `node` was given and not given back, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rhumb_leave(node: *mut Node) {
    quietly(|| {
        // SAFETY: the contract is the same.
        let taken = unsafe { take_back(node) };
        if let Some(Ok(node)) = taken.as_ref().map(|node| node.value())
            && let Ok(runtime) = runtime()
        {
            runtime.block_on(node.clone().leave());
        }
    });
}

/// The node's name.
///
/// # Safety
/// As the header says: `node` was given and not given back, `name` has its size; or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rhumb_node_name(
    node: *const Node,
    name: *mut NameText,
    error: *mut RhumbError,
) -> c_int {
    let work = || {
        // SAFETY: it was given and not given back, or is null, by this function's contract.
        let node = unsafe { held(node, "node")? };
        // SAFETY: it has the size of a name, or is null, by this function's contract.
        unsafe { put(name, name_text(node.name())) };
        Ok(())
    };
    // SAFETY: the contract is the same.
    unsafe { call(error, work) }
}

/// The round trip to a name.
///
/// # Safety
/// As the header says: `node` was given and not given back, `name` is a text, `round_trip_us` a
/// place for a number; or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rhumb_ping(
    node: *const Node,
    name: *const c_char,
    timeout_ms: u32,
    round_trip_us: *mut u64,
    error: *mut RhumbError,
) -> c_int {
    let work = || {
        // SAFETY: both are good, or null, by this function's contract.
        let (node, name) = unsafe { (held(node, "node")?, text(name, "name")?) };
        let (name, timeout) = (parse_name(name)?, Duration::from_millis(timeout_ms.into()));
        let reply = runtime()?.block_on(node.ping(name, timeout))?;
        let microseconds = u64::try_from(reply.rtt.as_micros()).unwrap_or(u64::MAX);
        // SAFETY: it is a place for a number, or null, by this function's contract.
        unsafe { put(round_trip_us, microseconds) };
        Ok(())
    };
    // SAFETY: the contract is the same.
    unsafe { call(error, work) }
}

/// Answers for the owner of an AdCert.
///
/// # Safety
/// As the header says: `node` was given and not given back, `ad_cert_path` is a text, and `service`
/// a place for a pointer; or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rhumb_serve(
    node: *const Node,
    ad_cert_path: *const c_char,
    service: *mut *mut Here<Service>,
    error: *mut RhumbError,
) -> c_int {
    let work = || {
        // SAFETY: it is a place for a pointer, or null, by this function's contract.
        let place = unsafe { place_for(service, "service")? };
        // SAFETY: both are good, or null, by this function's contract.
        let (node, path) = unsafe { (held(node, "node")?, text(ad_cert_path, "ad_cert_path")?) };
        let ad_cert = AdCert::load(Path::new(path))?;
        *place = give(wait(u32::MAX, async { Ok(node.serve(ad_cert).await?) })?);
        Ok(())
    };
    // SAFETY: the contract is the same.
    unsafe { call(error, work) }
}

/// Answers no longer.
///
/// # Safety
/// As the header says: `service` was given and not given back, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rhumb_service_close(service: *mut Here<Service>) {
    // SAFETY: the contract is the same.
    quietly(|| drop(unsafe { take_back(service) }));
}

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
