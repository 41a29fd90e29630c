//! Connections of daprd, and the calls on them: HTTP/2 of hyper, and gRPC of tonic.
//!
//! A call passes only the layers that it needs. The server of tonic wraps each call in a router, boxes and a timer. An answer has
//! no `date` header, which daprd would store without using it.
use crate::connection::Connection;
use crate::peer::Peer;
use crate::proto::DESCRIPTORS;
use crate::proto::state_store_server::{self, StateStore, StateStoreServer};
use crate::proto::transactional_state_store_server::{
    self, TransactionalStateStore, TransactionalStateStoreServer,
};
use crate::proto::transactional_store_multi_max_size_server::{
    self, TransactionalStoreMultiMaxSize, TransactionalStoreMultiMaxSizeServer,
};
use bytes::Bytes;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::rt::Executor;
use hyper::server::conn::http2;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio::time::timeout;
use tonic::body::Body;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::http::{HeaderMap, HeaderValue, Request, Response};
use tonic::codegen::{BoxFuture, Service as _};
use tonic::service::Routes;
use tonic::{Code, Status};
use tonic_reflection::server::Error;

/// Maximum length of a message of daprd: values of 16 MiB, and transactions with several of them.
pub(crate) const MAX_MESSAGE_BYTES: usize = 128 << 20;

/// Flow-control windows of a connection, and of a call on it. Short messages of many calls count for more than their bytes, and
/// beyond half of the window the connection is closed.
const CONNECTION_WINDOW: u32 = 16 << 20;
const CALL_WINDOW: u32 = 1 << 20;

/// The method behind Dapr's query API.
const QUERY_METHOD: &str = "/dapr.proto.components.v1.QueriableStateStore/Query";

/// Pause before accepting is tried again, for example when the process has too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Time limit for calls that run at the end.
const CALL_DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Time limit for sending the last answers and ending the connections. Only a peer that does not read its answers needs that
/// long.
const CONNECTION_CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The services of the socket.
#[derive(Debug, Clone)]
pub(crate) struct GrpcServices<C: StateStore + TransactionalStateStore> {
    state: StateStoreServer<C>,
    transactions: TransactionalStateStoreServer<C>,
    /// The services that are rarely called.
    others: Routes,
    /// Each call has a receiver.
    calls: Arc<watch::Sender<()>>,
}

impl<C> GrpcServices<C>
where
    C: StateStore + TransactionalStateStore + TransactionalStoreMultiMaxSize + Clone,
{
    /// Creates the services for a component.
    pub(crate) fn new(component: C) -> Result<Self, Error> {
        // daprd uses this version of reflection to ask for the services of a socket.
        let reflection = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .with_service_name(state_store_server::SERVICE_NAME)
            .with_service_name(transactional_state_store_server::SERVICE_NAME)
            .with_service_name(transactional_store_multi_max_size_server::SERVICE_NAME)
            .build_v1alpha()?;
        let sizes = TransactionalStoreMultiMaxSizeServer::new(component.clone());
        Ok(Self {
            state: StateStoreServer::new(component.clone())
                .max_decoding_message_size(MAX_MESSAGE_BYTES)
                .max_encoding_message_size(MAX_MESSAGE_BYTES),
            transactions: TransactionalStateStoreServer::new(component)
                .max_decoding_message_size(MAX_MESSAGE_BYTES),
            others: Routes::new(sizes).add_service(reflection).prepare(),
            calls: Arc::default(),
        })
    }
}

/// The services for the connection of one peer.
#[derive(Debug)]
struct PeerServices<C: StateStore + TransactionalStateStore> {
    services: GrpcServices<C>,
    peer: Peer,
}

impl<C> hyper::service::Service<Request<Incoming>> for PeerServices<C>
where
    C: StateStore + TransactionalStateStore,
{
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = CallFuture;

    // All of these services are always ready.
    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(self.peer);
        let method = request.uri().path_and_query().cloned();
        let mut names = request.uri().path().split('/');
        let services = &self.services;
        let call = match names.nth(1) {
            Some(state_store_server::SERVICE_NAME) => services.state.clone().call(request),
            Some(transactional_state_store_server::SERVICE_NAME) => {
                services.transactions.clone().call(request)
            }
            _ => Box::pin(services.others.clone().call(request)),
        };
        CallFuture {
            call,
            method,
            runs: Some(services.calls.subscribe()),
        }
    }
}

/// A call, which runs until its answer has been taken or the peer has cancelled it.
pub(crate) struct CallFuture {
    call: BoxFuture<Response<Body>, Infallible>,
    method: Option<PathAndQuery>,
    runs: Option<watch::Receiver<()>>,
}

impl Future for CallFuture {
    type Output = Result<Response<ResponseBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut response = ready!(self.call.as_mut().poll(context))?;
        explain_unimplemented(response.headers_mut(), self.method.as_ref());
        Poll::Ready(Ok(response.map(|body| ResponseBody {
            body,
            _runs: self.runs.take(),
        })))
    }
}

/// Adds the message that the generated services leave out for a method that they lack.
fn explain_unimplemented(headers: &mut HeaderMap, method: Option<&PathAndQuery>) {
    let is_unimplemented = Status::from_header_map(headers)
        .is_some_and(|status| status.code() == Code::Unimplemented && status.message().is_empty());
    if !is_unimplemented {
        return;
    }
    let method = method.map_or("", PathAndQuery::path);
    let message = if method == QUERY_METHOD {
        "this component does not support queries; get entries by their keys".to_owned()
    } else {
        format!("this component does not support the method {method}")
    };
    if let Ok(message) = HeaderValue::from_str(&message) {
        headers.insert(Status::GRPC_MESSAGE, message);
    }
}

/// The answer to a call.
pub(crate) struct ResponseBody {
    body: Body,
    _runs: Option<watch::Receiver<()>>,
}

impl hyper::body::Body for ResponseBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Runs the calls of a connection.
#[derive(Debug, Clone, Copy)]
struct CallExecutor;

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for CallExecutor {
    fn execute(&self, call: F) {
        tokio::spawn(call);
    }
}

/// Serves connections until `shutdown` completes. Open connections then accept no further calls and end after their last one. Waits
/// for that, within the time limits for calls and answers.
pub(crate) async fn serve<C>(
    listener: UnixListener,
    services: GrpcServices<C>,
    shutdown: impl Future<Output = ()>,
) where
    C: StateStore + TransactionalStateStore + Clone,
{
    let calls = services.calls.clone();
    // Each connection has a receiver.
    let (ending, _) = watch::channel(());
    {
        let mut shutdown = pin!(shutdown);
        loop {
            let connection = tokio::select! {
                () = &mut shutdown => break,
                connection = accept(&listener) => connection,
            };
            let (connection, peer) = connection;
            let services = PeerServices {
                services: services.clone(),
                peer,
            };
            tokio::spawn(run_connection(connection, services, ending.subscribe()));
        }
    }
    drop(listener);
    let _ = ending.send(());
    let last_calls = async {
        if timeout(CALL_DRAIN_TIMEOUT, calls.closed()).await.is_err() {
            tracing::warn!(
                "calls were still running after {} s",
                CALL_DRAIN_TIMEOUT.as_secs()
            );
        }
        tokio::time::sleep(CONNECTION_CLOSE_TIMEOUT).await;
    };
    tokio::select! {
        () = ending.closed() => {}
        () = last_calls => {}
    }
}

/// Serves one connection until it ends, or until its calls have ended after `ending` has changed.
async fn run_connection<C>(
    connection: Connection,
    services: PeerServices<C>,
    mut ending: watch::Receiver<()>,
) where
    C: StateStore + TransactionalStateStore,
{
    let mut served = pin!(
        http2::Builder::new(CallExecutor)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .initial_stream_window_size(CALL_WINDOW)
            // daprd opens as many streams as it has calls.
            .max_concurrent_streams(None)
            .auto_date_header(false)
            .serve_connection(TokioIo::new(connection), services)
    );
    let ended = tokio::select! {
        ended = &mut served => ended,
        _ = ending.changed() => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection failed");
    }
}

/// Waits for the next connection, and returns it with its peer.
async fn accept(listener: &UnixListener) -> (Connection, Peer) {
    loop {
        let accepted = listener.accept().await;
        let identified = accepted.and_then(|(socket, _)| {
            let peer = Peer::from_socket(&socket)?;
            Ok((Connection::new(socket.into_std()?)?, peer))
        });
        match identified {
            Ok(connection) => return connection,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
