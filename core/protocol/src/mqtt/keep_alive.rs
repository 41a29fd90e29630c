//! Keep-alive (MQTT 5, section 3.1.2.10), for both ends of a connection.
//!
//! A connection lives as long as bytes move on it, whole packets or not: on a slow link a large packet takes longer than any
//! keep-alive. Times are milliseconds on a clock that never jumps.

/// An action that a client's keep-alive timer requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepAliveAction {
    /// No action.
    Nothing,
    /// Send a PINGREQ.
    Ping,
    /// Close the connection: the peer has been silent for too long.
    PeerDead,
}

/// Milliseconds of silence after which a PINGREQ is sent while an answer is pending.
const PROBE_AFTER_MS: u64 = 2_000;
/// Milliseconds that this PINGREQ may stay unanswered, plus the transmission time of the bytes in front of it.
const PROBE_TIMEOUT_MS: u64 = 2_500;
/// Bandwidth of the slowest supported link in bytes per millisecond: 1 Mbit/s.
const SLOW_LINK: u64 = 125;

const NEVER: u64 = u64::MAX;

/// The keep-alive state of a client's connection.
///
/// The client sends a PINGREQ when it has sent **or** received nothing for the keep-alive time. While an answer is
/// pending, it also sends one after two seconds without received bytes. The connection counts as dead in these cases:
/// - Nothing arrives within the ping time-out after the PINGREQ left. While an answer is pending, the limit is 2.5
///   seconds, plus the transmission time on a 1 Mbit/s link of the bytes sent since the last received ones.
/// - Bytes wait to be written, and for the ping time-out the transport takes none and none arrive.
#[derive(Debug, Clone)]
pub struct ClientKeepAlive {
    /// 0 switches everything off.
    interval_ms: u64,
    ping_timeout_ms: u64,
    sent_ms: u64,
    received_ms: u64,
    /// Time at which the transport last took bytes after a delay. Only a delayed write shows that the peer took earlier
    /// bytes: bytes taken at once may lie in a local buffer.
    drained_ms: u64,
    /// Bytes that were handed out and not taken by the transport.
    unwritten: usize,
    /// Bytes that were handed out since bytes were last received.
    unanswered: u64,
    ping: PingState,
    /// Time of the next check for an overdue answer. It may be early, so that not every request resets it.
    probe_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PingState {
    None,
    /// Not handed out yet.
    Requested,
    /// The transport has not taken all bytes that were handed out with it.
    Writing,
    Sent(u64),
}

impl ClientKeepAlive {
    /// Creates the state for a new connection. A keep-alive of 0 seconds turns the timer off.
    pub fn new(keep_alive_s: u16, answer_within_ms: u64, now_ms: u64) -> Self {
        Self {
            interval_ms: u64::from(keep_alive_s) * 1000,
            ping_timeout_ms: answer_within_ms,
            sent_ms: now_ms,
            received_ms: now_ms,
            drained_ms: now_ms,
            unwritten: 0,
            unanswered: 0,
            ping: PingState::None,
            probe_ms: NEVER,
        }
    }

    /// Sets the keep-alive time that the broker chose.
    pub fn set_interval(&mut self, keep_alive_s: u16) {
        self.interval_ms = u64::from(keep_alive_s) * 1000;
    }

    /// Records that all pending output, `bytes` of it, was handed out for writing. `awaits` is true if the client
    /// expects an answer to any of it, or to earlier output.
    pub fn output_taken(&mut self, bytes: usize, awaits: bool, now_ms: u64) {
        self.sent_ms = now_ms;
        self.unwritten += bytes;
        self.unanswered += bytes as u64;
        if self.ping == PingState::Requested {
            self.ping = PingState::Writing;
        }
        if awaits && self.probe_ms == NEVER {
            self.probe_ms = now_ms.saturating_add(PROBE_AFTER_MS);
        }
    }

    /// Records that the transport took `bytes` of the output; `waited` is true if it did not take them at once.
    pub fn written(&mut self, bytes: usize, waited: bool, now_ms: u64) {
        if waited {
            self.drained_ms = now_ms;
        }
        self.unwritten = self.unwritten.saturating_sub(bytes);
        if self.unwritten == 0 && self.ping == PingState::Writing {
            self.ping = PingState::Sent(now_ms);
        }
    }

    /// Records that bytes were received.
    pub fn received(&mut self, now_ms: u64) {
        self.received_ms = now_ms;
        self.unanswered = 0;
        self.ping = PingState::None;
    }

    /// Returns when the transport last took bytes after a delay; `None` while bytes wait for it.
    pub(crate) fn drained_ms(&self) -> Option<u64> {
        (self.unwritten == 0).then_some(self.drained_ms)
    }

    /// Returns the action that is due now. `awaits` is true if an answer is pending. The next output must contain a
    /// PINGREQ after [`KeepAliveAction::Ping`].
    pub fn poll(&mut self, awaits: bool, now_ms: u64) -> KeepAliveAction {
        if self.wake_at_ms(awaits).is_none_or(|at_ms| now_ms < at_ms) {
            return KeepAliveAction::Nothing;
        }
        if now_ms >= self.dead_at_ms(awaits) {
            return KeepAliveAction::PeerDead;
        }
        let mut ping_at_ms = self.idle_at_ms();
        if now_ms >= self.probe_ms {
            let silent_at_ms = self.received_ms.saturating_add(PROBE_AFTER_MS);
            self.probe_ms = match awaits {
                false => NEVER,
                true if silent_at_ms > now_ms => silent_at_ms,
                true => {
                    ping_at_ms = now_ms;
                    now_ms.saturating_add(PROBE_AFTER_MS)
                }
            };
        }
        // A PINGREQ cannot overtake bytes that wait to be written, and those bytes test the connection as well.
        if self.ping == PingState::None && self.unwritten == 0 && now_ms >= ping_at_ms {
            self.ping = PingState::Requested;
            return KeepAliveAction::Ping;
        }
        KeepAliveAction::Nothing
    }

    /// Returns the time at which [`poll`](Self::poll) may require an action if nothing is sent or received until then.
    pub fn wake_at_ms(&self, awaits: bool) -> Option<u64> {
        if self.interval_ms == 0 {
            return None;
        }
        let ping_at_ms = match self.ping {
            PingState::None if self.unwritten == 0 => self.idle_at_ms(),
            _ => NEVER,
        };
        Some(ping_at_ms.min(self.probe_ms).min(self.dead_at_ms(awaits)))
    }

    fn idle_at_ms(&self) -> u64 {
        self.sent_ms
            .min(self.received_ms)
            .saturating_add(self.interval_ms)
    }

    fn dead_at_ms(&self, awaits: bool) -> u64 {
        let stuck_ms = if self.unwritten > 0 {
            let moved_ms = self.received_ms.max(self.drained_ms).max(self.sent_ms);
            moved_ms.saturating_add(self.ping_timeout_ms)
        } else {
            NEVER
        };
        let PingState::Sent(left_ms) = self.ping else {
            return stuck_ms;
        };
        let within_ms = if awaits {
            let probe_ms = PROBE_TIMEOUT_MS.saturating_add(self.unanswered / SLOW_LINK);
            self.ping_timeout_ms.min(probe_ms)
        } else {
            self.ping_timeout_ms
        };
        let silent_ms = left_ms.max(self.drained_ms).saturating_add(within_ms);
        stuck_ms.min(silent_ms)
    }
}

/// Minimum average growth of an incomplete packet, in bytes per second.
const PARTIAL_BYTES_PER_S: u64 = 1024;

/// The keep-alive state of a server's connection.
///
/// The server closes the connection after one and a half times the keep-alive time without a byte. The specification
/// counts packets, [MQTT-3.1.2-22]. With that rule, a client on a slow link would lose its connection in the middle of
/// every large packet. A packet that has begun must be complete within that time plus one second for each 1,024
/// received bytes of it. This limit stops clients that keep a connection open with an occasional byte.
#[derive(Debug, Clone)]
pub struct ServerKeepAlive {
    /// 0 switches it off.
    silence_ms: u64,
    received_ms: u64,
    /// Since when a packet is incomplete, and how much of it there is.
    partial: Option<(u64, u64)>,
    paused_ms: Option<u64>,
}

impl ServerKeepAlive {
    /// Creates the state for a new connection. A keep-alive of 0 seconds turns the timer off.
    pub fn new(keep_alive_s: u16, now_ms: u64) -> Self {
        Self {
            silence_ms: u64::from(keep_alive_s) * 1500,
            received_ms: now_ms,
            partial: None,
            paused_ms: None,
        }
    }

    /// Records that bytes were received.
    pub fn received(&mut self, now_ms: u64) {
        self.received_ms = now_ms;
    }

    /// Records that every complete packet was decoded, and that `bytes` of an incomplete one are left. Call it after
    /// each [`received`](Self::received). `is_new` is true if a packet was decoded: the remaining bytes then belong to
    /// another packet than before.
    pub fn partial(&mut self, bytes: usize, is_new: bool, now_ms: u64) {
        self.partial = match (bytes, self.partial) {
            (0, _) => None,
            (_, Some((since_ms, _))) if !is_new => Some((since_ms, bytes as u64)),
            _ => Some((now_ms, bytes as u64)),
        };
    }

    /// Records that the server stops reading. No bytes can arrive, so the timers stand still until [`resumed`](Self::resumed).
    pub fn paused(&mut self, now_ms: u64) {
        self.paused_ms.get_or_insert(now_ms);
    }

    /// Records that the server reads from the connection again.
    pub fn resumed(&mut self, now_ms: u64) {
        if let Some(paused_ms) = self.paused_ms.take() {
            let pause_ms = now_ms.saturating_sub(paused_ms);
            self.received_ms = self.received_ms.saturating_add(pause_ms);
            if let Some((since_ms, _)) = &mut self.partial {
                *since_ms = since_ms.saturating_add(pause_ms);
            }
        }
    }

    /// Returns whether the connection is to be closed.
    pub fn is_expired(&self, now_ms: u64) -> bool {
        self.wake_at_ms().is_some_and(|at_ms| now_ms >= at_ms)
    }

    /// Returns when the connection [is over](Self::is_expired) if no bytes arrive until then.
    pub fn wake_at_ms(&self) -> Option<u64> {
        if self.silence_ms == 0 || self.paused_ms.is_some() {
            return None;
        }
        let silent_ms = self.received_ms.saturating_add(self.silence_ms);
        let slow_ms = self.partial.map_or(NEVER, |(since_ms, bytes)| {
            let earned_ms = bytes * 1000 / PARTIAL_BYTES_PER_S;
            since_ms
                .saturating_add(self.silence_ms)
                .saturating_add(earned_ms)
        });
        Some(silent_ms.min(slow_ms))
    }
}
