//! The type of keys and values.

/// Text or bytes: the type of keys and values in calls.
///
/// All types that are `AsRef<[u8]>` implement it, such as [`str`], [`String`], `[u8]`, [`Vec<u8>`] and [`Bytes`](bytes::Bytes).
/// Encode other values first: a number as text with [`to_string`](ToString::to_string), a structure as JSON with
/// `serde_json::to_vec` or by the feature `json`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither text nor bytes, so it cannot be a key or a value of the state store",
    label = "neither text nor bytes",
    note = "write a number as text with `.to_string()`, a structure as JSON with `serde_json::to_vec`"
)]
pub trait AsBytes: AsRef<[u8]> {}

#[diagnostic::do_not_recommend]
impl<T: AsRef<[u8]> + ?Sized> AsBytes for T {}
