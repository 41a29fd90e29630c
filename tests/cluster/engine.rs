//! The engine below the servers: members, as processes that can be killed, stopped and started again.
use crate::disk::Disk;
use crate::etcd::Etcd;
use crate::process::Process;
use crate::redis::Redis;
use crate::storm::Trouble;
use harness::Proxy;
use harness::proxy::Direction;
use std::net::SocketAddr;

/// An engine, with its members.
pub(crate) enum Engine {
    Etcd(Etcd),
    /// Redis, and the links of replicas to the master, if there are any.
    Redis(Redis, Vec<Proxy>),
}

/// Which way data between one member and all others goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    FromMember,
    ToMember,
}

impl Engine {
    /// Three members of etcd.
    pub(crate) async fn etcd() -> Self {
        Self::Etcd(Etcd::start().await)
    }

    /// The same, each on a host with a disk of its own.
    pub(crate) async fn etcd_on_hosts() -> Self {
        Self::Etcd(Etcd::start_on_hosts().await)
    }

    /// A single Redis, whose log is on disk before it answers.
    pub(crate) async fn redis() -> Self {
        Self::Redis(Redis::start(1).await, Vec::new())
    }

    /// Two of them: a replica that has to confirm everything, and takes over whenever the master is killed or stands still.
    pub(crate) async fn redis_and_replica() -> Self {
        Self::Redis(Redis::start(2).await, Vec::new())
    }

    /// A master with two replicas, one of which has to confirm what is answered.
    pub(crate) async fn redis_and_two_replicas() -> Self {
        let (redis, links) = Redis::start_on_links(3, 1).await;
        Self::Redis(redis, links)
    }

    pub(crate) fn members(&self) -> usize {
        self.addresses().len()
    }

    /// Where servers reach each of them.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        match self {
            Self::Etcd(etcd) => etcd.addresses(),
            Self::Redis(redis, _) => redis.addresses(),
        }
    }

    /// The disk of a member, if it has one of its own.
    pub(crate) fn disk(&self, member: usize) -> Option<&Disk> {
        match self {
            Self::Etcd(etcd) => etcd.disk(member),
            Self::Redis(redis, _) => redis.disk(member),
        }
    }

    /// Loses the data between a member and all others that goes this way, or delivers it again.
    ///
    /// # Panics
    /// If the members of etcd have no hosts of their own, or the replicas of Redis no links.
    pub(crate) fn set_lost(&self, member: usize, way: Way, is_lost: bool) {
        match (self, way) {
            (Self::Etcd(etcd), Way::FromMember) => etcd.drops_from(member, is_lost),
            (Self::Etcd(etcd), Way::ToMember) => etcd.drops_to(member, is_lost),
            (Self::Redis(_, links), way) => {
                let link = &links[member - 1];
                match (is_lost, way) {
                    // A replica is the client of its master.
                    (true, Way::FromMember) => link.block(Direction::ToServer),
                    (true, Way::ToMember) => link.block(Direction::ToClient),
                    (false, _) => link.unblock(),
                }
            }
        }
    }

    /// Returns the arguments of a server that reaches the members through these addresses.
    pub(crate) fn arguments(&self, ways: &[SocketAddr]) -> Vec<String> {
        let ways: Vec<_> = ways.iter().map(ToString::to_string).collect();
        let ways = ways.join(",");
        match self {
            Self::Etcd(_) => vec![format!("--storage=etcd://{ways}/cluster")],
            Self::Redis(redis, _) => vec![
                format!("--storage=redis://{ways}?prefix=cluster"),
                format!("--redis-replicas={}", redis.replicas()),
            ],
        }
    }

    /// Returns the faults that this engine supports.
    pub(crate) fn troubles(&self) -> Vec<Trouble> {
        let all = Trouble::ALL.into_iter();
        let is_etcd = matches!(self, Self::Etcd(_));
        all.filter(|trouble| is_etcd || *trouble != Trouble::KillTwoMembers)
            .collect()
    }

    pub(crate) fn process(&mut self, member: usize) -> Option<&mut Process> {
        match self {
            Self::Etcd(etcd) => etcd.process(member),
            Self::Redis(redis, _) => redis.process(member),
        }
    }

    /// Waits until it can do without a member that is about to be lost.
    pub(crate) async fn can_spare(&mut self, member: usize) {
        match self {
            // The remaining members elect a leader by themselves.
            Self::Etcd(_) => {}
            Self::Redis(redis, _) => redis.can_spare(member).await,
        }
    }

    /// Goes on without a member that is lost, if it does not do so by itself.
    pub(crate) async fn go_on_without(&mut self, member: usize) {
        match self {
            Self::Etcd(_) => {}
            Self::Redis(redis, _) => redis.go_on_without(member).await,
        }
    }

    /// Informs a member that was only stopped that the others went on without it.
    pub(crate) async fn take_back(&mut self, member: usize) {
        match self {
            Self::Etcd(_) => {}
            Self::Redis(redis, _) => redis.take_back(member).await,
        }
    }

    pub(crate) fn kill(&mut self, member: usize) {
        match self {
            Self::Etcd(etcd) => etcd.kill(member),
            Self::Redis(redis, _) => redis.kill(member),
        }
    }

    /// Starts a member with what it has on its disk.
    pub(crate) fn begin(&mut self, member: usize) {
        match self {
            Self::Etcd(etcd) => etcd.begin(member),
            Self::Redis(redis, _) => redis.begin(member),
        }
    }
}
