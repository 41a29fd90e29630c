//! Reads of keys that are known: the engine is asked only how far it is, once for all that wait for that. What is known is the answer as
//! soon as all changes up to there are known.
use super::Tasks;
use crate::keyspace::remote::engine::{AskId, Revision};
use crate::keyspace::remote::guesses::Guesses;
use crate::keyspace::remote::plan::{Decision, Stamps};
use crate::keyspace::remote::sights::Sights;
use crate::keyspace::remote::task::{Stage, TaskId};

/// Most questions under way. While these are, others gather.
const UNDER_WAY: usize = 4;

/// For so long a change that the engine has made may not be known here. Then the engine is asked for what keys hold.
const PATIENCE_MS: u64 = 20;

#[derive(Debug, Default)]
pub(in crate::keyspace::remote) struct Confirming {
    /// The next question is for these.
    gathered: Vec<TaskId>,
    asked: Vec<(AskId, Vec<TaskId>)>,
    behind: Vec<Behind>,
    /// How far the engine was when the watch was too late.
    too_late: Option<Revision>,
    is_possible: bool,
}

/// These wait until all changes up to a revision are known, or until then.
#[derive(Debug)]
struct Behind {
    at: Revision,
    until_ms: u64,
    tasks: Vec<TaskId>,
}

impl Confirming {
    /// All changes up to `known` are known, and the engine can be asked how far it is; nothing if not.
    pub(in crate::keyspace::remote) fn known(&mut self, known: Option<Revision>) {
        self.is_possible = known.is_some_and(|known| self.too_late.is_none_or(|at| known >= at));
    }

    /// Whether the engine is to be asked now.
    pub(in crate::keyspace::remote) fn is_due(&self) -> bool {
        !self.gathered.is_empty() && self.asked.len() < UNDER_WAY
    }

    /// It was asked under this name.
    pub(in crate::keyspace::remote) fn asked(&mut self, ask: AskId) {
        self.asked.push((ask, std::mem::take(&mut self.gathered)));
    }

    /// For whom this is the answer.
    pub(in crate::keyspace::remote) fn answered(&mut self, ask: AskId) -> Vec<TaskId> {
        let place = self.asked.iter().position(|(asked, _)| *asked == ask);
        place.map_or_else(Vec::new, |place| self.asked.remove(place).1)
    }

    /// Changes up to this revision are not known yet.
    pub(in crate::keyspace::remote) fn wait(
        &mut self,
        at: Revision,
        now_ms: u64,
        tasks: Vec<TaskId>,
    ) {
        self.behind.push(Behind {
            at,
            until_ms: now_ms + PATIENCE_MS,
            tasks,
        });
    }

    /// Those who do not have to wait any longer: all changes up to there are known.
    pub(in crate::keyspace::remote) fn take_known(&mut self, known: Revision) -> Vec<TaskId> {
        if self.behind.is_empty() {
            return Vec::new();
        }
        let ready = self.behind.extract_if(.., |behind| behind.at <= known);
        ready.flat_map(|behind| behind.tasks).collect()
    }

    /// Those who have waited in vain.
    pub(in crate::keyspace::remote) fn take_late(&mut self, now_ms: u64) -> Vec<TaskId> {
        let mut all = Vec::new();
        for late in self
            .behind
            .extract_if(.., |behind| behind.until_ms <= now_ms)
        {
            self.too_late = self.too_late.max(Some(late.at));
            all.extend(late.tasks);
        }
        all
    }

    /// Changes may be missed: nobody waits for them any longer.
    pub(in crate::keyspace::remote) fn take_all_behind(&mut self) -> Vec<TaskId> {
        self.too_late = None;
        let all = std::mem::take(&mut self.behind).into_iter();
        all.flat_map(|behind| behind.tasks).collect()
    }

    pub(in crate::keyspace::remote) fn next_ms(&self) -> Option<u64> {
        self.behind.iter().map(|behind| behind.until_ms).min()
    }
}

impl Tasks {
    /// Whether it is read as soon as it is known how far the engine is: then it waits for that.
    pub(super) fn confirm(&mut self, id: TaskId, guesses: &Guesses) -> bool {
        if !self.confirming.is_possible {
            return false;
        }
        let Some(task) = self.by_id.get_mut(&id) else {
            return false;
        };
        let is_known = || matches!(&task.keys[..], [key] if guesses.has(key));
        if !matches!(task.stage, Stage::ToRead)
            || task.is_plain
            || !task.work.only_looks()
            || !is_known()
        {
            return false;
        }
        task.stage = Stage::Confirming;
        self.confirming.gathered.push(id);
        true
    }

    /// What is known of their keys is what the engine has. Gives how many that answers.
    pub(in crate::keyspace::remote) fn confirmed(
        &mut self,
        ids: Vec<TaskId>,
        guesses: &mut Guesses,
        sights: &Sights,
        stamps: Stamps,
    ) -> u64 {
        let mut count = 0;
        for id in ids {
            let Some(task) = self.by_id.get(&id) else {
                continue;
            };
            if !matches!(task.stage, Stage::Confirming) {
                continue;
            }
            let seen = guesses.of(&task.keys).filter(|seen| {
                let mut records = task.keys.iter().zip(seen);
                // What ends some day is answered only by those who have seen when that is.
                records.all(|(key, seen)| match &seen.record {
                    Some((record, revision)) if record.expiry().is_some() => {
                        sights.left_ms(key, *revision, stamps.now).is_some()
                    }
                    _ => true,
                })
            });
            let decision = seen.map(|seen| self.decision(task, &seen, sights, stamps));
            if let Some(Decision::Ended(end)) = decision {
                count += 1;
                self.end(id, end);
            } else {
                self.read_plainly(id);
            }
        }
        count
    }

    /// The engine is asked what their keys hold.
    pub(in crate::keyspace::remote) fn unconfirmed(&mut self, ids: Vec<TaskId>) {
        for id in ids {
            self.read_plainly(id);
        }
    }

    fn read_plainly(&mut self, id: TaskId) {
        if let Some(task) = self.by_id.get_mut(&id)
            && matches!(task.stage, Stage::Confirming)
        {
            task.is_plain = true;
            self.put_stage(id, Stage::ToRead);
        }
    }
}
