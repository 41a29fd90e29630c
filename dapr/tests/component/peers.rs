//! Components of several processes on one socket: an instance belongs to the process that initialised it.
use crate::harness::{Fixture, Process, Sidecar, set};
use statestored::RunningServer;
use statestored::config::Config;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tonic::Code;

/// Environment variables of a relay process: the socket it listens on, and the socket it connects to.
const LISTEN: &str = "STATESTORE_DAPR_TEST_LISTEN";
const CONNECT: &str = "STATESTORE_DAPR_TEST_CONNECT";

/// A process that connects to the component for others, so that the component sees another peer. Killed on drop.
struct Relay {
    child: Child,
    socket: PathBuf,
}

impl Relay {
    /// Starts this program again with [`relay_subprocess`] as its only test.
    fn start(component: &Path, name: &str) -> Self {
        let socket = component.with_file_name(name);
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "peers::relay_subprocess", "--nocapture"])
            .env(LISTEN, &socket)
            .env(CONNECT, component)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
        let mut lines = lines.map(Result::unwrap);
        assert!(lines.any(|line| line.ends_with("the relay listens")));
        Self { child, socket }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program of [`Relay`]. Does nothing unless its environment variables are set.
#[tokio::test]
async fn relay_subprocess() {
    let (Some(listen), Some(connect)) = (std::env::var_os(LISTEN), std::env::var_os(CONNECT))
    else {
        return;
    };
    let listener = UnixListener::bind(listen).unwrap();
    println!("the relay listens");
    loop {
        let (mut near, _) = listener.accept().await.unwrap();
        let mut far = UnixStream::connect(&connect).await.unwrap();
        drop(tokio::spawn(async move {
            copy_bidirectional(&mut near, &mut far).await
        }));
    }
}

#[tokio::test]
async fn processes_with_one_component_name_never_share_a_connection() {
    let mut fixture = Fixture::start().await;
    let other = RunningServer::start(Config::in_memory()).unwrap();
    let relay = Relay::start(&fixture.process.socket, "other.sock");
    let mut second = Sidecar::connect(&relay.socket, "fixture").await;
    let first = &mut fixture.sidecar;
    first.set(set("key", "first")).await.unwrap();
    let status = second.set(set("key", "second")).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    second.init(&[("url", &other.url())]).await.unwrap();
    assert_eq!(second.value("key").await, None);
    assert_eq!(first.value("key").await.as_deref(), Some("first"));
    second.set(set("key", "second")).await.unwrap();
    assert_eq!(first.value("key").await.as_deref(), Some("first"));
}

#[tokio::test]
async fn a_new_connection_of_a_process_finds_its_component() {
    let mut fixture = Fixture::start().await;
    fixture.sidecar.set(set("key", "value")).await.unwrap();
    let mut again = Sidecar::connect(&fixture.process.socket, "fixture").await;
    assert_eq!(again.value("key").await.as_deref(), Some("value"));
}

#[tokio::test]
async fn the_end_of_a_process_closes_the_connections_of_its_components() {
    let store = RunningServer::start(Config::in_memory()).unwrap();
    let broker = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("mqtt://{}", broker.local_addr().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(&folder.path().join("component.sock"), &[]);
    let mut sidecar = Sidecar::connect(&process.socket, "fixture").await;
    sidecar.init(&[("url", &store.url())]).await.unwrap();
    let relay = Relay::start(&process.socket, "other.sock");
    let mut other = Sidecar::connect(&relay.socket, "fixture").await;
    let properties = [("url", url.as_str())];
    let address = store.addresses()[0];
    let relayed = tokio::spawn(async move {
        let (mut near, _) = broker.accept().await.unwrap();
        let mut far = TcpStream::connect(address).await.unwrap();
        copy_bidirectional(&mut near, &mut far).await
    });
    other.init(&properties).await.unwrap();
    drop(relay);
    // The MQTT connection ends.
    relayed.await.unwrap().unwrap();
    sidecar.set(set("key", "value")).await.unwrap();
}

#[tokio::test]
#[ignore = "it needs the right to make PID namespaces"]
async fn a_component_of_a_process_in_another_pid_namespace_keeps_its_metadata() {
    let store = RunningServer::start(Config::in_memory()).unwrap();
    let other = RunningServer::start(Config::in_memory()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("unshare");
    command
        .args(["--pid", "--fork", "--kill-child", "--map-root-user"])
        .arg(env!("CARGO_BIN_EXE_statestore-dapr"))
        .arg("--socket")
        .arg(folder.path().join("component.sock"));
    let process = Process::spawn(command);
    let mut first = Sidecar::connect(&process.socket, "fixture").await;
    first.init(&[("url", &store.url())]).await.unwrap();
    first.set(set("key", "first")).await.unwrap();
    let relay = Relay::start(&process.socket, "other.sock");
    let mut second = Sidecar::connect(&relay.socket, "fixture").await;
    let status = second.init(&[("url", &other.url())]).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition, "{status:?}");
    assert_eq!(first.value("key").await.as_deref(), Some("first"));
    second.init(&[("url", &store.url())]).await.unwrap();
    assert_eq!(second.value("key").await.as_deref(), Some("first"));
}
