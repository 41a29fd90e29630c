//! The process: its socket, its end, and what it says of itself.
use crate::harness::{Fixture, Process, Sidecar, set, statestore_dapr};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use statestored::RunningServer;
use statestored::config::Config;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tonic_reflection::pb::v1alpha::ServerReflectionRequest;
use tonic_reflection::pb::v1alpha::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1alpha::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1alpha::server_reflection_response::MessageResponse;

#[tokio::test]
async fn daprd_finds_the_services_by_reflection() {
    let fixture = Fixture::start().await;
    let mut reflection = ServerReflectionClient::new(fixture.sidecar.service.clone());
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let requests = futures_util::stream::iter([request]);
    let mut answers = reflection
        .server_reflection_info(requests)
        .await
        .unwrap()
        .into_inner();
    let answer = answers.message().await.unwrap().unwrap();
    let Some(MessageResponse::ListServicesResponse(services)) = answer.message_response else {
        panic!("{answer:?}");
    };
    let mut names: Vec<_> = services
        .service
        .into_iter()
        .map(|service| service.name)
        .collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "dapr.proto.components.v1.StateStore",
            "dapr.proto.components.v1.TransactionalStateStore",
            "dapr.proto.components.v1.TransactionalStoreMultiMaxSize",
        ]
    );
}

#[tokio::test]
async fn a_signal_ends_it_in_order() {
    for signal in ["-TERM", "-INT"] {
        let Fixture {
            mut sidecar,
            store: _store,
            process,
            folder,
        } = Fixture::start().await;
        sidecar.set(set("key", "value")).await.unwrap();
        process.signal(signal);
        assert_eq!(process.wait(), Some(0));
        assert!(!folder.path().join("component.sock").exists());
    }
}

#[tokio::test]
async fn a_signal_does_not_cut_off_who_connects_to_a_store() {
    let store = RunningServer::start(Config::in_memory()).unwrap();
    let broker = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("mqtt://{}", broker.local_addr().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("component.sock");
    let process = Process::start(&socket, &[]);
    let mut sidecar = Sidecar::connect(&socket, "fixture").await;
    let begun = tokio::spawn(async move { sidecar.init(&[("url", &url)]).await });
    let (mut near, _) = broker.accept().await.unwrap();
    process.signal("-TERM");
    // Longer than answers are waited for that nobody reads.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    let mut far = TcpStream::connect(store.addresses()[0]).await.unwrap();
    tokio::spawn(async move { copy_bidirectional(&mut near, &mut far).await });
    begun.await.unwrap().unwrap();
    assert_eq!(process.wait(), Some(0));
}

#[tokio::test]
async fn a_client_that_does_not_read_cannot_keep_it_from_its_end() {
    let Fixture {
        mut sidecar,
        store: _store,
        process,
        folder: _folder,
    } = Fixture::start().await;
    sidecar.set(set("key", "value")).await.unwrap();
    // It says nothing, not even the preface of HTTP/2.
    let silent = UnixStream::connect(&process.socket).unwrap();
    process.signal("-TERM");
    assert_eq!(process.wait(), Some(0));
    drop(silent);
}

#[test]
fn nobody_gets_colours_who_does_not_want_them() {
    for (no_color, has_colours) in [(None, true), (Some(""), true), (Some("1"), false)] {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let path = ptsname(&terminal, Vec::new()).unwrap().into_string();
        let inside = File::options().read(true).write(true).open(path.unwrap());
        let folder = tempfile::tempdir().unwrap();
        let mut command = statestore_dapr();
        command
            .arg("--socket")
            .arg(folder.path().join("component.sock"))
            .env_remove("NO_COLOR")
            .envs(no_color.map(|value| ("NO_COLOR", value)))
            .stderr(inside.unwrap());
        let process = Process::spawn(command);
        process.signal("-TERM");
        assert_eq!(process.wait(), Some(0));
        let mut shown = Vec::new();
        // A terminal without an inner end is a read error, not an end of file.
        let _ = File::from(terminal).read_to_end(&mut shown);
        let shown = String::from_utf8(shown).unwrap();
        assert!(shown.contains("stopping"), "{shown:?}");
        assert_eq!(
            shown.contains('\x1b'),
            has_colours,
            "{no_color:?} {shown:?}"
        );
    }
}

#[tokio::test]
async fn a_stale_socket_is_replaced_and_another_ones_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("made/component.sock");
    let first = Process::start(&socket, &["--socket-mode", "660"]);
    let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    let refused = |path: &std::path::Path| {
        let output = statestore_dapr()
            .arg("--socket")
            .arg(path)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let told = refused(&socket);
    assert!(
        told.starts_with("statestore-dapr: another process"),
        "{told}"
    );
    first.kill();
    assert!(socket.exists());
    let _second = Process::start(&socket, &[]);
    Sidecar::connect(&socket, "any").await;
    let file = folder.path().join("file");
    std::fs::write(&file, "precious").unwrap();
    let told = refused(&file);
    assert!(told.contains("is no socket"), "{told}");
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");
    let foreign = folder.path().join("foreign.sock");
    let _listener = UnixListener::bind(&foreign).unwrap();
    let told = refused(&foreign);
    assert!(told.contains("listens on"), "{told}");
}

#[test]
fn the_socket_has_the_name_of_the_type() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = statestore_dapr();
    command.env("DAPR_COMPONENTS_SOCKETS_FOLDER", folder.path());
    let plain = Process::spawn(command);
    assert_eq!(plain.socket, folder.path().join("statestore.sock"));
    let mut command = statestore_dapr();
    command.env("DAPR_COMPONENTS_SOCKETS_FOLDER", folder.path());
    command.args(["--name", "azure.iotoperations"]);
    let vendors = Process::spawn(command);
    assert_eq!(
        vendors.socket,
        folder.path().join("azure.iotoperations.sock")
    );
}

#[test]
fn it_says_what_it_is() {
    let said = |argument: &str| {
        let output = statestore_dapr().arg(argument).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(
        said("--version"),
        concat!("statestore-dapr ", env!("CARGO_PKG_VERSION"), "\n")
    );
    let help = said("--help");
    for word in [
        "type: state.statestore",
        "--socket-mode",
        "DAPR_COMPONENTS_SOCKETS_FOLDER",
    ] {
        assert!(help.contains(word), "{help}");
    }
    let wrong = statestore_dapr()
        .args(["--url", "mqtt://user:JZ@"])
        .output()
        .unwrap();
    let told = String::from_utf8(wrong.stderr).unwrap();
    assert!(
        !wrong.status.success() && told.contains("it names no host"),
        "{told}"
    );
    assert!(!told.contains("JZ"), "{told}");
}
