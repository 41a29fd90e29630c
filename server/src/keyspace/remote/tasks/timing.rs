//! What time does to what is under way.
use super::Tasks;
use crate::clock::Now;
use crate::keyspace::End;
use crate::keyspace::remote::task::{Stage, TaskId};

/// The time of what has no deadline.
const MOST_MS: u64 = 60_000;

impl Tasks {
    /// The deadline of what is asked at this time and has none.
    pub(in crate::keyspace::remote) fn deadline(now: Now) -> u64 {
        now.mono_ms.saturating_add(MOST_MS)
    }

    /// The engine is away: what was not sent to it to be made does not happen.
    pub(in crate::keyspace::remote) fn give_up(&mut self) {
        let unsent = self.by_id.iter().filter(|(_, task)| match &task.stage {
            Stage::Behind
            | Stage::ToRead
            | Stage::Confirming
            | Stage::Reading
            | Stage::ReadLater => true,
            Stage::ToCommit(attempt) => !attempt.is_open,
            Stage::Committing(_) | Stage::CommitLater(_) | Stage::Settling(..) => false,
        });
        let mut unsent: Vec<_> = unsent.map(|(id, _)| *id).collect();
        // In an order that is the same in each run of a seed.
        unsent.sort_unstable();
        for id in unsent {
            self.end(id, End::Away);
        }
    }

    /// Lets time pass.
    pub(in crate::keyspace::remote) fn pass(&mut self, now: Now) {
        while let Some(&(at_ms, id)) = self.timers.first()
            && at_ms <= now.mono_ms
        {
            self.timers.pop_first();
            let Some(task) = self.by_id.get_mut(&id) else {
                continue;
            };
            if task.deadline_ms <= now.mono_ms {
                let may_happen = match &task.stage {
                    Stage::Behind
                    | Stage::ToRead
                    | Stage::Confirming
                    | Stage::Reading
                    | Stage::ReadLater => false,
                    Stage::ToCommit(attempt) => attempt.is_open,
                    Stage::Committing(_) | Stage::CommitLater(_) | Stage::Settling(..) => true,
                };
                self.end(
                    id,
                    if may_happen {
                        End::Unknown
                    } else {
                        End::Expired
                    },
                );
                continue;
            }
            task.later_ms = None;
            match std::mem::replace(&mut task.stage, Stage::Behind) {
                Stage::ReadLater => self.put_stage(id, Stage::ToRead),
                Stage::CommitLater(attempt) => self.put_stage(id, Stage::ToCommit(attempt)),
                stage => task.stage = stage,
            }
        }
    }

    pub(in crate::keyspace::remote) fn next_ms(&self) -> Option<u64> {
        self.timers.first().map(|(at_ms, _)| *at_ms)
    }

    pub(super) fn go_on_later(&mut self, id: TaskId, at_ms: u64) {
        if let Some(task) = self.by_id.get_mut(&id) {
            task.later_ms = Some(at_ms);
            self.timers.insert((at_ms, id));
        }
    }
}
