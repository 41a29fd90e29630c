//! The listeners, which accept connections and complete their handshakes before the engine receives them.
//!
//! ```text
//!   tcp://, unix://  ──accept──────────────────────────────────────────────▶ Arrival ─▶ driver
//!   tls://, ws://, wss://, and tcp:// with trusted proxies                      ▲
//!        └─accept─▶ Handshakes (a thread of its own): PROXY header ─▶ TLS ─▶ HTTP upgrade ─▶ Moved: a socket that changes the thread
//!                     │                                   │
//!                     ├─ places   limit of connections     └─ identity of the client's certificate ─▶ Peer
//!                     └─ crowd    limit of handshakes
//! ```
//!
//! A handshake is expensive, and its client is not authenticated yet. It therefore runs on a thread where it delays no other client,
//! and has a deadline. At the limit of handshakes, the network with the most of them loses its oldest one. The result is a stream of
//! bytes with a [`Peer`](crate::access::Peer); the engine's own thread does the encryption and framing from then on.
mod bound;
mod crowd;
mod handshake_limits;
mod handshakes;
pub(crate) mod open_door;
mod places;
mod proxy_protocol;
mod stream;
mod tcp;
mod tls;
mod unix;
mod websocket;

pub use bound::Listening;
pub(crate) use bound::{Bound, Listeners, check_free};
pub(crate) use handshake_limits::HandshakeLimits;
pub(crate) use handshakes::{Handshakes, Rules};
pub(crate) use open_door::AnonymousAudience;
pub use open_door::OpenDoor;
pub(crate) use places::{Place, Places};
pub(crate) use stream::Stream;
pub(crate) use tcp::bind;
pub(crate) use tls::{InForce, client_tls};
pub use tls::{Tls, TlsError};

use crate::access::Peer;

/// Value that a listener passes to the engine: a connection, or the peer of one that was closed immediately since the limit of
/// connections is reached.
pub(crate) type Accepted<S> = Result<Arrival<S>, Peer>;

/// A connection that is ready for the engine.
#[derive(Debug)]
pub(crate) struct Arrival<S> {
    pub(crate) stream: S,
    pub(crate) peer: Peer,
    pub(crate) place: Place,
}
