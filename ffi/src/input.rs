//! Arguments of exports: bytes, texts, option structs.
use statestore_core::Outcome;
use statestore_embed::{Error, ErrorKind};
use std::ffi::{CStr, c_char, c_void};
use std::mem::{MaybeUninit, size_of};
use std::ptr;
use std::slice;
use std::time::{Duration, Instant};

pub(crate) fn invalid(name: &str, reason: impl Into<String>) -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        Outcome::NotDone,
        format!("reading the argument `{name}`"),
        reason,
    )
}

pub(crate) fn null(name: &str) -> Error {
    invalid(name, "it is NULL")
}

/// Reads bytes of the caller. NULL means no bytes.
///
/// # Safety `data` is NULL or points to `len` bytes that do not change during `'a`.
pub(crate) unsafe fn bytes<'a>(
    data: *const c_void,
    len: usize,
    name: &str,
) -> Result<&'a [u8], Error> {
    if len == 0 {
        return Ok(&[]);
    }
    if data.is_null() {
        return Err(invalid(
            name,
            format!("it is NULL and has a length of {len}"),
        ));
    }
    if isize::try_from(len).is_err() {
        return Err(invalid(name, "it is longer than memory can be"));
    }
    // SAFETY: the pointer is not NULL, `len` is not too large, and by the contract there are as many bytes.
    Ok(unsafe { slice::from_raw_parts(data.cast(), len) })
}

/// Reads a key and a value of the caller.
///
/// # Safety As [`bytes`] asks of both.
pub(crate) unsafe fn key_value<'a>(
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
) -> Result<(&'a [u8], &'a [u8]), Error> {
    // SAFETY: by the contract.
    unsafe {
        Ok((
            bytes(key, key_len, "key")?,
            bytes(value, value_len, "value")?,
        ))
    }
}

/// Reads elements of the caller. NULL means none.
///
/// # Safety `data` is NULL or points to `count` elements that do not change during `'a`.
pub(crate) unsafe fn elements<'a, T>(
    data: *const T,
    count: usize,
    name: &str,
) -> Result<&'a [T], Error> {
    if count == 0 {
        return Ok(&[]);
    }
    if data.is_null() {
        return Err(invalid(
            name,
            format!("it is NULL and has {count} elements"),
        ));
    }
    let bytes = count.checked_mul(size_of::<T>());
    if bytes.is_none_or(|bytes| isize::try_from(bytes).is_err()) {
        return Err(invalid(name, "it is longer than memory can be"));
    }
    if !data.is_aligned() {
        return Err(invalid(name, "it is not aligned"));
    }
    // SAFETY: the pointer is not NULL, it is aligned, `count` is not too large, and by the contract there are as many
    // elements.
    Ok(unsafe { slice::from_raw_parts(data, count) })
}

/// Reads a text of the caller; `None` for NULL.
///
/// # Safety `text` is NULL or points to a text with a NUL at its end that does not change during `'a`.
pub(crate) unsafe fn text<'a>(text: *const c_char, name: &str) -> Result<Option<&'a str>, Error> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: the pointer is not NULL, and by the contract the text ends with a NUL.
    match unsafe { CStr::from_ptr(text) }.to_str() {
        Ok(text) => Ok(Some(text)),
        Err(_) => Err(invalid(name, "it is not UTF-8")),
    }
}

/// A struct of the header that begins with its own size and may be shorter or longer than the one that this library
/// knows.
///
/// # Safety The struct is `repr(C)`, begins with its size as `usize`, and all its fields may be zero.
pub(crate) unsafe trait SizedStruct: Copy {
    /// Name of the struct in error messages.
    const NAME: &'static str;
}

/// Declares a struct of options with its last field. Its first field must be `size`.
///
/// There is no padding after the last field: a field that is added there later would read the garbage of an older
/// program.
macro_rules! sized {
    ($type:ident, $last:ident: $last_type:ty) => {
        // SAFETY: the struct is `repr(C)`, has numbers, pointers and optional functions, and begins with its size.
        unsafe impl $crate::input::SizedStruct for $type {
            const NAME: &'static str = stringify!($type);
        }
        const _: () = assert!(std::mem::offset_of!($type, size) == 0);
        const _: () = assert!(
            std::mem::offset_of!($type, $last) + size_of::<$last_type>() == size_of::<$type>(),
            "there is padding at the end"
        );
    };
}
pub(crate) use sized;

/// Largest size of a struct, now and in future versions. A larger `size` was never set, so it does not bound the
/// readable bytes.
const MAX_STRUCT_BYTES: usize = 4096;

/// Reads the size of a struct of the caller from its first field.
///
/// # Safety `of` points to at least as many bytes as those of the size, with any alignment.
pub(crate) unsafe fn size(of: *const usize, name: &str) -> Result<usize, Error> {
    // SAFETY: by the contract.
    let size = unsafe { of.read_unaligned() };
    if size < size_of::<usize>()
        || size > MAX_STRUCT_BYTES
        || !size.is_multiple_of(align_of::<usize>())
    {
        let reason = format!("its field `size` is {size}; set it to sizeof({name})");
        return Err(invalid(name, reason));
    }
    Ok(size)
}

/// Reads options of the caller. NULL gives all zero, which is the default.
///
/// Fields that a shorter struct lacks are zero. Bytes of a longer struct beyond the known fields must be zero.
///
/// # Safety `options` is NULL or points to as many bytes as the size in it says.
pub(crate) unsafe fn options<T: SizedStruct>(options: *const T) -> Result<T, Error> {
    let mut known = MaybeUninit::<T>::zeroed();
    if !options.is_null() {
        // SAFETY: by the contract.
        let size = unsafe { size(options.cast(), T::NAME) }?;
        // SAFETY: by the contract there are `size` bytes.
        let given = unsafe { slice::from_raw_parts(options.cast::<u8>(), size) };
        let (given, beyond) = given.split_at(size.min(size_of::<T>()));
        if beyond.iter().any(|&byte| byte != 0) {
            let reason = "it has options that this version of the library does not know";
            return Err(invalid(T::NAME, reason));
        }
        // SAFETY: `given` is not longer than the struct, and the struct is a new one.
        unsafe {
            ptr::copy_nonoverlapping(given.as_ptr(), known.as_mut_ptr().cast(), given.len());
        }
    }
    // SAFETY: every field may be zero, and the copied bytes come from such a struct.
    Ok(unsafe { known.assume_init() })
}

/// `SST_FOREVER` of the header: a time without an end.
pub(crate) const FOREVER: u64 = u64::MAX;

/// `SST_UNKNOWN_TIME` of the header: a remaining time that is not known.
pub(crate) const UNKNOWN: u64 = u64::MAX - 1;

/// Reads a time of options; `None` for zero, which means the default. `SST_FOREVER` gives a time that never ends in
/// practice.
pub(crate) fn milliseconds(ms: u64, name: &str) -> Result<Option<Duration>, Error> {
    let time = time(ms, name)?;
    Ok((ms > 0).then_some(time))
}

/// Reads a delay of options; `None` for the default, which is never.
pub(crate) fn delay(ms: u64, name: &str) -> Result<Option<Duration>, Error> {
    Ok(milliseconds(ms, name)?.filter(|_| ms != FOREVER))
}

/// Reads a time-out argument; `None` if it has no end.
pub(crate) fn limit(timeout_ms: u64) -> Result<Option<Duration>, Error> {
    let time = time(timeout_ms, "timeout_ms")?;
    Ok((timeout_ms != FOREVER).then_some(time))
}

/// Returns the deadline of a time-out argument; `None` if it has no end.
pub(crate) fn deadline(timeout_ms: u64) -> Result<Option<Instant>, Error> {
    let time = time(timeout_ms, "timeout_ms")?;
    Ok(Instant::now().checked_add(time))
}

fn time(ms: u64, name: &str) -> Result<Duration, Error> {
    if i64::try_from(ms).is_err() && ms != FOREVER {
        let reason = format!("{} is not a time", ms.cast_signed());
        return Err(invalid(name, reason));
    }
    Ok(Duration::from_millis(ms))
}
