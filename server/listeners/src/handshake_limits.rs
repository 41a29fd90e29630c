//! Limits of handshakes, which a reload can change.
use statestored_broker::hub::HubLimits;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Divisor of the maximum number of connections that gives the limit of handshakes.
const CONNECTIONS_DIVISOR: usize = 4;
/// Minimum of the limit. This number of handshakes completes within a second.
const MIN_HANDSHAKES: usize = 64;
/// Maximum of the limit. The computations of this number of handshakes take less than a second.
const MAX_HANDSHAKES: usize = 1024;

/// Memory of a handshake: rustls buffers up to 64 KiB of a message before it parses it.
const HANDSHAKE_BYTES: usize = 80 * 1024;

/// Divisor of the memory limit of sessions that gives the memory limit of handshakes.
const MEMORY_DIVISOR: usize = 4;

/// Current limits, shared by the threads of the engine and of the handshakes.
#[derive(Debug, Clone)]
pub struct HandshakeLimits(Arc<Values>);

#[derive(Debug, Default)]
struct Values {
    max_handshakes: AtomicUsize,
    audit_rate: AtomicU32,
}

impl HandshakeLimits {
    /// Creates the limits of handshakes from those of the hub.
    pub fn new(limits: &HubLimits) -> Self {
        let this = Self(Arc::default());
        this.set(limits);
        this
    }

    /// Derives the limits from those of connections and sessions. Handshakes beyond them stay until the next one comes.
    pub fn set(&self, limits: &HubLimits) {
        let of_memory = limits.max_session_bytes / MEMORY_DIVISOR / HANDSHAKE_BYTES;
        let of_places = limits.max_connections / CONNECTIONS_DIVISOR;
        let most = of_places
            .min(of_memory)
            .clamp(MIN_HANDSHAKES, MAX_HANDSHAKES);
        // The values guard no other memory.
        self.0.max_handshakes.store(most, Ordering::Relaxed);
        let audit_rate = limits.audit.max_lines_per_second;
        self.0.audit_rate.store(audit_rate, Ordering::Relaxed);
    }

    /// Maximum number of handshakes at a time.
    pub(super) fn max_handshakes(&self) -> usize {
        self.0.max_handshakes.load(Ordering::Relaxed)
    }

    /// Maximum number of lines of the audit trail in a second; 0 for no limit.
    pub(super) fn audit_rate(&self) -> u32 {
        self.0.audit_rate.load(Ordering::Relaxed)
    }
}
