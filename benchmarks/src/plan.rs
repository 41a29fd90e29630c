//! Settings that all measurements share.

use crate::{load::Workload, process::Server};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::runtime::{Builder, Runtime};

/// The extent of the measurements, and the builds to measure.
#[derive(Debug)]
pub struct BenchmarkPlan {
    /// Rounds of each row.
    pub rounds: usize,
    /// Duration of each round.
    pub time: Duration,
    /// The server of this checkout.
    pub statestored: PathBuf,
    /// A folder with programs of another build.
    pub before: Option<PathBuf>,
}

/// A build of the server, and its mark in the names of rows.
#[derive(Debug, Clone)]
pub struct ServerBuild {
    /// Suffix of the row: empty, or a mark of the former build.
    pub mark: &'static str,
    /// Path of its `statestored`.
    pub binary: PathBuf,
}

impl BenchmarkPlan {
    /// Returns the builds of the server to be measured: this one, and the former one if there is one.
    pub fn builds(&self) -> Vec<ServerBuild> {
        let now = ServerBuild {
            mark: "",
            binary: self.statestored.clone(),
        };
        let before = self.before.as_ref().map(|folder| ServerBuild {
            mark: ", server before",
            binary: folder.join("statestored"),
        });
        [now].into_iter().chain(before).collect()
    }

    /// Starts a server of each build with memory storage; returns it with the mark of its build.
    pub fn in_memory(&self) -> Vec<(&'static str, Server)> {
        let builds = self.builds().into_iter();
        builds
            .map(|build| (build.mark, build.in_memory(&[])))
            .collect()
    }

    /// Returns a mix of half GET, half SET, on this number of keys.
    pub fn mix(&self, in_flight: usize, keys: u64) -> Workload {
        Workload {
            in_flight,
            time: self.time,
            set_percentage: 50,
            keys,
        }
    }
}

impl ServerBuild {
    /// Starts the server with memory storage.
    pub fn in_memory(&self, more: &[&str]) -> Server {
        Server::statestored(&self.binary, None, more)
    }

    /// Starts the server with its data in a folder.
    pub fn durable(&self, folder: &Path) -> Server {
        Server::statestored(&self.binary, Some(folder), &[])
    }
}

/// Creates a runtime on the thread that waits for its work.
pub fn one_thread() -> Runtime {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
}

/// Creates a runtime with a thread per core.
pub fn thread_per_core() -> Runtime {
    Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime")
}
