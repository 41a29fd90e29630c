//! `statestore`: get, set and watch keys from the shell.
fn main() {}
