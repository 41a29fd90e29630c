//! The process: its socket, its end, and what it says of itself.
use crate::harness::{Fixture, Process, Sidecar, set, statestore_dapr};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use statestore_dapr::proto::queriable_state_store_client::QueriableStateStoreClient;
use statestore_dapr::proto::{PingRequest, PingResponse, QueryRequest};
use statestored::RunningServer;
use statestored::config::Config;
use std::fs::{File, Permissions};
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Code, Request};
use tonic_prost::ProstCodec;
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
async fn a_signal_shuts_down_gracefully() {
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
async fn a_signal_does_not_interrupt_a_connecting_instance() {
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
    // Longer than the component waits for a reader of its responses.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    let mut far = TcpStream::connect(store.addresses()[0]).await.unwrap();
    tokio::spawn(async move { copy_bidirectional(&mut near, &mut far).await });
    begun.await.unwrap().unwrap();
    assert_eq!(process.wait(), Some(0));
}

#[tokio::test]
async fn a_client_that_does_not_read_cannot_delay_the_shutdown() {
    let Fixture {
        mut sidecar,
        store: _store,
        process,
        folder: _folder,
    } = Fixture::start().await;
    sidecar.set(set("key", "value")).await.unwrap();
    // The connection sends nothing, not even the preface of HTTP/2.
    let silent = UnixStream::connect(&process.socket).unwrap();
    process.signal("-TERM");
    assert_eq!(process.wait(), Some(0));
    drop(silent);
}

#[test]
fn no_color_disables_colors() {
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
async fn a_stale_socket_is_replaced_and_an_active_one_is_not() {
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
    assert!(told.contains("is not a socket"), "{told}");
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");
    let foreign = folder.path().join("foreign.sock");
    let _listener = UnixListener::bind(&foreign).unwrap();
    let told = refused(&foreign);
    assert!(told.contains("listens on"), "{told}");
}

/// Expects the component to refuse a socket, and returns its message.
fn refused(socket: &Path) -> String {
    let mut command = statestore_dapr();
    command.arg("--socket").arg(socket).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    if !line.is_empty() {
        child.kill().unwrap();
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(line, "", "it listens");
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_folder_that_others_may_write_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for mode in [0o777, 0o775] {
        std::fs::set_permissions(folder.path(), Permissions::from_mode(mode)).unwrap();
        let told = refused(&folder.path().join("component.sock"));
        assert!(told.contains("other users may write"), "{told}");
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }
    // Others may add files, and neither remove nor rename the socket.
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o1777)).unwrap();
    Process::start(&folder.path().join("component.sock"), &[]);
}

#[test]
fn a_folder_of_another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        // Only root can give a folder away.
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(folder.path(), Some(65_534), None).unwrap();
    let told = refused(&folder.path().join("component.sock"));
    assert!(told.contains("belongs to user 65534"), "{told}");
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}

#[test]
fn a_symbolic_link_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("target");
    std::fs::create_dir(&target).unwrap();
    let link = folder.path().join("link");
    symlink(&target, &link).unwrap();
    let told = refused(&link.join("component.sock"));
    assert!(told.contains("symbolic link"), "{told}");
    let socket = target.join("component.sock");
    symlink(folder.path().join("elsewhere"), &socket).unwrap();
    let told = refused(&socket);
    assert!(told.contains("is not a socket"), "{told}");
    assert!(!folder.path().join("elsewhere").exists());
}

#[test]
fn a_created_folder_is_writable_only_by_its_user() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("made/here/component.sock");
    let mut command = Command::new("sh");
    command
        .args(["-c", "umask 000; exec \"$@\"", "sh"])
        .arg(env!("CARGO_BIN_EXE_statestore-dapr"))
        .arg("--socket")
        .arg(&socket);
    let _process = Process::spawn(command);
    for made in ["made", "made/here"] {
        let made = std::fs::metadata(folder.path().join(made)).unwrap();
        assert_eq!(made.permissions().mode() & 0o777, 0o755);
    }
    let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn unimplemented_methods_are_named() {
    let mut fixture = Fixture::start().await;
    let mut queries = QueriableStateStoreClient::new(fixture.sidecar.service.clone());
    let query = queries.query(QueryRequest::default()).await.unwrap_err();
    assert_eq!(query.code(), Code::Unimplemented, "{query:?}");
    assert!(query.message().contains("quer"), "{query:?}");
    let mut calls = tonic::client::Grpc::new(fixture.sidecar.service.clone());
    for path in [
        "/dapr.proto.components.v1.StateStore/KeysLike",
        "/dapr.proto.components.v1.Other/Method",
    ] {
        calls.ready().await.unwrap();
        let path = PathAndQuery::from_static(path);
        let codec = ProstCodec::<PingRequest, PingResponse>::default();
        let call = calls.unary(Request::new(PingRequest {}), path.clone(), codec);
        let status = call.await.unwrap_err();
        assert_eq!(status.code(), Code::Unimplemented, "{status:?}");
        assert!(status.message().contains(path.as_str()), "{status:?}");
    }
    fixture.sidecar.set(set("key", "value")).await.unwrap();
}

#[tokio::test]
async fn the_debug_log_contains_calls_but_no_frames() {
    let folder = tempfile::tempdir().unwrap();
    let store = RunningServer::start(Config::in_memory()).unwrap();
    let log = folder.path().join("log");
    let mut command = statestore_dapr();
    command
        .args(["--log", "debug", "--socket"])
        .arg(folder.path().join("component.sock"))
        .stderr(File::create(&log).unwrap());
    let process = Process::spawn(command);
    let mut sidecar = Sidecar::connect(&process.socket, "fixture").await;
    sidecar.init(&[("url", &store.url())]).await.unwrap();
    sidecar.set(set("key", "value")).await.unwrap();
    process.signal("-TERM");
    assert_eq!(process.wait(), Some(0));
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("DEBUG connected"), "{log}");
    for word in ["frame", "Headers", "hpack", "stream_id"] {
        assert!(!log.contains(word), "{word}: {log}");
    }
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
fn help_and_version_are_printed() {
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
