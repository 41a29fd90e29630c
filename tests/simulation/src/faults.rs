//! Counters of each kind of fault, which show that a run had faults.
use std::fmt;
use std::ops::AddAssign;

macro_rules! mishaps {
    ($($kind:ident $text:literal,)*) => {
        /// A kind of fault.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Mishap {
            $(#[doc = $text] $kind,)*
        }

        impl Mishap {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$kind,)*];

            /// Returns a description of the fault.
            pub fn text(self) -> &'static str {
                match self {
                    $(Self::$kind => $text,)*
                }
            }
        }
    };
}

mishaps! {
    Refused "connection attempts refused",
    Unanswered "connection attempts unanswered",
    LateBytes "first bytes that came late",
    Split "bytes that arrived in pieces",
    CutAfterBytes "connections cut after some bytes",
    CutAfterTime "connections cut after some time",
    LostOnTheWay "cuts that lost what was on its way",
    Unnoticed "cuts that an end did not learn of",
    Overlapping "connections begun while the server had another one of the client",
    HeldUp "senders held up",
    Lowered "connections with lower limits",
    ShortSession "servers that end sessions early",
    Killed "servers killed",
    PowerFailed "failures of the power",
    Midst "ends in the midst of work on the disk",
    Stopped "orderly ends",
    LostAll "ends of servers without a disk",
    NotStarted "starts that failed",
    SlowSync "syncs of 100 ms and more",
    ShortWrite "short writes",
    NoSpace "calls without space",
    CannotReserve "space that could not be reserved",
    CallFailed "reads, writes and renames that failed",
    SyncFailed "syncs that failed",
    BytesLost "files that lost all that was not synced",
    Torn "files that lost a part of what was not synced",
    NamesLost "names that were lost, or came back",
    ClientClock "jumps of a client's wall clock",
    ServerClock "jumps of the server's wall clock",
    Paused "clients that stood still",
    Cancelled "cancelled calls",
    Restarted "clients made anew",
}

/// Counters of each kind of fault.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FaultCounts([u64; Mishap::ALL.len()]);

impl Default for FaultCounts {
    fn default() -> Self {
        Self([0; Mishap::ALL.len()])
    }
}

impl FaultCounts {
    pub(crate) fn count(&mut self, kind: Mishap) {
        self.add(kind, 1);
    }

    pub(crate) fn add(&mut self, kind: Mishap, times: usize) {
        self.0[kind as usize] += times as u64;
    }

    /// Returns the counter of this kind.
    pub fn of(&self, kind: Mishap) -> u64 {
        self.0[kind as usize]
    }
}

impl AddAssign for FaultCounts {
    fn add_assign(&mut self, other: Self) {
        for (all, more) in self.0.iter_mut().zip(other.0) {
            *all += more;
        }
    }
}

impl fmt::Debug for FaultCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = Mishap::ALL.iter();
        f.debug_map()
            .entries(kinds.map(|kind| (kind.text(), self.of(*kind))))
            .finish()
    }
}
