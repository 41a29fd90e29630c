//! Listeners: TCP, TLS, WebSocket, Unix sockets; and the connections that they reject.
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
mod reloading;
mod renewal;
mod rude;
mod supervised;
mod unix;
mod websocket;
mod world;
