//! The listeners, which accept connections and complete their handshakes before the engine receives them.
//!
//! ```text
//!   tcp://, unix://  ──accept──────────────────────────────────────────────▶ AcceptedConnection ─▶ driver
//!   tls://, ws://, wss://, and tcp:// with trusted proxies                      ▲
//!        └─accept─▶ HandshakeThread: PROXY header ─▶ TLS ─▶ HTTP upgrade ─▶ DetachedStream: a socket that changes the thread
//!                     │                                   │
//!                     ├─ connection_limiter                └─ identity of the client's certificate ─▶ Peer
//!                     └─ handshake_limiter
//! ```
//!
//! A handshake is expensive, and its client is not authenticated yet. It therefore runs on a thread where it delays no other client,
//! and has a deadline. At the limit of handshakes, the network with the most of them loses its oldest one. The result is a stream of
//! bytes with a [`Peer`]; the engine's own thread does the encryption and framing from then on.
#![forbid(unsafe_code)]

pub mod anonymous_exposure;
mod bound_sockets;
mod connection_limiter;
mod error;
mod handshake_limiter;
mod handshake_limits;
mod handshake_thread;
mod https;
mod listen_address;
mod listener_config;
mod proxy_protocol;
mod stream;
mod subnet;
mod tcp;
mod tls;
mod tls_failure;
mod unix;
mod websocket;

pub use anonymous_exposure::AnonymousAudience;
pub use bound_sockets::BoundAddress;
pub use bound_sockets::{BoundSockets, Listeners, check_free};
pub use connection_limiter::{ConnectionLimiter, ConnectionPermit};
pub use error::{AnonymousExposure, ListenError};
pub use handshake_limits::HandshakeLimits;
pub use handshake_thread::{CompletedHandshakes, HandshakeConfig, HandshakeThread};
pub use https::accept_https;
pub use listen_address::{ListenAddress, Scheme, parse_host_and_port};
pub use listener_config::ListenerConfig;
pub use stream::Stream;
pub use subnet::Subnet;
pub use tcp::bind;
pub use tls::{ActiveTls, PresentedCertificates, client_tls, renew};
pub use tls::{ClientCertificates, Tls, TlsError, TlsFiles};
pub use tls_failure::TlsFailureCounts;

use statestored_access::Peer;

/// Value that a listener passes to the engine: a connection, or the peer of one that was closed immediately since the limit of
/// connections is reached.
pub type AcceptResult<S> = Result<AcceptedConnection<S>, Peer>;

/// A connection that is ready for the engine.
#[derive(Debug)]
pub struct AcceptedConnection<S> {
    /// Stream of the connection.
    pub stream: S,
    /// Address and identity of the client.
    pub peer: Peer,
    /// Place of the connection among all.
    pub permit: ConnectionPermit,
}
