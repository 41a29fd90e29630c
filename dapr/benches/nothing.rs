//! A component that does nothing: every read finds the same entry, every write succeeds, and there is no store. What calls on it take is
//! what calls on any pluggable component take at least. `tests/dapr/daprd/speed.py` starts it with the path of its socket, and ends it.
#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]
#[path = "../src/connection.rs"]
#[allow(unused, reason = "its tests run where it belongs")]
mod connection;
#[path = "../src/frames.rs"]
#[allow(unused, reason = "its tests run where it belongs")]
mod frames;

#[path = "../src/peer.rs"]
#[allow(unused, reason = "its tests run where it belongs")]
mod peer;

#[path = "../src/endpoint.rs"]
mod endpoint;

use bytes::Bytes;
use endpoint::GrpcServices;
use statestore_dapr::proto;
use statestore_dapr::proto::state_store_server::StateStore;
use statestore_dapr::proto::transactional_state_store_server::TransactionalStateStore;
use statestore_dapr::proto::transactional_store_multi_max_size_server::TransactionalStoreMultiMaxSize;
use statestore_dapr::proto::{
    BulkDeleteRequest, BulkDeleteResponse, BulkGetRequest, BulkGetResponse, BulkSetRequest,
    BulkSetResponse, DeleteRequest, DeleteResponse, Etag, FeaturesRequest, FeaturesResponse,
    GetRequest, GetResponse, InitRequest, InitResponse, MultiMaxSizeRequest, MultiMaxSizeResponse,
    PingRequest, PingResponse, SetRequest, SetResponse, TransactionalStateRequest,
    TransactionalStateResponse,
};
use tokio::net::UnixListener;
use tonic::{Request, Response, Status};

/// As long as what the callers save, and as long as an `ETag` of ours.
const VALUE: &[u8] = br#""0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789""#;
const ETAG: &str = "001700000000000:00000:StateStore";

/// As many as the store says.
const MAX_OPERATIONS: i64 = 10_000;

#[derive(Debug, Clone, Copy)]
struct NullComponent;

type RpcResult<T> = Result<Response<T>, Status>;

fn done<T: Default>() -> Response<T> {
    Response::new(T::default())
}

#[tonic::async_trait]
impl StateStore for NullComponent {
    async fn init(&self, _: Request<InitRequest>) -> RpcResult<InitResponse> {
        Ok(done())
    }

    async fn features(&self, _: Request<FeaturesRequest>) -> RpcResult<FeaturesResponse> {
        let features = ["ETAG", "TRANSACTIONAL", "TTL"].map(str::to_owned).into();
        Ok(Response::new(FeaturesResponse { features }))
    }

    async fn delete(&self, _: Request<DeleteRequest>) -> RpcResult<DeleteResponse> {
        Ok(done())
    }

    async fn get(&self, _: Request<GetRequest>) -> RpcResult<GetResponse> {
        let value = ETAG.to_owned();
        Ok(Response::new(GetResponse {
            data: Bytes::from_static(VALUE),
            etag: Some(Etag { value }),
            ..GetResponse::default()
        }))
    }

    async fn set(&self, _: Request<SetRequest>) -> RpcResult<SetResponse> {
        Ok(done())
    }

    async fn ping(&self, _: Request<PingRequest>) -> RpcResult<PingResponse> {
        Ok(done())
    }

    async fn bulk_delete(&self, _: Request<BulkDeleteRequest>) -> RpcResult<BulkDeleteResponse> {
        Ok(done())
    }

    async fn bulk_get(&self, _: Request<BulkGetRequest>) -> RpcResult<BulkGetResponse> {
        Ok(done())
    }

    async fn bulk_set(&self, _: Request<BulkSetRequest>) -> RpcResult<BulkSetResponse> {
        Ok(done())
    }
}

#[tonic::async_trait]
impl TransactionalStateStore for NullComponent {
    async fn transact(
        &self,
        _: Request<TransactionalStateRequest>,
    ) -> RpcResult<TransactionalStateResponse> {
        Ok(done())
    }
}

#[tonic::async_trait]
impl TransactionalStoreMultiMaxSize for NullComponent {
    async fn multi_max_size(
        &self,
        _: Request<MultiMaxSizeRequest>,
    ) -> RpcResult<MultiMaxSizeResponse> {
        let max_size = MAX_OPERATIONS;
        Ok(Response::new(MultiMaxSizeResponse { max_size }))
    }
}

fn main() {
    let path = std::env::args().nth(1).unwrap();
    // As statestore-dapr has it.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let listener = UnixListener::bind(&path).unwrap();
        let services = GrpcServices::new(NullComponent).unwrap();
        println!("listening on {path}");
        endpoint::serve(listener, services, std::future::pending()).await;
    });
}
