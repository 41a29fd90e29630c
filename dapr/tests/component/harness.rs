//! A component process, a store for it, and daprd's side of the socket.
use statestore_dapr::proto::state_options::StateConcurrency;
use statestore_dapr::proto::state_store_client::StateStoreClient;
use statestore_dapr::proto::transactional_state_operation::Request as Operation;
use statestore_dapr::proto::transactional_state_store_client::TransactionalStateStoreClient;
use statestore_dapr::proto::{
    DeleteRequest, Etag, GetRequest, GetResponse, InitRequest, MetadataRequest, SetRequest,
    StateOptions, TransactionalStateOperation, TransactionalStateRequest,
};
use statestored::RunningServer;
use statestored::config::Config;
use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy};
use tokio::net::{TcpListener, TcpStream};
use tonic::metadata::AsciiMetadataValue;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};
use tonic_types::StatusExt as _;

/// How long a test waits for what must happen. Only a failing test waits that long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Room for what is sent and received on purpose.
const MAX_MESSAGE_BYTES: usize = 256 << 20;

pub(crate) const FIRST_WRITE: StateConcurrency = StateConcurrency::ConcurrencyFirstWrite;
pub(crate) const LAST_WRITE: StateConcurrency = StateConcurrency::ConcurrencyLastWrite;
pub(crate) const UNSPECIFIED: StateConcurrency = StateConcurrency::ConcurrencyUnspecified;

/// The command of a component.
pub(crate) fn statestore_dapr() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_statestore-dapr"));
    command
        .env_remove("DAPR_COMPONENTS_SOCKETS_FOLDER")
        .env_remove("STATESTORE_URL");
    command
}

/// A process of the component, which is killed at the end of the test.
pub(crate) struct Process {
    child: Child,
    pub(crate) socket: PathBuf,
}

impl Process {
    pub(crate) fn start(socket: &Path, arguments: &[&str]) -> Self {
        let mut command = statestore_dapr();
        command.arg("--socket").arg(socket).args(arguments);
        Self::spawn(command)
    }

    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        let socket = line.trim_end().strip_prefix("listening on ");
        let socket = socket.unwrap_or_else(|| panic!("{line:?}")).into();
        Self { child, socket }
    }

    pub(crate) fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &id]).status().unwrap();
        assert!(sent.success());
    }

    /// The most memory that it has had, in bytes.
    pub(crate) fn peak_memory(&self) -> usize {
        let status = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(status).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.unwrap().trim().strip_suffix(" kB").unwrap();
        kilobytes.parse::<usize>().unwrap() << 10
    }

    /// Waits for the exit code; `None` if a signal ended the process.
    pub(crate) fn wait(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Names the component that is called.
#[derive(Clone)]
pub(crate) struct ComponentNameInterceptor(AsciiMetadataValue);

impl Interceptor for ComponentNameInterceptor {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let name = self.0.clone();
        request.metadata_mut().insert("x-component-instance", name);
        Ok(request)
    }
}

pub(crate) type Service = InterceptedService<Channel, ComponentNameInterceptor>;

/// daprd's side of one component.
#[derive(Clone)]
pub(crate) struct Sidecar {
    pub(crate) state: StateStoreClient<Service>,
    pub(crate) transactions: TransactionalStateStoreClient<Service>,
    pub(crate) service: Service,
}

impl Sidecar {
    pub(crate) async fn connect(socket: &Path, name: &str) -> Self {
        let endpoint = Endpoint::from_shared(format!("unix://{}", socket.display())).unwrap();
        let channel = endpoint.connect().await.unwrap();
        let service =
            InterceptedService::new(channel, ComponentNameInterceptor(name.parse().unwrap()));
        Self {
            state: StateStoreClient::new(service.clone())
                .max_decoding_message_size(MAX_MESSAGE_BYTES)
                .max_encoding_message_size(MAX_MESSAGE_BYTES),
            transactions: TransactionalStateStoreClient::new(service.clone())
                .max_encoding_message_size(MAX_MESSAGE_BYTES),
            service,
        }
    }

    pub(crate) async fn init(&mut self, properties: &[(&str, &str)]) -> Result<(), Status> {
        let properties = map(properties);
        let metadata = Some(MetadataRequest { properties });
        self.state.init(InitRequest { metadata }).await.map(drop)
    }

    pub(crate) async fn get(&mut self, key: &str) -> GetResponse {
        self.try_get(key).await.unwrap()
    }

    pub(crate) async fn try_get(&mut self, key: &str) -> Result<GetResponse, Status> {
        let key = key.to_owned();
        let request = GetRequest {
            key,
            ..GetRequest::default()
        };
        self.state
            .get(request)
            .await
            .map(tonic::Response::into_inner)
    }

    pub(crate) async fn etag(&mut self, key: &str) -> String {
        self.get(key).await.etag.unwrap().value
    }

    /// The value as text; none if the key is absent.
    pub(crate) async fn value(&mut self, key: &str) -> Option<String> {
        let entry = self.get(key).await;
        entry.etag?;
        Some(String::from_utf8(entry.data.to_vec()).unwrap())
    }

    pub(crate) async fn set(&mut self, request: SetRequest) -> Result<(), Status> {
        self.state.set(request).await.map(drop)
    }

    pub(crate) async fn delete(&mut self, request: DeleteRequest) -> Result<(), Status> {
        self.state.delete(request).await.map(drop)
    }

    pub(crate) async fn transact(&mut self, operations: Vec<Operation>) -> Result<(), Status> {
        let operation = |request| TransactionalStateOperation {
            request: Some(request),
        };
        let request = TransactionalStateRequest {
            operations: operations.into_iter().map(operation).collect(),
            metadata: HashMap::new(),
        };
        self.transactions.transact(request).await.map(drop)
    }
}

const QUESTION: &[u8] = b"$4\r\nCAPS\r\n";
const UNKNOWN: &[u8] = b"$4\r\nNONE\r\n";
const EVENTUAL: &[u8] = b"$8\r\nEVENTUAL\r\n";

/// The address at which a server gets what this makes of the bytes for it.
async fn through(
    server: SocketAddr,
    change: impl Fn(&mut [u8]) + Clone + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let far = TcpStream::connect(server).await.unwrap();
            let (mut from_near, mut to_near) = near.into_split();
            let (mut from_far, mut to_far) = far.into_split();
            let change = change.clone();
            tokio::spawn(async move { copy(&mut from_far, &mut to_near).await });
            tokio::spawn(async move {
                let mut bytes = vec![0; 1 << 16];
                loop {
                    let len = from_near.read(&mut bytes).await.unwrap_or(0);
                    if len == 0 {
                        return;
                    }
                    change(&mut bytes[..len]);
                    to_far.write_all(&bytes[..len]).await.unwrap();
                }
            });
        }
    });
    address
}

fn position(sent: &[u8], word: &[u8]) -> Option<usize> {
    sent.windows(word.len()).position(|it| it == word)
}

/// A server does not understand any more what its extensions are asked for.
fn without_extensions(sent: &mut [u8]) {
    if let Some(at) = position(sent, QUESTION) {
        sent[at..at + QUESTION.len()].copy_from_slice(UNKNOWN);
    }
}

/// A component with a store in this process, in memory.
pub(crate) struct Fixture {
    pub(crate) sidecar: Sidecar,
    pub(crate) store: RunningServer,
    pub(crate) process: Process,
    pub(crate) folder: TempDir,
}

impl Fixture {
    pub(crate) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts a fixture with the extensions of the protocol and one without.
    pub(crate) async fn of_both_kinds(properties: &[(&str, &str)]) -> [Self; 2] {
        [
            Self::start_with(properties).await,
            Self::plain(properties).await,
        ]
    }

    /// Starts a fixture with metadata in addition to the URL.
    pub(crate) async fn start_with(properties: &[(&str, &str)]) -> Self {
        let store = RunningServer::start(Config::in_memory()).unwrap();
        let url = store.url();
        Self::with_store(store, &url, properties).await
    }

    /// Starts a fixture with a store that supports no extension of the protocol.
    pub(crate) async fn plain(properties: &[(&str, &str)]) -> Self {
        let store = RunningServer::start(Config::in_memory()).unwrap();
        let address = through(store.addresses()[0], without_extensions).await;
        Self::with_store(store, &format!("mqtt://{address}"), properties).await
    }

    /// And how many reads have asked for what the server knows without asking others.
    pub(crate) async fn counting_eventual_reads() -> (Self, Arc<AtomicUsize>) {
        let count = Arc::new(AtomicUsize::new(0));
        let store = RunningServer::start(Config::in_memory()).unwrap();
        let counted = Arc::clone(&count);
        let address = through(store.addresses()[0], move |sent| {
            let is_one = position(sent, EVENTUAL).is_some();
            counted.fetch_add(usize::from(is_one), Ordering::Relaxed);
        });
        let url = format!("mqtt://{}", address.await);
        (Self::with_store(store, &url, &[]).await, count)
    }

    pub(crate) async fn with_store(
        store: RunningServer,
        url: &str,
        properties: &[(&str, &str)],
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let process = Process::start(&folder.path().join("component.sock"), &[]);
        let mut sidecar = Sidecar::connect(&process.socket, "fixture").await;
        let all = [&[("url", url)], properties].concat();
        sidecar.init(&all).await.unwrap();
        Self {
            sidecar,
            store,
            process,
            folder,
        }
    }

    /// A client of the same store.
    pub(crate) async fn client(&self) -> statestore::Client {
        let settings = statestore::Settings::from_url(&self.store.url()).unwrap();
        statestore::Client::connect(settings).await.unwrap()
    }
}

pub(crate) fn map(pairs: &[(&str, &str)]) -> HashMap<String, String> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}

pub(crate) fn set(key: &str, value: &str) -> SetRequest {
    SetRequest {
        key: key.to_owned(),
        value: value.as_bytes().to_vec().into(),
        ..SetRequest::default()
    }
}

/// A SET with an `ETag` and a concurrency.
pub(crate) fn set_if(
    key: &str,
    value: &str,
    etag: Option<&str>,
    concurrency: StateConcurrency,
) -> SetRequest {
    SetRequest {
        etag: etag.map(sent),
        options: Some(options(concurrency)),
        ..set(key, value)
    }
}

pub(crate) fn set_for(key: &str, value: &str, ttl: &str) -> SetRequest {
    SetRequest {
        metadata: map(&[("ttlInSeconds", ttl)]),
        ..set(key, value)
    }
}

pub(crate) fn delete(key: &str) -> DeleteRequest {
    delete_if(key, None, UNSPECIFIED)
}

pub(crate) fn delete_if(
    key: &str,
    etag: Option<&str>,
    concurrency: StateConcurrency,
) -> DeleteRequest {
    DeleteRequest {
        key: key.to_owned(),
        etag: etag.map(sent),
        options: Some(options(concurrency)),
        ..DeleteRequest::default()
    }
}

fn sent(value: &str) -> Etag {
    let value = value.to_owned();
    Etag { value }
}

fn options(concurrency: StateConcurrency) -> StateOptions {
    StateOptions {
        concurrency: concurrency.into(),
        consistency: 0,
    }
}

/// Asserts an error that daprd reports as a mismatch of the `ETag`.
#[track_caller]
pub(crate) fn assert_mismatch(result: Result<(), Status>) {
    assert_etag_error(result, Code::FailedPrecondition);
}

/// Asserts an error that daprd reports as an invalid `ETag`.
#[track_caller]
pub(crate) fn assert_invalid_etag(result: Result<(), Status>) {
    assert_etag_error(result, Code::InvalidArgument);
}

#[track_caller]
fn assert_etag_error(result: Result<(), Status>, code: Code) {
    let status = result.unwrap_err();
    assert_eq!(status.code(), code, "{status:?}");
    let details = status.get_error_details_vec();
    assert_eq!(details.len(), 1, "{status:?}");
    let bad_request = status.get_details_bad_request().unwrap();
    let fields: Vec<_> = bad_request
        .field_violations
        .iter()
        .map(|it| &it.field)
        .collect();
    assert_eq!(fields, ["etag"], "{status:?}");
}
