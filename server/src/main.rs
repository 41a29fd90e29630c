//! `statestored`: the state store on one machine.
fn main() {}
