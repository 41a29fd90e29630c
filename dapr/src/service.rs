//! The services that daprd calls.
use crate::bulk::{KeyLocks, bulk_result, join_all};
use crate::endpoint::MAX_MESSAGE_BYTES;
use crate::instance::Call;
use crate::instance_registry::{InstanceId, InstanceRegistry};
use crate::proto::state_store_server::StateStore;
use crate::proto::transactional_state_store_server::TransactionalStateStore;
use crate::proto::transactional_store_multi_max_size_server::TransactionalStoreMultiMaxSize;
use crate::proto::{
    BulkDeleteRequest, BulkDeleteResponse, BulkGetRequest, BulkGetResponse, BulkSetRequest,
    BulkSetResponse, BulkStateItem, DeleteRequest, DeleteResponse, FeaturesRequest,
    FeaturesResponse, GetRequest, GetResponse, InitRequest, InitResponse, MultiMaxSizeRequest,
    MultiMaxSizeResponse, PingRequest, PingResponse, SetRequest, SetResponse,
    TransactionalStateRequest, TransactionalStateResponse,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tonic::{Request, Response, Status};

/// All services of the socket.
#[derive(Debug, Clone)]
pub(crate) struct ComponentService {
    instances: Arc<InstanceRegistry>,
}

impl ComponentService {
    /// The services of these components.
    pub(crate) fn new(instances: Arc<InstanceRegistry>) -> Self {
        Self { instances }
    }

    /// Returns the component that is called, and the message. Fails if the store cannot be reached now.
    async fn start_call<T>(&self, request: Request<T>) -> Result<(Call, T), Status> {
        let instance = self
            .instances
            .start_call(&InstanceId::from_request(&request)?)?;
        instance.ready().await?;
        Ok((instance, request.into_inner()))
    }
}

#[tonic::async_trait]
impl StateStore for ComponentService {
    async fn init(&self, request: Request<InitRequest>) -> Result<Response<InitResponse>, Status> {
        let id = InstanceId::from_request(&request)?;
        let properties = request.into_inner().metadata.unwrap_or_default().properties;
        self.instances.init(id, &properties).await?;
        Ok(Response::new(InitResponse {}))
    }

    async fn features(
        &self,
        request: Request<FeaturesRequest>,
    ) -> Result<Response<FeaturesResponse>, Status> {
        let (instance, _) = self.start_call(request).await?;
        let features = instance.features().await?;
        Ok(Response::new(FeaturesResponse { features }))
    }

    async fn delete(
        &self,
        request: Request<DeleteRequest>,
    ) -> Result<Response<DeleteResponse>, Status> {
        let (instance, request) = self.start_call(request).await?;
        instance.delete(request).await?;
        Ok(Response::new(DeleteResponse {}))
    }

    async fn get(&self, request: Request<GetRequest>) -> Result<Response<GetResponse>, Status> {
        let (instance, request) = self.start_call(request).await?;
        instance.get(request).await.map(Response::new)
    }

    async fn set(&self, request: Request<SetRequest>) -> Result<Response<SetResponse>, Status> {
        let (instance, request) = self.start_call(request).await?;
        instance.set(request).await?;
        Ok(Response::new(SetResponse {}))
    }

    async fn ping(&self, request: Request<PingRequest>) -> Result<Response<PingResponse>, Status> {
        let instance = self
            .instances
            .start_call(&InstanceId::from_request(&request)?)?;
        instance.ping()?;
        Ok(Response::new(PingResponse {}))
    }

    async fn bulk_delete(
        &self,
        request: Request<BulkDeleteRequest>,
    ) -> Result<Response<BulkDeleteResponse>, Status> {
        let (instance, request) = self.start_call(request).await?;
        let parallelism = request.options.map(|options| options.parallelism);
        let locks = KeyLocks::for_repeated(request.items.iter().map(|item| &*item.key));
        let done = join_all(request.items, parallelism, async |item: DeleteRequest| {
            let _guard = locks.lock(&item.key).await;
            instance.delete(item).await
        });
        bulk_result(done.await, "deletions")?;
        Ok(Response::new(BulkDeleteResponse {}))
    }

    async fn bulk_get(
        &self,
        request: Request<BulkGetRequest>,
    ) -> Result<Response<BulkGetResponse>, Status> {
        let (instance, request) = self.start_call(request).await?;
        let parallelism = request.options.map(|options| options.parallelism);
        let len = AtomicUsize::new(0);
        let items = join_all(request.items, parallelism, async |item: GetRequest| {
            if len.load(Ordering::Relaxed) > MAX_MESSAGE_BYTES {
                return BulkStateItem::default();
            }
            let key = item.key.clone();
            let item = BulkStateItem::new(key, instance.get(item).await);
            let before = len.fetch_add(item.data.len(), Ordering::Relaxed);
            if before > MAX_MESSAGE_BYTES {
                // An answer that is too large to be sent is not collected.
                return BulkStateItem::default();
            }
            item
        });
        let items = items.await;
        if len.into_inner() > MAX_MESSAGE_BYTES {
            return Err(Status::out_of_range(format!(
                "the values have more than {} MiB together; get fewer keys at a time",
                MAX_MESSAGE_BYTES >> 20
            )));
        }
        Ok(Response::new(BulkGetResponse { items }))
    }

    async fn bulk_set(
        &self,
        request: Request<BulkSetRequest>,
    ) -> Result<Response<BulkSetResponse>, Status> {
        let (instance, request) = self.start_call(request).await?;
        let parallelism = request.options.map(|options| options.parallelism);
        let locks = KeyLocks::for_repeated(request.items.iter().map(|item| &*item.key));
        let done = join_all(request.items, parallelism, async |item: SetRequest| {
            let _guard = locks.lock(&item.key).await;
            instance.set(item).await
        });
        bulk_result(done.await, "writes")?;
        Ok(Response::new(BulkSetResponse {}))
    }
}

impl BulkStateItem {
    /// Creates the item for one of many keys. A failed read is a failure of its item, not of the call.
    fn new(key: String, entry: Result<GetResponse, Status>) -> Self {
        match entry {
            Ok(entry) => Self {
                key,
                data: entry.data,
                etag: entry.etag,
                error: String::new(),
                metadata: entry.metadata,
                content_type: entry.content_type,
            },
            Err(status) => Self {
                key,
                error: status.message().to_owned(),
                ..Self::default()
            },
        }
    }
}

#[tonic::async_trait]
impl TransactionalStateStore for ComponentService {
    async fn transact(
        &self,
        request: Request<TransactionalStateRequest>,
    ) -> Result<Response<TransactionalStateResponse>, Status> {
        let (instance, request) = self.start_call(request).await?;
        instance.transact(request).await?;
        Ok(Response::new(TransactionalStateResponse {}))
    }
}

#[tonic::async_trait]
impl TransactionalStoreMultiMaxSize for ComponentService {
    async fn multi_max_size(
        &self,
        request: Request<MultiMaxSizeRequest>,
    ) -> Result<Response<MultiMaxSizeResponse>, Status> {
        let (instance, _) = self.start_call(request).await?;
        let max = instance.max_operations().await?;
        let max_size = i64::try_from(max).unwrap_or(i64::MAX);
        Ok(Response::new(MultiMaxSizeResponse { max_size }))
    }
}
