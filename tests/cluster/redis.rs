//! A master of Redis and its replicas, as processes that can be killed, stopped and started again. The test takes the part of
//! sentinels: it promotes a replica as soon as the master is lost.
use crate::LONG;
use crate::disk::Disk;
use crate::process::Process;
use harness::free_port;
use harness::proxy::Proxy;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long an answer may take: it may have been stopped.
const ANSWER: Duration = Duration::from_secs(5);

/// A process of Redis.
struct Member {
    folder: TempDir,
    port: u16,
    /// A file system of its own.
    disk: Option<Disk>,
    /// Where it reaches the master to begin with, if there is something between them.
    link: Option<u16>,
    process: Option<Process>,
}

impl Member {
    fn data(&self) -> PathBuf {
        match &self.disk {
            Some(disk) => disk.folder("redis"),
            None => self.folder.path().to_owned(),
        }
    }
}

/// All of them.
pub(crate) struct Redis {
    members: Vec<Member>,
    /// Which of them the others follow.
    master: usize,
    /// How many replicas confirm what is answered.
    confirming: usize,
}

impl Redis {
    /// A master, and replicas all of which have to confirm what is answered.
    pub(crate) async fn start(members: usize) -> Self {
        Self::start_confirming(members, members - 1).await
    }

    /// Starts a master and its replicas. `confirming` of them have to confirm each write before it is acknowledged.
    pub(crate) async fn start_confirming(members: usize, confirming: usize) -> Self {
        let mut redis = Self {
            members: Vec::new(),
            master: 0,
            confirming,
        };
        for _ in 0..members {
            redis.add(None).await;
        }
        redis.can_spare(0).await;
        redis
    }

    /// Starts a master, and replicas with a link to it and a disk each. `confirming` of them have to confirm each write before it
    /// is acknowledged.
    pub(crate) async fn start_on_links(members: usize, confirming: usize) -> (Self, Vec<Proxy>) {
        let mut redis = Self::start(1).await;
        redis.confirming = confirming;
        let master = redis.members[0].port;
        let mut links = Vec::new();
        for _ in 1..members {
            let link = Proxy::start(([127, 0, 0, 1], master).into()).await;
            redis.add_on(Disk::new(), Some(link.address().port())).await;
            links.push(link);
        }
        redis.can_spare(0).await;
        (redis, links)
    }

    /// A master and a replica with a link between them, which has to confirm what is answered, or has not.
    pub(crate) async fn start_linked(confirming: usize) -> (Self, Proxy) {
        let mut redis = Self::start(1).await;
        redis.confirming = confirming;
        let master = redis.members[0].port;
        let link = Proxy::start(([127, 0, 0, 1], master).into()).await;
        redis.add(Some(link.address().port())).await;
        redis.can_spare(0).await;
        (redis, link)
    }

    async fn add(&mut self, link: Option<u16>) {
        self.add_on(None, link).await;
    }

    async fn add_on(&mut self, disk: Option<Disk>, link: Option<u16>) {
        self.members.push(Member {
            disk,
            folder: tempfile::tempdir().unwrap(),
            port: free_port(),
            link,
            process: None,
        });
        let number = self.members.len() - 1;
        self.begin(number);
        let member = &mut self.members[number];
        let process = member.process.as_mut().unwrap();
        process.listens(member.port).await;
    }

    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        let address = |member: &Member| (Ipv4Addr::LOCALHOST, member.port).into();
        self.members.iter().map(address).collect()
    }

    /// The disk of a member, if it has one of its own.
    pub(crate) fn disk(&self, number: usize) -> Option<&Disk> {
        self.members[number].disk.as_ref()
    }

    /// How many confirm what is answered.
    pub(crate) fn replicas(&self) -> usize {
        self.confirming
    }

    pub(crate) fn process(&mut self, number: usize) -> Option<&mut Process> {
        self.members[number].process.as_mut()
    }

    pub(crate) fn kill(&mut self, number: usize) {
        self.members[number].process = None;
    }

    /// Starts it with what it has on its disk.
    pub(crate) fn begin(&mut self, number: usize) {
        let master = self.members[self.master].port;
        let is_replica = number != self.master;
        let member = &mut self.members[number];
        let mut command = Command::new("redis-server");
        command
            .args(["--bind", "127.0.0.1", "--save", ""])
            .args(["--appendonly", "yes", "--appendfsync", "always"])
            .args(["--repl-diskless-sync-delay", "0"])
            .args(["--port", &member.port.to_string()])
            .arg("--dir")
            .arg(member.data());
        if is_replica {
            let master = member.link.unwrap_or(master);
            command.args(["--replicaof", "127.0.0.1", &master.to_string()]);
        }
        member.process = Some(Process::start(&mut command));
    }

    /// Waits until all replicas are in sync with the master: a replica that has just started has no data and must not be promoted.
    pub(crate) async fn can_spare(&mut self, number: usize) {
        if number != self.master {
            return;
        }
        for other in self.others() {
            self.says(other, "master_link_status:up").await;
        }
    }

    /// Waits until all replicas have noticed that the master is lost.
    pub(crate) async fn is_missed(&self) {
        for other in self.others() {
            self.says(other, "master_link_status:down").await;
        }
    }

    /// Waits until the replicas have all that the master has by now.
    pub(crate) async fn have_followed(&self) {
        let facts = self.ask(self.master, "INFO", &["replication"]).await;
        let reached = number(&facts.expect("it answers"), "master_repl_offset:");
        let reached = reached.expect("it says how far it is");
        for other in self.others() {
            let has_all = |facts: &str| number(facts, "slave_repl_offset:") >= Some(reached);
            self.comes_to(other, "what the master has", has_all).await;
        }
    }

    /// Waits until one says this of its replication.
    async fn says(&self, one: usize, fact: &str) {
        self.comes_to(one, fact, |facts| facts.contains(fact)).await;
    }

    async fn comes_to(&self, one: usize, what: &str, is_so: impl Fn(&str) -> bool) {
        let end = Instant::now() + LONG;
        let is_said = async || {
            let facts = self.ask(one, "INFO", &["replication"]).await;
            facts.is_some_and(|facts| is_so(&facts))
        };
        while !is_said().await {
            assert!(Instant::now() < end, "not in time: {what}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// If the master is lost, its replica takes over.
    pub(crate) async fn go_on_without(&mut self, number: usize) {
        if number != self.master {
            return;
        }
        if let Some(other) = self.others().first().copied() {
            let done = self.ask(other, "REPLICAOF", &["NO", "ONE"]).await;
            assert_eq!(done.as_deref(), Some("OK"));
            self.master = other;
        }
    }

    /// Makes a former master a replica: after it continues, it still acts as a master.
    pub(crate) async fn take_back(&mut self, number: usize) {
        if number == self.master {
            return;
        }
        let port = self.members[self.master].port.to_string();
        let told = self.ask(number, "REPLICAOF", &["127.0.0.1", &port]).await;
        assert!(told.is_some_and(|told| told.starts_with("OK")));
    }

    fn others(&self) -> Vec<usize> {
        let all = 0..self.members.len();
        all.filter(|number| *number != self.master).collect()
    }

    /// Sends a command and returns the response, or `None` if there is none.
    pub(crate) async fn ask(
        &self,
        number: usize,
        command: &str,
        arguments: &[&str],
    ) -> Option<String> {
        let url = format!("redis://127.0.0.1:{}", self.members[number].port);
        let client = redis::Client::open(url).unwrap();
        let asking = async {
            let mut connection = client.get_multiplexed_async_connection().await.ok()?;
            let mut command = redis::cmd(command);
            command.arg(arguments);
            command.query_async(&mut connection).await.ok()
        };
        tokio::time::timeout(ANSWER, asking).await.ok()?
    }
}

/// Returns the number after this name in the output of INFO.
fn number(facts: &str, name: &str) -> Option<u64> {
    let mut values = facts.lines().filter_map(|line| line.strip_prefix(name));
    values.next()?.trim().parse().ok()
}
