//! The faults of a run: one after the other, each kind equally often.
use crate::calls;
use crate::locks::LEASE;
use crate::server::Server;
use crate::troubles::{Deck, Trouble};
use crate::world::World;
use faults::proxy::{Admission, Cut, Direction, Proxy};
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// The servers, the clients, and the sequence of faults.
#[derive(Debug)]
pub struct Storm<'a> {
    /// The clients and their proxies.
    pub world: &'a World,
    /// A server, or two over one engine.
    pub servers: Vec<Server>,
    /// Random generator of the run.
    pub chance: fastrand::Rng,
    /// Deck of the faults to come.
    pub deck: Deck,
    /// Number of keys with a history that has an order.
    pub settled: usize,
}

impl Storm<'_> {
    /// Causes faults for this time, or until a failure is found. All faults are undone afterwards.
    pub async fn rage(&mut self, lasts: Duration) {
        let end = Instant::now() + lasts;
        while Instant::now() < end && self.world.findings.is_empty() {
            let trouble = self.deck.deal(&mut self.chance);
            let lasts = Duration::from_millis(self.chance.u64(100..2_000));
            self.happen(trouble, lasts).await;
            self.look();
            sleep(Duration::from_millis(self.chance.u64(0..800))).await;
        }
    }

    /// Checks the results so far.
    pub fn look(&mut self) {
        let world = self.world;
        self.settled += world.check(calls::is_over(world));
        for server in &mut self.servers {
            if let Some(how) = server.has_ended() {
                world.findings.add(how);
            }
        }
        for seat in &world.seats {
            let peer = seat.peer();
            if let Some(nonsense) = peer.nonsense() {
                world
                    .findings
                    .add(format!("{:?} said {nonsense}", seat.language));
            } else if peer.has_ended() {
                world
                    .findings
                    .add(format!("the client in {:?} ended by itself", seat.language));
            }
        }
    }

    fn ways(&self) -> impl Iterator<Item = &Proxy> {
        self.world.seats.iter().flat_map(|seat| &seat.ways)
    }

    /// Returns each proxy with a probability of one half.
    fn some(&mut self) -> Vec<&'_ Proxy> {
        let chosen: Vec<_> = self.ways().map(|_| ()).collect::<Vec<()>>();
        let chosen: Vec<bool> = chosen.iter().map(|()| self.chance.bool()).collect();
        self.ways()
            .zip(chosen)
            .filter_map(|(way, is)| is.then_some(way))
            .collect()
    }

    /// Starts the server again, and shows the clients its address.
    async fn begin(&mut self, server: usize) {
        // If space cannot be reserved, a full disk is noticed in the middle of a commit.
        let reserves = self.chance.bool();
        self.quiet(
            server,
            if reserves {
                &[]
            } else {
                &[("no_fallocate", 1)]
            },
        );
        self.servers[server].begin().await;
        self.follow();
    }

    /// Points all clients to the servers.
    pub fn follow(&self) {
        for seat in &self.world.seats {
            seat.follow(&self.servers[seat.number % self.servers.len()]);
        }
    }

    fn quiet(&self, server: usize, faults: &[(&str, u64)]) {
        self.servers[server].disk.set(faults);
    }

    #[allow(clippy::too_many_lines, reason = "one arm for each trouble")]
    async fn happen(&mut self, trouble: Trouble, lasts: Duration) {
        let server = self.chance.usize(..self.servers.len());
        let seat = &self.world.seats[self.chance.usize(..self.world.seats.len())];
        let how = if self.chance.bool() {
            Cut::Reset
        } else {
            Cut::Finish
        };
        match trouble {
            Trouble::KillServer => {
                self.servers[server].kill().await;
                sleep(lasts / 4).await;
                self.begin(server).await;
            }
            Trouble::KillBusyServer => {
                let delay = self.chance.u64(50..400);
                self.quiet(server, &[("sync_delay_ms", delay)]);
                sleep(lasts).await;
                self.servers[server].kill().await;
                self.begin(server).await;
            }
            Trouble::StopServer => {
                self.servers[server].stop();
                sleep(lasts * 2).await;
                self.servers[server].go_on();
            }
            Trouble::KillClient => {
                seat.peer().kill().await;
                sleep(lasts / 4).await;
                seat.replace().await;
            }
            Trouble::StopClient => {
                // Some pauses are longer than a lease.
                let peer = seat.peer();
                peer.stop();
                sleep(lasts * 2).await;
                peer.go_on();
            }
            Trouble::Cut => self.some().iter().for_each(|way| way.cut(Cut::Reset)),
            Trouble::Finish => self.some().iter().for_each(|way| way.cut(Cut::Finish)),
            Trouble::Torn => {
                for _ in 0..3 {
                    let bytes = self.chance.usize(1..600);
                    let direction = self.direction();
                    for way in self.some() {
                        way.cut_after(direction, bytes, how);
                    }
                    sleep(lasts / 4).await;
                }
            }
            Trouble::HalfOpen => {
                let direction = self.direction();
                self.some().iter().for_each(|way| way.stall(direction));
                sleep(lasts * 2).await;
                let goes_on = self.chance.bool();
                for way in self.ways() {
                    if goes_on {
                        way.resume(direction);
                    } else {
                        way.cut(how);
                    }
                }
            }
            Trouble::Silence => {
                for way in self.some() {
                    way.admit(Admission::Silence);
                    way.stall(Direction::ToServer);
                    way.stall(Direction::ToClient);
                }
                sleep(lasts * 2).await;
                for way in self.ways() {
                    way.admit(Admission::Forward);
                    way.cut(Cut::Reset);
                }
            }
            Trouble::Refused => {
                for way in self.some() {
                    way.admit(Admission::Refuse);
                    way.cut(how);
                }
                sleep(lasts).await;
                self.ways().for_each(|way| way.admit(Admission::Forward));
            }
            Trouble::Slow => {
                let delay = Duration::from_millis(self.chance.u64(1..150));
                self.some().iter().for_each(|way| way.set_delay(delay));
                sleep(lasts * 2).await;
                self.ways().for_each(|way| way.set_delay(Duration::ZERO));
            }
            Trouble::Throttled => {
                let rate = self.chance.u32(500..20_000);
                self.some().iter().for_each(|way| way.set_rate(rate));
                sleep(lasts * 2).await;
                self.ways().for_each(|way| way.set_rate(u32::MAX));
            }
            Trouble::ServerClock => {
                // The effect on leases of a clock that jumps while the store is down is known (docs/locks.md). All leases
                // therefore end before anything else happens.
                let ahead = self.chance.u64(1_000..30_000);
                self.quiet(server, &[("clock_ahead_ms", ahead)]);
                sleep(lasts + 2 * LEASE).await;
                self.quiet(server, &[]);
                sleep(lasts / 4).await;
            }
            Trouble::ClientClock => {
                let ahead = self.chance.u64(1_000..10_000);
                seat.clock.set(&[("clock_ahead_ms", ahead)]);
                sleep(lasts).await;
                seat.clock.set(&[]);
            }
            Trouble::DiskFull => {
                self.quiet(server, &[("no_fallocate", 1), ("capacity", 0)]);
                sleep(lasts).await;
                self.quiet(server, &[]);
            }
            Trouble::SlowDisk => {
                let delay = self.chance.u64(20..500);
                self.quiet(server, &[("sync_delay_ms", delay)]);
                sleep(lasts * 2).await;
                self.quiet(server, &[]);
            }
            Trouble::FailedSync => {
                self.quiet(server, &[("sync_error", 1)]);
                if !self.servers[server].ends().await {
                    self.world
                        .findings
                        .add("the server goes on although a sync failed");
                }
                self.begin(server).await;
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
