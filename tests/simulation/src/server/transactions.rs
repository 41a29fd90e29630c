//! Transactions beside the work of the clients: their keys have one common value at any time, also on the disk.
use crate::transactor::{KEYS, Transactor};
use crate::world::World;
use statestored::hub::Hub;

impl World {
    /// Starts the client that makes transactions; the run has a disk that can lose changes.
    pub(super) fn start_transactions(&mut self, hub: &mut Hub) {
        let now = self.server_now();
        self.server.transactor = Transactor::new(hub, now);
        self.check_transactions();
    }

    /// Makes a transaction, if the last one is answered.
    pub(crate) fn transact(&mut self) {
        let now = self.server_now();
        if let Some(transactor) = &mut self.server.transactor {
            transactor.ask(&mut self.chance, now);
            self.settle();
        }
    }

    /// Reads the results of transactions, before their changes are recorded.
    pub(super) fn hear_of_transactions(&mut self) {
        let now = self.server_now();
        let (Some(hub), Some(transactor)) = (&mut self.server.hub, &mut self.server.transactor)
        else {
            return;
        };
        match transactor.take(hub, now) {
            Ok(versions) => {
                self.transactions += usize::from(!versions.is_empty());
                for (version, key) in versions.iter().zip(KEYS) {
                    let version = (version.wall_ms(), version.counter());
                    let (run, told) = (self.server.run, self.server.told);
                    if self.truth.is_under_way(key.as_bytes(), version, run, told) {
                        self.violated(format!("{key} was told of before it was durable"));
                    }
                }
            }
            Err(error) => self.violated(error),
        }
    }

    /// Checks that the last transaction was applied as a whole or not at all.
    pub(super) fn check_transactions(&mut self) {
        let present = &self.truth.present;
        let values = KEYS.map(|key| present.get(key.as_bytes()).map(|held| held.value.clone()));
        if values.iter().any(|value| *value != values[0]) {
            self.violated(format!("a part of a transaction is there: {values:?}"));
        }
    }
}
