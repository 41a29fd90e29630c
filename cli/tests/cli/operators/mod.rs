//! The lists, changes and streams of `statestore admin`.
mod changes;
mod lists;
mod scripted_server;
mod server;
mod streams;
