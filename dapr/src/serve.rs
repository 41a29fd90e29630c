//! The process from its start to its end.
use crate::arguments::Arguments;
use crate::connection::Connection;
use crate::instances::Instances;
use crate::proto::DESCRIPTORS;
use crate::proto::state_store_server::{self, StateStoreServer};
use crate::proto::transactional_state_store_server::{self, TransactionalStateStoreServer};
use crate::proto::transactional_store_multi_max_size_server::{
    self, TransactionalStoreMultiMaxSizeServer,
};
use crate::service::Component;
use crate::socket::{SocketFile, listen};
use futures_util::stream;
use sd_notify::NotifyState;
use std::error::Error;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};
use tonic::transport::Server;

/// The longest message that daprd may send: values of 16 MiB, and transactions of several such.
const MAX_MESSAGE_BYTES: usize = 128 << 20;

/// How much a connection, and a call on it, may send ahead. Short messages of many calls count for more than their bytes, and
/// beyond half of it the connection is ended.
const CONNECTION_WINDOW: u32 = 16 << 20;
const CALL_WINDOW: u32 = 1 << 20;

/// After how much time accepting is tried again, as when there are no more files to be had.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long calls that run at the end may take.
const LAST_CALLS: Duration = Duration::from_secs(10);

/// How long their answers may take to leave.
const LAST_ANSWERS: Duration = Duration::from_millis(100);

/// How long taking leave of the stores may take.
const LEAVE: Duration = Duration::from_secs(2);

/// Serves until a signal says so.
pub(crate) fn serve(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    // One thread does more than daprd can ask for, and leaves the other processors to daprd, the application and the store. With two,
    // each call wakes the other thread several times, which costs more than the call.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let (listener, file) = listen(&arguments.socket(), arguments.socket_mode())?;
        let instances = Arc::new(Instances::new(arguments.url())?);
        let mut stdout = std::io::stdout().lock();
        writeln!(stdout, "listening on {}", file.path().display())?;
        stdout.flush()?;
        drop(stdout);
        tell(&[NotifyState::Ready]);
        let told = async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            tell(&[NotifyState::Stopping]);
            tracing::info!("stopping");
        };
        let served = answer(listener, file, &instances, told).await;
        let _ = tokio::time::timeout(LEAVE, instances.close()).await;
        served
    })
}

/// Answers calls until `told` ends, and a little longer those that run then.
async fn answer(
    listener: UnixListener,
    file: SocketFile,
    instances: &Arc<Instances>,
    told: impl Future<Output = ()>,
) -> Result<(), Box<dyn Error>> {
    let component = Component::new(instances.clone());
    let state = StateStoreServer::new(component.clone())
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);
    let transactions = TransactionalStateStoreServer::new(component.clone())
        .max_decoding_message_size(MAX_MESSAGE_BYTES);
    let sizes = TransactionalStoreMultiMaxSizeServer::new(component);
    // daprd asks by this version of the reflection which services a socket has.
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTORS)
        .with_service_name(state_store_server::SERVICE_NAME)
        .with_service_name(transactional_state_store_server::SERVICE_NAME)
        .with_service_name(transactional_store_multi_max_size_server::SERVICE_NAME)
        .build_v1alpha()?;
    let incoming = stream::unfold(listener, |listener| async {
        let connection = accept(&listener).await;
        Some((Ok::<_, io::Error>(connection), listener))
    });
    let (begin_end, end) = tokio::sync::oneshot::channel::<()>();
    let served = Server::builder()
        .initial_connection_window_size(CONNECTION_WINDOW)
        .initial_stream_window_size(CALL_WINDOW)
        .add_service(state)
        .add_service(transactions)
        .add_service(sizes)
        .add_service(reflection)
        .serve_with_incoming_shutdown(incoming, async {
            let _ = end.await;
        });
    let mut served = std::pin::pin!(served);
    tokio::select! {
        ended = &mut served => return Ok(ended?),
        () = told => {}
    }
    // Before anything else, so that nobody new comes.
    drop(file);
    let _ = begin_end.send(());
    // Connections stay for as long as daprd wants them; only calls are waited for.
    let last_calls = async {
        if tokio::time::timeout(LAST_CALLS, instances.idle())
            .await
            .is_err()
        {
            tracing::warn!("calls were still running after {} s", LAST_CALLS.as_secs());
        }
        tokio::time::sleep(LAST_ANSWERS).await;
    };
    tokio::select! {
        ended = served => Ok(ended?),
        () = last_calls => Ok(()),
    }
}

/// The next connection, however long it takes to get one.
async fn accept(listener: &UnixListener) -> Connection {
    loop {
        let accepted = listener.accept().await;
        match accepted.and_then(|(socket, _)| Connection::new(socket.into_std()?)) {
            Ok(connection) => return connection,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// What the manager of services learns (`sd_notify(3)`). Without one, nothing happens.
fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "cannot tell the manager of services (NOTIFY_SOCKET)");
    }
}
