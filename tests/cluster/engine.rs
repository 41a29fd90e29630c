//! What the servers are over: members, as processes that can be killed, stopped and started again.
use crate::etcd::Etcd;
use crate::process::Process;
use crate::redis::Redis;
use crate::storm::Trouble;
use std::net::SocketAddr;

/// One of them.
pub(crate) enum Engine {
    Etcd(Etcd),
    Redis(Redis),
}

impl Engine {
    /// Three members of etcd.
    pub(crate) async fn etcd() -> Self {
        Self::Etcd(Etcd::start().await)
    }

    /// A single Redis, whose log is on disk before it answers.
    pub(crate) async fn redis() -> Self {
        Self::Redis(Redis::start(1).await)
    }

    /// Two of them: a replica that has to confirm everything, and takes over whenever the master is killed or stands still.
    pub(crate) async fn redis_and_replica() -> Self {
        Self::Redis(Redis::start(2).await)
    }

    /// A master with two replicas, one of which has to confirm what is answered.
    pub(crate) async fn redis_and_two_replicas() -> Self {
        Self::Redis(Redis::start_confirming(3, 1).await)
    }

    fn ports(&self) -> Vec<u16> {
        match self {
            Self::Etcd(etcd) => etcd.ports(),
            Self::Redis(redis) => redis.ports(),
        }
    }

    pub(crate) fn members(&self) -> usize {
        self.ports().len()
    }

    /// Where servers reach each of them.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        let ports = self.ports().into_iter();
        ports.map(|port| ([127, 0, 0, 1], port).into()).collect()
    }

    /// What a server is told that reaches them through these.
    pub(crate) fn arguments(&self, ways: &[SocketAddr]) -> Vec<String> {
        let ways: Vec<_> = ways.iter().map(ToString::to_string).collect();
        let ways = ways.join(",");
        match self {
            Self::Etcd(_) => vec![format!("--storage=etcd://{ways}/cluster")],
            Self::Redis(redis) => vec![
                format!("--storage=redis://{ways}?prefix=cluster"),
                format!("--redis-replicas={}", redis.replicas()),
            ],
        }
    }

    /// What can go wrong.
    pub(crate) fn troubles(&self) -> Vec<Trouble> {
        let all = Trouble::ALL.into_iter();
        let is_etcd = matches!(self, Self::Etcd(_));
        all.filter(|trouble| is_etcd || *trouble != Trouble::KillTwoMembers)
            .collect()
    }

    pub(crate) fn process(&mut self, member: usize) -> Option<&mut Process> {
        match self {
            Self::Etcd(etcd) => etcd.process(member),
            Self::Redis(redis) => redis.process(member),
        }
    }

    /// Waits until it can do without a member that is about to be lost.
    pub(crate) async fn can_spare(&mut self, member: usize) {
        match self {
            // Those who are left know what to do.
            Self::Etcd(_) => {}
            Self::Redis(redis) => redis.can_spare(member).await,
        }
    }

    /// Goes on without a member that is lost, if it does not do so by itself.
    pub(crate) async fn go_on_without(&mut self, member: usize) {
        match self {
            Self::Etcd(_) => {}
            Self::Redis(redis) => redis.go_on_without(member).await,
        }
    }

    /// A member that was only stopped comes to know that the others went on without it.
    pub(crate) async fn take_back(&mut self, member: usize) {
        match self {
            Self::Etcd(_) => {}
            Self::Redis(redis) => redis.take_back(member).await,
        }
    }

    pub(crate) fn kill(&mut self, member: usize) {
        match self {
            Self::Etcd(etcd) => etcd.kill(member),
            Self::Redis(redis) => redis.kill(member),
        }
    }

    /// Starts a member with what it has on its disk.
    pub(crate) fn begin(&mut self, member: usize) {
        match self {
            Self::Etcd(etcd) => etcd.begin(member),
            Self::Redis(redis) => redis.begin(member),
        }
    }
}
