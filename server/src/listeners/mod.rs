//! The doors: where clients come in, and what they have to do before they are connections of the engine.
//!
//! ```text
//!   tcp://, unix://  ──accept──────────────────────────────────────────────▶ Arrival ─▶ driver
//!   tls://, ws://, wss://, and tcp:// with trusted proxies                      ▲
//!        └─accept─▶ Handshakes (a thread of its own): PROXY header ─▶ TLS ─▶ HTTP upgrade ─▶ Moved: a socket that changes the thread
//!                     │                                   │
//!                     ├─ places   how many may be there    └─ identity of the client's certificate ─▶ Peer
//!                     └─ crowd    who gives way
//! ```
//!
//! A handshake is expensive and its other end is nobody yet: it runs where it takes no time from those who are served, has a deadline,
//! and is cut when it is the oldest of whoever has most of them and there are too many. What comes out is a stream of bytes with a
//! [`Peer`](crate::access::Peer); encryption and frames are then done in the engine's own turns.
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

/// What a listener hands to the engine: a connection, or the peer of one that was closed at once since all places are taken.
pub(crate) type Accepted<S> = Result<Arrival<S>, Peer>;

/// A connection that the engine may have.
#[derive(Debug)]
pub(crate) struct Arrival<S> {
    pub(crate) stream: S,
    pub(crate) peer: Peer,
    pub(crate) place: Place,
}
