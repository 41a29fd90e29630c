//! Why connections end.
use statestore_protocol::mqtt::ReasonCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The reason why a connection of a client ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// DISCONNECT of the client with "normal disconnection".
    ClientDisconnect,
    /// DISCONNECT of the client with another reason, so that its will is published.
    ClientDisconnectWithWill,
    /// The client closed the connection without a DISCONNECT.
    ClientClosed,
    /// The network connection failed, such as by a reset or a time-out of TCP.
    NetworkError,
    /// No CONNECT came in time.
    ConnectTimeout,
    /// No packet arrived for one and a half times the keep-alive.
    KeepAliveTimeout,
    /// CONNECT was answered with an error.
    ConnectRefused,
    /// Another connection took the session over.
    TakenOver,
    /// A malformed packet, or one that the protocol does not allow.
    ProtocolError,
    /// A packet exceeds the Maximum Packet Size of either side.
    PacketTooLarge,
    /// The client does not read what it is sent.
    SlowReader,
    /// The server needed the memory that the connection held.
    Evicted,
    /// The token expired, and the client sent no newer one.
    TokenExpired,
    /// The client authenticated again and was refused.
    ReauthenticationRefused,
    /// A reload removed the user, changed the password, or took rights away.
    AccessChanged,
    /// An administrator disconnected the client.
    Administrator,
    /// An administrator drained the server.
    Drained,
    /// There were too many connections.
    TooManyConnections,
    /// A handshake of TLS or WebSocket failed.
    HandshakeFailed,
    /// A handshake of TLS or WebSocket took too long.
    HandshakeTimeout,
    /// There were too many handshakes.
    HandshakeEvicted,
    /// The storage failed.
    StorageFailed,
    /// The server stopped.
    ServerStopped,
}

impl EndReason {
    /// All reasons, in the order of [`EndCounts`].
    pub(crate) const ALL: [Self; 23] = [
        Self::ClientDisconnect,
        Self::ClientDisconnectWithWill,
        Self::ClientClosed,
        Self::NetworkError,
        Self::ConnectTimeout,
        Self::KeepAliveTimeout,
        Self::ConnectRefused,
        Self::TakenOver,
        Self::ProtocolError,
        Self::PacketTooLarge,
        Self::SlowReader,
        Self::Evicted,
        Self::TokenExpired,
        Self::ReauthenticationRefused,
        Self::AccessChanged,
        Self::Administrator,
        Self::Drained,
        Self::TooManyConnections,
        Self::HandshakeFailed,
        Self::HandshakeTimeout,
        Self::HandshakeEvicted,
        Self::StorageFailed,
        Self::ServerStopped,
    ];

    /// Returns its name in metrics and in the log.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClientDisconnect => "client_disconnect",
            Self::ClientDisconnectWithWill => "client_disconnect_with_will",
            Self::ClientClosed => "client_closed",
            Self::NetworkError => "network_error",
            Self::ConnectTimeout => "connect_timeout",
            Self::KeepAliveTimeout => "keep_alive_timeout",
            Self::ConnectRefused => "connect_refused",
            Self::TakenOver => "taken_over",
            Self::ProtocolError => "protocol_error",
            Self::PacketTooLarge => "packet_too_large",
            Self::SlowReader => "slow_reader",
            Self::Evicted => "evicted",
            Self::TokenExpired => "token_expired",
            Self::ReauthenticationRefused => "reauthentication_refused",
            Self::AccessChanged => "access_changed",
            Self::Administrator => "administrator",
            Self::Drained => "drained",
            Self::TooManyConnections => "too_many_connections",
            Self::HandshakeFailed => "handshake_failed",
            Self::HandshakeTimeout => "handshake_timeout",
            Self::HandshakeEvicted => "handshake_evicted",
            Self::StorageFailed => "storage_failed",
            Self::ServerStopped => "server_stopped",
        }
    }

    /// Returns the reason that the reason code of a DISCONNECT to the client stands for, where the code says it all.
    pub(crate) fn from_reason_code(code: ReasonCode) -> Self {
        match code {
            ReasonCode::SESSION_TAKEN_OVER => Self::TakenOver,
            ReasonCode::SERVER_SHUTTING_DOWN => Self::ServerStopped,
            ReasonCode::KEEP_ALIVE_TIMEOUT => Self::KeepAliveTimeout,
            ReasonCode::ADMINISTRATIVE_ACTION => Self::Administrator,
            ReasonCode::USE_ANOTHER_SERVER => Self::Drained,
            ReasonCode::PACKET_TOO_LARGE => Self::PacketTooLarge,
            ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR => Self::StorageFailed,
            _ => Self::ProtocolError,
        }
    }

    /// Whether the client or its network is at fault.
    pub(crate) fn is_failure(self) -> bool {
        !matches!(
            self,
            Self::ClientDisconnect
                | Self::ClientDisconnectWithWill
                | Self::ClientClosed
                | Self::ConnectRefused
                | Self::TakenOver
                | Self::Drained
                | Self::ServerStopped
        )
    }
}

/// Numbers of ended connections by reason, shared by the threads that end them.
#[derive(Debug, Clone, Default)]
pub struct EndCounts(Arc<[AtomicU64; EndReason::ALL.len()]>);

impl EndCounts {
    /// Counts one more connection that ended for this reason.
    pub fn count(&self, reason: EndReason) {
        // Each counter stands for itself.
        self.0[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the names of all reasons, with the numbers.
    pub fn read(&self) -> [(&'static str, u64); EndReason::ALL.len()] {
        EndReason::ALL.map(|reason| {
            let count = self.0[reason as usize].load(Ordering::Relaxed);
            (reason.name(), count)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_counted_in_declaration_order() {
        let counts = EndCounts::default();
        for (at, reason) in EndReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, at, "{}", reason.name());
            counts.count(reason);
        }
        assert!(counts.read().iter().all(|(_, count)| *count == 1));
    }
}
