//! Three members of etcd, as processes that can be killed, stopped and started again.
use crate::LONG;
use crate::disk::Disk;
use crate::hosts::Hosts;
use crate::process::Process;
use harness::free_port;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How many.
const MEMBERS: usize = 3;

/// The metric of a leader.
const LEADS: &str = "etcd_server_is_leader 1";

/// A member of the cluster.
struct Member {
    folder: Folder,
    address: Ipv4Addr,
    port: u16,
    peer_port: u16,
    process: Option<Process>,
}

/// Where a member keeps its data.
enum Folder {
    Usual(TempDir),
    OnDisk(Disk),
}

impl Folder {
    fn path(&self) -> PathBuf {
        match self {
            Self::Usual(folder) => folder.path().to_owned(),
            Self::OnDisk(disk) => disk.folder("etcd"),
        }
    }
}

/// All of them.
pub(crate) struct Etcd {
    members: Vec<Member>,
    hosts: Option<Hosts>,
    /// The list of all members, as each of them receives it.
    initial: String,
}

impl Etcd {
    /// Members on the loopback interface.
    pub(crate) async fn start() -> Self {
        Self::start_on(None).await
    }

    /// Members on hosts, with disks, of their own.
    pub(crate) async fn start_on_hosts() -> Self {
        Self::start_on(Some(Hosts::start(3))).await
    }

    async fn start_on(hosts: Option<Hosts>) -> Self {
        let members: Vec<_> = (0..MEMBERS)
            .map(|number| Member {
                folder: match hosts.as_ref().and_then(|_| Disk::new()) {
                    Some(disk) => Folder::OnDisk(disk),
                    None => Folder::Usual(tempfile::tempdir().unwrap()),
                },
                address: hosts
                    .as_ref()
                    .map_or(Ipv4Addr::LOCALHOST, |_| Hosts::address(number)),
                port: free_port(),
                peer_port: free_port(),
                process: None,
            })
            .collect();
        let peers = members.iter().enumerate().map(|(number, member)| {
            format!(
                "member{number}=http://{}:{}",
                member.address, member.peer_port
            )
        });
        let initial = peers.collect::<Vec<_>>().join(",");
        let mut etcd = Self {
            members,
            hosts,
            initial,
        };
        for number in 0..MEMBERS {
            etcd.begin(number);
        }
        for member in &mut etcd.members {
            let address = (member.address, member.port).into();
            let process = member.process.as_mut().unwrap();
            process.listens_at(address).await;
        }
        etcd
    }

    /// Where clients reach each of them.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        let address = |member: &Member| (member.address, member.port).into();
        self.members.iter().map(address).collect()
    }

    /// The disk of a member, if it has one of its own.
    pub(crate) fn disk(&self, number: usize) -> Option<&Disk> {
        match &self.members[number].folder {
            Folder::Usual(_) => None,
            Folder::OnDisk(disk) => Some(disk),
        }
    }

    /// Drops what a member sends to the others, or delivers it again.
    pub(crate) fn drops_from(&self, number: usize, is_dropped: bool) {
        for other in self.others(number) {
            self.set_dropped((number, other), is_dropped);
        }
    }

    /// Drops what the others send to a member, or delivers it again.
    pub(crate) fn drops_to(&self, number: usize, is_dropped: bool) {
        for other in self.others(number) {
            self.set_dropped((other, number), is_dropped);
        }
    }

    fn set_dropped(&self, (from, to): (usize, usize), is_dropped: bool) {
        let hosts = self.hosts.as_ref().expect("members on hosts");
        if is_dropped {
            hosts.drop_packets(from, to);
        } else {
            hosts.deliver_packets(from, to);
        }
    }

    fn others(&self, number: usize) -> impl Iterator<Item = usize> {
        (0..self.members.len()).filter(move |other| *other != number)
    }

    /// The member that the others follow.
    pub(crate) async fn leader(&self) -> usize {
        let end = Instant::now() + LONG;
        loop {
            for (number, address) in self.addresses().into_iter().enumerate() {
                if metrics(address).lines().any(|line| line == LEADS) {
                    return number;
                }
            }
            assert!(Instant::now() < end, "there is no leader");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub(crate) fn process(&mut self, number: usize) -> Option<&mut Process> {
        self.members[number].process.as_mut()
    }

    pub(crate) fn kill(&mut self, number: usize) {
        self.members[number].process = None;
    }

    /// Starts it with what it has on its disk.
    pub(crate) fn begin(&mut self, number: usize) {
        let member = &mut self.members[number];
        let client = format!("http://{}:{}", member.address, member.port);
        let peer = format!("http://{}:{}", member.address, member.peer_port);
        let mut command = match &self.hosts {
            Some(hosts) => hosts.command(number, "etcd"),
            None => Command::new("etcd"),
        };
        command
            .arg(format!("--name=member{number}"))
            .arg("--data-dir")
            .arg(member.folder.path())
            .arg(format!("--listen-client-urls={client}"))
            .arg(format!("--advertise-client-urls={client}"))
            .arg(format!("--listen-peer-urls={peer}"))
            .arg(format!("--initial-advertise-peer-urls={peer}"))
            .arg(format!("--initial-cluster={}", self.initial));
        member.process = Some(Process::start(&mut command));
    }
}

/// The metrics of a member; nothing if it does not answer.
fn metrics(address: SocketAddr) -> String {
    let asking = || {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
        let mut found = String::new();
        stream.read_to_string(&mut found)?;
        Ok::<_, std::io::Error>(found)
    };
    asking().unwrap_or_default()
}
