//! How clients come in: TCP, TLS, WebSocket, sockets of the file system; and who does not.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod advice;
mod alike;
mod authority;
mod certificates;
mod daemon;
mod encrypted;
mod floods;
mod names;
mod open;
mod proxies;
mod reloaded_limits;
mod renewal;
mod rude;
mod supervised;
mod unix;
mod websocket;
mod world;
