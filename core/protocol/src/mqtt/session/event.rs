//! What a session tells its owner.
use super::super::{Publish, ReasonCode};
use std::sync::Arc;

/// What happened. Whoever drives a session acts on each of these, therefore a new one breaks the build.
#[derive(Debug)]
pub enum Event<T> {
    /// The session is new: what was subscribed, sent or on its way in the old one is gone. Follows the
    /// [`Lost`](Self::Lost) events.
    SessionLost,
    /// A PUBLISH of the lost session was not acknowledged and is not sent again. These come in the order of sending.
    Lost {
        /// What its sender gave.
        tag: T,
        /// Whether it may have reached the broker.
        maybe_delivered: bool,
        /// What it was, unless it may have reached the broker: nobody else need keep it in order to send it in the new session.
        publish: Option<Publish>,
        /// What its sender said of it: it may arrive late without doing harm.
        is_harmless: bool,
    },
    /// A PUBLISH was not acknowledged and cannot be sent again: the broker now takes only smaller packets.
    TooLarge {
        /// What its sender gave.
        tag: T,
        /// Whether it may have reached the broker.
        maybe_delivered: bool,
    },
    /// A PUBLISH whose deadline has passed, or which was withdrawn, did not reach the broker and is not sent again.
    Dropped {
        /// What its sender gave.
        tag: T,
    },
    /// The session is there with its subscriptions: PUBLISHes can be sent.
    Ready {
        /// It is the one from before the connection was lost.
        resumed: bool,
    },
    /// The broker has accepted newer authentication data.
    Reauthenticated,
    /// A message arrived. It is acknowledged after the handler returned, unless the owner
    /// [does that](super::Session::acknowledged_by_owner).
    Message {
        /// The message.
        publish: Publish,
        /// Its topic, if a topic alias stands for it.
        alias_topic: Option<Arc<str>>,
    },
    /// The broker acknowledged, or refused, a PUBLISH.
    Acknowledged {
        /// What its sender gave.
        tag: T,
        /// How it went.
        reason: ReasonCode,
        /// Text for people.
        reason_string: Option<Box<str>>,
        /// It was sent on an earlier connection as well, and may have been taken there, whatever the reason says.
        resent: bool,
    },
}
