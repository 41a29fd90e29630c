//! Hosts on a network of their own: network namespaces, between which packets can be dropped in one direction.
use crate::alone;
use rustix::process::geteuid;
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};

/// Set in the process that runs inside of a test's own namespaces.
const INSIDE: &str = "CLUSTER_INSIDE_NAMESPACES";

/// Runs a test in network and mount namespaces of its own, which end with it. Needs root, or user namespaces for other users.
pub(crate) fn isolated(name: &str, test: impl Future<Output = ()>) {
    if std::env::var_os(INSIDE).is_some() {
        run(Command::new("ip").args(["link", "set", "lo", "up"]));
        return alone(test);
    }
    alone(async {
        let mut command = Command::new("unshare");
        command.args(["--net", "--mount"]);
        if !geteuid().is_root() {
            command.arg("--map-root-user");
        }
        command
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(INSIDE, "1");
        run(&mut command);
    });
}

/// Runs a command until it ends.
///
/// # Panics
/// If it fails.
pub(crate) fn run(command: &mut Command) {
    let status = command.status();
    let is_done = status.as_ref().is_ok_and(std::process::ExitStatus::success);
    assert!(is_done, "{command:?}: {status:?}");
}

/// Hosts on one network with the test.
pub(crate) struct Hosts(Vec<Host>);

/// A network namespace, held by a process that only sleeps.
struct Host(Child);

impl Hosts {
    /// Starts this number of hosts. For [`isolated`] tests only.
    pub(crate) fn start(count: u8) -> Self {
        ip(&["link", "add", "hosts", "type", "bridge"]);
        ip(&["addr", "add", "10.0.0.1/24", "dev", "hosts"]);
        ip(&["link", "set", "hosts", "up"]);
        let hosts = Self((0..count).map(|_| Host::start()).collect());
        for (number, host) in hosts.0.iter().enumerate() {
            let (link, namespace) = (format!("host{number}"), host.0.id().to_string());
            let pair = ["type", "veth", "peer", "name", "eth0", "netns", &namespace];
            ip(&[&["link", "add", &link][..], &pair].concat());
            ip(&["link", "set", &link, "master", "hosts", "up"]);
            let address = format!("{}/24", Self::address(number));
            host.ip(&["link", "set", "lo", "up"]);
            host.ip(&["addr", "add", &address, "dev", "eth0"]);
            host.ip(&["link", "set", "eth0", "up"]);
        }
        hosts
    }

    /// The address of a host.
    pub(crate) fn address(host: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, 0, 2 + u8::try_from(host).unwrap())
    }

    /// A program to be started on a host.
    pub(crate) fn command(&self, host: usize, program: &str) -> Command {
        self.0[host].command(program)
    }

    /// Drops all packets from one host to another from now on.
    pub(crate) fn drop_packets(&self, from: usize, to: usize) {
        let to = Self::address(to).to_string();
        self.0[from].ip(&["route", "add", "blackhole", &to]);
    }

    /// Delivers packets from one host to another again.
    pub(crate) fn deliver_packets(&self, from: usize, to: usize) {
        let to = Self::address(to).to_string();
        self.0[from].ip(&["route", "del", "blackhole", &to]);
    }
}

impl Host {
    fn start() -> Self {
        let mut holder = Command::new("unshare")
            .args(["--net", "sh", "-c", "echo; exec sleep infinity"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare");
        // The namespace exists as soon as the shell runs.
        let mut line = String::new();
        BufReader::new(holder.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, "\n");
        Self(holder)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net=/proc/{}/ns/net", self.0.id()))
            .arg(program);
        command
    }

    fn ip(&self, arguments: &[&str]) {
        run(self.command("ip").args(arguments));
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // The process may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ip(arguments: &[&str]) {
    run(Command::new("ip").args(arguments));
}
