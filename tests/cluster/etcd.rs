//! Three members of etcd, as processes that can be killed, stopped and started again.
use crate::process::{Process, free_port};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// How many.
const MEMBERS: usize = 3;

/// One of them.
struct Member {
    folder: TempDir,
    port: u16,
    peer_port: u16,
    process: Option<Process>,
}

/// All of them.
pub(crate) struct Etcd {
    members: Vec<Member>,
    /// Who they are, as each of them is told.
    initial: String,
}

impl Etcd {
    pub(crate) async fn start() -> Self {
        let members: Vec<_> = (0..MEMBERS)
            .map(|_| Member {
                folder: tempfile::tempdir().unwrap(),
                port: free_port(),
                peer_port: free_port(),
                process: None,
            })
            .collect();
        let peers = members.iter().enumerate().map(|(number, member)| {
            format!("member{number}=http://127.0.0.1:{}", member.peer_port)
        });
        let initial = peers.collect::<Vec<_>>().join(",");
        let mut etcd = Self { members, initial };
        for number in 0..MEMBERS {
            etcd.begin(number);
        }
        for member in &mut etcd.members {
            let process = member.process.as_mut().unwrap();
            process.listens(member.port).await;
        }
        etcd
    }

    /// Where clients reach each of them.
    pub(crate) fn ports(&self) -> Vec<u16> {
        self.members.iter().map(|member| member.port).collect()
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
        let client = format!("http://127.0.0.1:{}", member.port);
        let peer = format!("http://127.0.0.1:{}", member.peer_port);
        let mut command = Command::new("etcd");
        command
            .arg(format!("--name=member{number}"))
            .arg("--data-dir")
            .arg(member.folder.path())
            .arg(format!("--listen-client-urls={client}"))
            .arg(format!("--advertise-client-urls={client}"))
            .arg(format!("--listen-peer-urls={peer}"))
            .arg(format!("--initial-advertise-peer-urls={peer}"))
            .arg(format!("--initial-cluster={}", self.initial))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        member.process = Some(Process::start(&mut command));
    }
}
