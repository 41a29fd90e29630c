//! Transactions beside the work of the clients: their keys have one common value at any time, also on the disk.
use super::transaction_client::{KEYS, TransactionClient};
use crate::simulation::Simulation;
use statestored_broker::hub::Hub;

impl Simulation {
    /// Starts the client that makes transactions; the run has a disk that can lose changes.
    pub(super) fn start_transactions(&mut self, hub: &mut Hub) {
        let now = self.server_now();
        self.server.transaction_client = TransactionClient::new(hub, now);
        self.check_transactions();
    }

    /// Makes a transaction, if the last one is answered.
    pub(crate) fn transact(&mut self) {
        let now = self.server_now();
        if let Some(transactor) = &mut self.server.transaction_client {
            transactor.start(&mut self.chance, now);
            self.settle();
        }
    }

    /// Reads the results of transactions, before their changes are recorded.
    pub(super) fn receive_transactions(&mut self) {
        let now = self.server_now();
        let (Some(hub), Some(transactor)) =
            (&mut self.server.hub, &mut self.server.transaction_client)
        else {
            return;
        };
        match transactor.exchange(hub, now) {
            Ok(versions) => {
                self.transactions += usize::from(!versions.is_empty());
                for (version, key) in versions.iter().zip(KEYS) {
                    let version = (version.wall_ms(), version.counter());
                    let (run, told) = (self.server.run, self.server.reported_durable);
                    if self
                        .ground_truth
                        .is_in_flight(key.as_bytes(), version, run, told)
                    {
                        self.violated(format!("{key} was told of before it was durable"));
                    }
                }
            }
            Err(error) => self.violated(error),
        }
    }

    /// Checks that the last transaction was applied as a whole or not at all.
    pub(super) fn check_transactions(&mut self) {
        let present = &self.ground_truth.present;
        let values = KEYS.map(|key| present.get(key.as_bytes()).map(|held| held.value.clone()));
        if values.iter().any(|value| *value != values[0]) {
            self.violated(format!("a part of a transaction is there: {values:?}"));
        }
    }
}
