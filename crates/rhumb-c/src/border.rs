//! What comes over the border from C, looked at before anything is done with it, and what goes
//! back. All raw pointers are in here and in the signatures of the calls.
//!
//! INVARIANT: a null pointer, bad UTF-8 and a panic are errors that are told, and nothing unwinds
//! into C. What C alone can keep, the header asks of it: that other pointers are good.

use std::any::Any;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use rhumb_node::Name;
use rhumb_node::foreign::{Fault, FaultKind, Here, runtime};

/// Why a call failed, as the header has it.
#[repr(C)]
pub struct RhumbError {
    code: c_int,
    message: [c_char; MESSAGE_SIZE],
}

/// The text of a name with its end, as the header has it.
pub(crate) type NameText = [c_char; NAME_SIZE];

/// Does what a call is for: the code to return. What is wrong goes to `error`, unless it is null.
///
/// # Safety
/// * `error` is null, or points to a `rhumb_error` that nobody else uses meanwhile.
pub(crate) unsafe fn call(
    error: *mut RhumbError,
    work: impl FnOnce() -> Result<(), Fault>,
) -> c_int {
    let fault = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => return OK,
        Ok(Err(fault)) => fault,
        Err(panic) => Fault::new(FaultKind::System, panic_text(&*panic)),
    };
    let code = fault.kind as c_int;
    // SAFETY:
    // * a pointer that is not null points to one, by this function's contract;
    // * and nobody else uses it meanwhile, by the same.
    if let Some(error) = unsafe { error.as_mut() } {
        error.code = code;
        error.message = text_of(&fault.text);
    }
    code
}

/// Does what a call without errors is for.
pub(crate) fn quietly(work: impl FnOnce()) {
    // A panic has told itself on standard error.
    let _ = catch_unwind(AssertUnwindSafe(work));
}

/// Waits on the calling thread, for so many milliseconds.
pub(crate) fn wait<T>(
    timeout_ms: u32,
    work: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    runtime()?.block_on(async {
        if timeout_ms == FOREVER {
            return work.await;
        }
        let in_time = tokio::time::timeout(Duration::from_millis(timeout_ms.into()), work).await;
        let late = |_| {
            let text =
                format!("nothing came of it within {timeout_ms} ms; try again, or wait longer");
            Fault::new(FaultKind::TimedOut, text)
        };
        in_time.map_err(late)?
    })
}

/// What a handle is of, for the process that made it.
///
/// # Safety
/// * `handle` is null, or one that [`give`] gave and that was not given back since.
pub(crate) unsafe fn held<'a, T>(handle: *const Here<T>, what: &str) -> Result<&'a T, Fault> {
    // SAFETY:
    // * it points to what `give` put on the heap, which is there until it is given back;
    // * nobody changes it: all access is by shared references.
    let handle = unsafe { handle.as_ref() };
    handle.ok_or_else(|| null(what))?.value()
}

/// Where a call puts what it gives, set to null.
///
/// # Safety
/// * `place` is null, or points to a pointer that nobody else uses for as long as the result lives.
pub(crate) unsafe fn place_for<'a, T>(
    place: *mut *mut Here<T>,
    what: &str,
) -> Result<&'a mut *mut Here<T>, Fault> {
    // SAFETY: it may be written to, and nobody else does, by this function's contract.
    let place = unsafe { place.as_mut() }.ok_or_else(|| null(what))?;
    *place = std::ptr::null_mut();
    Ok(place)
}

/// A handle that is C's until it is given back.
pub(crate) fn give<T>(value: T) -> *mut Here<T> {
    Box::into_raw(Box::new(Here::new(value)))
}

/// Takes a handle back; nothing of null.
///
/// # Safety
/// * `handle` is null, or one that [`give`] gave and that was not given back before;
/// * nobody uses it meanwhile, or later.
pub(crate) unsafe fn take_back<T>(handle: *mut Here<T>) -> Option<Box<Here<T>>> {
    // SAFETY: it is of `Box::into_raw`, and is taken once, by this function's contract.
    (!handle.is_null()).then(|| unsafe { Box::from_raw(handle) })
}

/// A text that has to be there.
///
/// # Safety
/// * as for [`text_if_any`].
pub(crate) unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<&'a str, Fault> {
    // SAFETY: the contract is the same.
    unsafe { text_if_any(text, what) }?.ok_or_else(|| null(what))
}

/// A text, or none.
///
/// # Safety
/// * `text` is null, or points to bytes up to a zero, which nobody changes for as long as the
///   result lives.
pub(crate) unsafe fn text_if_any<'a>(
    text: *const c_char,
    what: &str,
) -> Result<Option<&'a str>, Fault> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: it ends with a zero, and stays as it is, by this function's contract.
    let text = unsafe { CStr::from_ptr(text) }.to_str();
    text.map(Some).map_err(|_| Fault::invalid(format!("{what} is not UTF-8; give it as UTF-8")))
}

/// What is to be sent.
///
/// # Safety
/// * `data` is null, or points to `length` bytes that nobody changes for as long as the result
///   lives.
pub(crate) unsafe fn bytes<'a>(data: *const c_void, length: usize) -> Result<&'a [u8], Fault> {
    check_length(length)?;
    match (data.is_null(), length) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(null("data")),
        // SAFETY:
        // * it points to so many bytes, which stay as they are, by this function's contract;
        // * there are no more than an object can have.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(data.cast(), length) }),
    }
}

/// Where what arrives is put.
///
/// # Safety
/// * `data` is null, or points to `size` bytes that have been written before, such as those of an
///   array or of `malloc`, and that nobody else uses for as long as the result lives.
pub(crate) unsafe fn space<'a>(data: *mut c_void, size: usize) -> Result<&'a mut [u8], Fault> {
    check_length(size)?;
    match (data.is_null(), size) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(null("data")),
        (false, _) => {
            // SAFETY: so many bytes may be written there, by this function's contract. What C has
            // left there is overwritten before anybody reads it.
            unsafe { std::ptr::write_bytes(data.cast::<u8>(), 0, size) };
            // SAFETY:
            // * it points to so many bytes, which have been written just now;
            // * nobody else uses them meanwhile, by this function's contract;
            // * there are no more than an object can have.
            Ok(unsafe { std::slice::from_raw_parts_mut(data.cast(), size) })
        }
    }
}

/// Puts a value where C wants it, or nowhere.
///
/// # Safety
/// * `place` is null, or points to one that nobody else uses meanwhile.
pub(crate) unsafe fn put<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: it may be written to, and is plain data that was there before.
        unsafe { place.write(value) };
    }
}

/// A name as C has it.
pub(crate) fn name_text(name: Name) -> NameText {
    text_of(&name.to_string())
}

/// A text with its end, as much of it as there is place for.
fn text_of<const SIZE: usize>(text: &str) -> [c_char; SIZE] {
    let mut placed = [0; SIZE];
    let mut len = text.len().min(SIZE - 1);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    // A zero would end it early, and a second line be lost in a log.
    let plain = |byte: &u8| if byte.is_ascii_control() { b' ' } else { *byte };
    for (place, byte) in placed.iter_mut().zip(text.as_bytes()[..len].iter().map(plain)) {
        *place = c_char::from_ne_bytes([byte]);
    }
    placed
}

fn check_length(length: usize) -> Result<(), Fault> {
    match isize::try_from(length) {
        Ok(_) => Ok(()),
        Err(_) => Err(Fault::invalid(format!("nothing has {length} bytes; correct the length"))),
    }
}

fn null(what: &str) -> Fault {
    Fault::invalid(format!("{what} is NULL; give one"))
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("rhumb failed; please report this: {}", text.unwrap_or("no reason is known"))
}

/// What calls return when all is well.
const OK: c_int = 0;
/// As `RHUMB_FOREVER`.
const FOREVER: u32 = u32::MAX;
/// As `RHUMB_MESSAGE_SIZE`.
const MESSAGE_SIZE: usize = 512;
/// As `RHUMB_NAME_SIZE`.
const NAME_SIZE: usize = Name::TEXT_LEN + 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn told(work: impl FnOnce() -> Result<(), Fault>) -> (c_int, String) {
        let mut error = RhumbError { code: 0, message: [0; MESSAGE_SIZE] };
        // SAFETY: it is this function's own.
        let code = unsafe { call(&raw mut error, work) };
        // SAFETY: the message has an end.
        let text = unsafe { CStr::from_ptr(error.message.as_ptr()) };
        assert_eq!(code, error.code);
        (code, text.to_str().unwrap().to_owned())
    }

    #[test]
    fn a_panic_is_an_error_and_does_not_get_out() {
        let (code, text) = told(|| panic!("broken {}", 7));
        assert_eq!(code, FaultKind::System as c_int);
        assert!(text.contains("broken 7"), "{text}");
        // SAFETY: null is allowed.
        let code = unsafe { call(std::ptr::null_mut(), || panic!("broken")) };
        assert_eq!(code, FaultKind::System as c_int);
        quietly(|| panic!("broken"));
    }

    #[test]
    fn a_text_is_cut_where_a_character_ends_and_stays_one_line() {
        let (_, text) = told(|| Err(Fault::invalid("ä".repeat(400))));
        assert_eq!(text, "ä".repeat(255));
        let (_, text) = told(|| Err(Fault::invalid("one\ntwo\0three")));
        assert_eq!(text, "one two three");
    }

    #[test]
    fn what_is_null_or_no_text_is_refused() {
        // SAFETY: null is allowed, and the other one has an end.
        let (null, wrong) =
            unsafe { (text(std::ptr::null(), "name"), text(c"\xff".as_ptr(), "name")) };
        assert_eq!(null.unwrap_err().text, "name is NULL; give one");
        assert_eq!(wrong.unwrap_err().kind, FaultKind::Invalid);
        // SAFETY: null is allowed, whatever the length.
        let (none, null, long) = unsafe {
            let nowhere = std::ptr::null();
            (bytes(nowhere, 0), bytes(nowhere, 1), bytes(nowhere, usize::MAX))
        };
        assert_eq!(none.unwrap(), b"");
        assert!(null.is_err() && long.is_err());
        // SAFETY: null is allowed.
        assert!(unsafe { held::<u8>(std::ptr::null(), "node") }.is_err());
    }

    #[test]
    fn what_takes_too_long_is_told_so() {
        let late = wait(1, std::future::pending::<Result<(), Fault>>()).unwrap_err();
        assert_eq!(late.kind, FaultKind::TimedOut);
        assert_eq!(wait(0, async { Ok(7) }), Ok(7));
    }
}
