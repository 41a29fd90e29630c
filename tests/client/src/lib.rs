//! Tests of the client over real connections, in `tests`, and the Rust programs of the documentation.

/// Documentation pages with Rust programs, which are compiled and run as examples of this crate.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/start.md")]
#[doc = include_str!("../../../docs/connecting.md")]
#[doc = include_str!("../../../docs/rust.md")]
#[doc = include_str!("../../../core/README.md")]
struct Pages;
