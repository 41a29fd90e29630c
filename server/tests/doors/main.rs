//! Listeners: TCP, TLS, WebSocket, Unix sockets; and the connections that they reject.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod anonymous_exposure;
mod authority;
mod certificate_errors;
mod certificates;
mod client_library;
mod daemon;
mod encrypted;
mod floods;
mod host_names;
mod http_tokens;
mod https;
mod proxies;
mod reloaded_limits;
mod reloading;
mod renewal;
mod slow_clients;
mod supervised;
mod tls_fixture;
mod unix;
mod websocket;
