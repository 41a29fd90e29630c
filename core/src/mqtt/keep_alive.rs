//! Keep-alive (MQTT 5, section 3.1.2.10), for both ends of a connection.
//!
//! Times are milliseconds on a clock that never jumps.

/// What the passing of time demands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Nothing.
    Nothing,
    /// Send a PINGREQ.
    Ping,
    /// Close the connection: the peer has been silent for too long.
    PeerDead,
}

/// Watches one connection.
#[derive(Debug, Clone)]
pub struct KeepAlive {
    role: Role,
    sent_ms: u64,
    received_ms: u64,
}

#[derive(Debug, Clone)]
enum Role {
    Off,
    Client {
        interval_ms: u64,
        answer_within_ms: u64,
        pinged_ms: Option<u64>,
    },
    Server {
        silence_ms: u64,
    },
}

impl KeepAlive {
    /// The client's end. It pings when it has sent **or** received nothing for `keep_alive_s`, and gives the connection
    /// up when then nothing arrives within `answer_within_ms`. 0 seconds switch it off.
    pub fn client(keep_alive_s: u16, answer_within_ms: u64, now_ms: u64) -> Self {
        let role = match keep_alive_s {
            0 => Role::Off,
            seconds => Role::Client {
                interval_ms: u64::from(seconds) * 1000,
                answer_within_ms,
                pinged_ms: None,
            },
        };
        Self {
            role,
            sent_ms: now_ms,
            received_ms: now_ms,
        }
    }

    /// The server's end. It gives the connection up after one and a half times `keep_alive_s` of silence. 0 seconds
    /// switch it off.
    pub fn server(keep_alive_s: u16, now_ms: u64) -> Self {
        let role = match keep_alive_s {
            0 => Role::Off,
            seconds => Role::Server {
                silence_ms: u64::from(seconds) * 1500,
            },
        };
        Self {
            role,
            sent_ms: now_ms,
            received_ms: now_ms,
        }
    }

    /// A packet was sent.
    pub fn sent(&mut self, now_ms: u64) {
        self.sent_ms = now_ms;
    }

    /// A packet was received.
    pub fn received(&mut self, now_ms: u64) {
        self.received_ms = now_ms;
        if let Role::Client { pinged_ms, .. } = &mut self.role {
            *pinged_ms = None;
        }
    }

    /// What to do now. A [`Due::Ping`] counts as sent.
    pub fn poll(&mut self, now_ms: u64) -> Due {
        if self.wake_at_ms().is_none_or(|at| now_ms < at) {
            return Due::Nothing;
        }
        match &mut self.role {
            Role::Client {
                pinged_ms: pinged @ None,
                ..
            } => {
                *pinged = Some(now_ms);
                self.sent_ms = now_ms;
                Due::Ping
            }
            _ => Due::PeerDead,
        }
    }

    /// When [`poll`](Self::poll) has something to say if nothing is sent or received until then.
    pub fn wake_at_ms(&self) -> Option<u64> {
        match self.role {
            Role::Off => None,
            Role::Client {
                pinged_ms: Some(pinged),
                answer_within_ms,
                ..
            } => Some(pinged.saturating_add(answer_within_ms)),
            Role::Client { interval_ms, .. } => Some(
                self.sent_ms
                    .min(self.received_ms)
                    .saturating_add(interval_ms),
            ),
            Role::Server { silence_ms } => Some(self.received_ms.saturating_add(silence_ms)),
        }
    }
}
