//! The faults of a run: one after the other, each kind equally often.
use crate::faults::{Fault, FaultDeck};
use crate::key_clients;
use crate::lock_clients::LEASE;
use crate::run_state::RunState;
use crate::server::Server;
use harness::proxy::{AcceptMode, CutKind, Direction, Proxy};
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// The servers, the clients, and the sequence of faults.
#[derive(Debug)]
pub struct FaultInjector<'a> {
    /// The clients and their proxies.
    pub world: &'a RunState,
    /// A server, or two over one engine.
    pub servers: Vec<Server>,
    /// Random generator of the run.
    pub chance: fastrand::Rng,
    /// Deck of the faults to come.
    pub deck: FaultDeck,
    /// Number of keys with a history that has an order.
    pub checked_keys: usize,
}

impl FaultInjector<'_> {
    /// Causes faults for this time, or until a failure is found. All faults are undone afterwards.
    pub async fn run(&mut self, lasts: Duration) {
        let end = Instant::now() + lasts;
        while Instant::now() < end && self.world.failures.is_empty() {
            let trouble = self.deck.deal(&mut self.chance);
            let lasts = Duration::from_millis(self.chance.u64(100..2_000));
            self.inject(trouble, lasts).await;
            self.check_results();
            sleep(Duration::from_millis(self.chance.u64(0..800))).await;
        }
    }

    /// Checks the results so far.
    pub fn check_results(&mut self) {
        let world = self.world;
        self.checked_keys += world.check(key_clients::is_finished(world));
        for server in &mut self.servers {
            if let Some(how) = server.unexpected_end() {
                world.failures.add(how);
            }
        }
        for seat in &world.slots {
            let peer = seat.peer();
            if let Some(nonsense) = peer.take_invalid_line() {
                world
                    .failures
                    .add(format!("{:?} said {nonsense}", seat.language));
            } else if peer.has_ended() {
                world
                    .failures
                    .add(format!("the client in {:?} ended by itself", seat.language));
            }
        }
    }

    fn proxies(&self) -> impl Iterator<Item = &Proxy> {
        self.world.slots.iter().flat_map(|seat| &seat.proxies)
    }

    /// Returns each proxy with a probability of one half.
    fn random_proxies(&mut self) -> Vec<&'_ Proxy> {
        let chosen: Vec<_> = self.proxies().map(|_| ()).collect::<Vec<()>>();
        let chosen: Vec<bool> = chosen.iter().map(|()| self.chance.bool()).collect();
        self.proxies()
            .zip(chosen)
            .filter_map(|(way, is)| is.then_some(way))
            .collect()
    }

    /// Starts the server again, and shows the clients its address.
    async fn restart_server(&mut self, server: usize) {
        // If space cannot be reserved, a full disk is noticed in the middle of a commit.
        let reserves = self.chance.bool();
        self.set_disk_faults(
            server,
            if reserves {
                &[]
            } else {
                &[("no_fallocate", 1)]
            },
        );
        self.servers[server].spawn().await;
        self.retarget_all();
    }

    /// Points all clients to the servers.
    pub fn retarget_all(&self) {
        for seat in &self.world.slots {
            seat.retarget(&self.servers[seat.number % self.servers.len()]);
        }
    }

    fn set_disk_faults(&self, server: usize, faults: &[(&str, u64)]) {
        self.servers[server].disk.set(faults);
    }

    #[allow(clippy::too_many_lines, reason = "one arm for each trouble")]
    async fn inject(&mut self, trouble: Fault, lasts: Duration) {
        let server = self.chance.usize(..self.servers.len());
        let seat = &self.world.slots[self.chance.usize(..self.world.slots.len())];
        let how = if self.chance.bool() {
            CutKind::Reset
        } else {
            CutKind::Finish
        };
        match trouble {
            Fault::KillServer => {
                self.servers[server].kill().await;
                sleep(lasts / 4).await;
                self.restart_server(server).await;
            }
            Fault::KillBusyServer => {
                let delay = self.chance.u64(50..400);
                self.set_disk_faults(server, &[("sync_delay_ms", delay)]);
                sleep(lasts).await;
                self.servers[server].kill().await;
                self.restart_server(server).await;
            }
            Fault::PauseServer => {
                self.servers[server].pause();
                sleep(lasts * 2).await;
                self.servers[server].resume();
            }
            Fault::KillClient => {
                seat.peer().kill().await;
                sleep(lasts / 4).await;
                seat.replace().await;
            }
            Fault::PauseClient => {
                // Some pauses are longer than a lease.
                let peer = seat.peer();
                peer.pause();
                sleep(lasts * 2).await;
                peer.resume();
            }
            Fault::Cut => self
                .random_proxies()
                .iter()
                .for_each(|way| way.cut(CutKind::Reset)),
            Fault::Finish => self
                .random_proxies()
                .iter()
                .for_each(|way| way.cut(CutKind::Finish)),
            Fault::CutInPackets => {
                for _ in 0..3 {
                    let bytes = self.chance.usize(1..600);
                    let direction = self.direction();
                    for way in self.random_proxies() {
                        way.cut_after(direction, bytes, how);
                    }
                    sleep(lasts / 4).await;
                }
            }
            Fault::HalfOpen => {
                let direction = self.direction();
                self.random_proxies()
                    .iter()
                    .for_each(|way| way.stall(direction));
                sleep(lasts * 2).await;
                let goes_on = self.chance.bool();
                for way in self.proxies() {
                    if goes_on {
                        way.resume(direction);
                    } else {
                        way.cut(how);
                    }
                }
            }
            Fault::SilenceConnections => {
                for way in self.random_proxies() {
                    way.set_accept_mode(AcceptMode::Silence);
                    way.stall(Direction::ToServer);
                    way.stall(Direction::ToClient);
                }
                sleep(lasts * 2).await;
                for way in self.proxies() {
                    way.set_accept_mode(AcceptMode::Forward);
                    way.cut(CutKind::Reset);
                }
            }
            Fault::RejectConnections => {
                for way in self.random_proxies() {
                    way.set_accept_mode(AcceptMode::Reset);
                    way.cut(how);
                }
                sleep(lasts).await;
                self.proxies()
                    .for_each(|way| way.set_accept_mode(AcceptMode::Forward));
            }
            Fault::Slow => {
                let delay = Duration::from_millis(self.chance.u64(1..150));
                self.random_proxies()
                    .iter()
                    .for_each(|way| way.set_delay(delay));
                sleep(lasts * 2).await;
                self.proxies().for_each(|way| way.set_delay(Duration::ZERO));
            }
            Fault::Throttled => {
                let rate = self.chance.u32(500..20_000);
                self.random_proxies()
                    .iter()
                    .for_each(|way| way.set_rate(rate));
                sleep(lasts * 2).await;
                self.proxies().for_each(|way| way.set_rate(u32::MAX));
            }
            Fault::ServerClock => {
                // The effect on leases of a clock that jumps while the store is down is known (docs/locks.md). All leases
                // therefore end before anything else happens.
                let ahead = self.chance.u64(1_000..30_000);
                self.set_disk_faults(server, &[("clock_ahead_ms", ahead)]);
                sleep(lasts + 2 * LEASE).await;
                self.set_disk_faults(server, &[]);
                sleep(lasts / 4).await;
            }
            Fault::ClientClock => {
                let ahead = self.chance.u64(1_000..10_000);
                seat.clock.set(&[("clock_ahead_ms", ahead)]);
                sleep(lasts).await;
                seat.clock.set(&[]);
            }
            Fault::DiskFull => {
                self.set_disk_faults(server, &[("no_fallocate", 1), ("capacity", 0)]);
                sleep(lasts).await;
                self.set_disk_faults(server, &[]);
            }
            Fault::SlowDisk => {
                let delay = self.chance.u64(20..500);
                self.set_disk_faults(server, &[("sync_delay_ms", delay)]);
                sleep(lasts * 2).await;
                self.set_disk_faults(server, &[]);
            }
            Fault::FailedSync => {
                self.set_disk_faults(server, &[("sync_error", 1)]);
                if !self.servers[server].wait_for_end().await {
                    self.world
                        .failures
                        .add("the server goes on although a sync failed");
                }
                self.restart_server(server).await;
            }
        }
    }

    fn direction(&mut self) -> Direction {
        if self.chance.bool() {
            Direction::ToServer
        } else {
            Direction::ToClient
        }
    }
}
