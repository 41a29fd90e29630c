//! Events that a session reports to its owner.
use super::super::{Publish, ReasonCode};
use std::sync::Arc;

/// An event of a session. The owner must handle every variant, so a new variant breaks the build.
#[derive(Debug)]
pub enum Event<T> {
    /// The session is new: subscriptions, sent PUBLISHes and pending messages of the old one are gone. Follows the
    /// [`Lost`](Self::Lost) events.
    SessionLost,
    /// A PUBLISH of the lost session was not acknowledged and is not sent again. These come in the order of sending.
    Lost {
        /// Tag from the sender.
        tag: T,
        /// Whether it may have reached the broker.
        maybe_delivered: bool,
        /// The PUBLISH itself, unless it may have reached the broker. The session returns it, so that its sender needs
        /// no copy to send it in the new session.
        publish: Option<Publish>,
        /// Statement of the sender that late delivery does no harm.
        is_harmless: bool,
    },
    /// A PUBLISH was not acknowledged and cannot be sent again: the broker now takes only smaller packets.
    TooLarge {
        /// Tag from the sender.
        tag: T,
        /// Whether it may have reached the broker.
        maybe_delivered: bool,
    },
    /// A PUBLISH that expired or was withdrawn did not reach the broker and is not sent again.
    Dropped {
        /// Tag from the sender.
        tag: T,
    },
    /// The session and its subscriptions are established: PUBLISHes can be sent.
    Ready {
        /// Whether the session from before the connection loss continues.
        resumed: bool,
    },
    /// The broker has accepted newer authentication data.
    Reauthenticated,
    /// A message arrived. It is acknowledged after the handler returned, unless the owner
    /// [does that](super::Session::with_manual_acks).
    Message {
        /// The message.
        publish: Publish,
        /// Topic of the PUBLISH, if it uses a topic alias.
        alias_topic: Option<Arc<str>>,
    },
    /// The broker acknowledged, or refused, a PUBLISH.
    Acknowledged {
        /// Tag from the sender.
        tag: T,
        /// How it went.
        reason: ReasonCode,
        /// Text for people.
        reason_string: Option<Box<str>>,
        /// Whether it was also sent on an earlier connection, where the broker may have taken it despite the reason.
        resent: bool,
    },
}
