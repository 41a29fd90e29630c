//! Comparison of the nodes' wall clocks. etcd does not report a clock of its own.
use super::connection::kv;
use super::members::Members;
use super::store::Store;
use super::{REQUEST_TIMEOUT, limits};
use etcd_client::{Client, Error, GetOptions, PutOptions};
use statestored_shared::{
    CLOCK_LIFETIME, ClockReadings, EngineError, EngineEvent, EngineRequestId,
};
use std::sync::Arc;
use tokio::sync::Mutex;
use tokio::sync::mpsc::UnboundedSender;

/// The lease under which this process reports its clock; `None` before the first report, and after a failed one. Keeping a lease alive
/// costs etcd no consensus, unlike a new lease each time.
pub(super) type OwnLease = Arc<Mutex<Option<i64>>>;

/// Reads the clocks of the other nodes, and reports that of this process.
pub(super) async fn compare(
    members: Arc<Members>,
    store: Arc<Store>,
    lease: OwnLease,
    id: EngineRequestId,
    (process, shown_ms): (u128, u64),
    events: UnboundedSender<EngineEvent>,
) {
    let found = read_clocks(&members, &store).await;
    // The receiver may be gone.
    let _ = events.send(members.count_event());
    let _ = events.send(EngineEvent::Clocks(id, found));
    // The other nodes do without this clock if etcd accepts no writes.
    let report = members.request_slow(REQUEST_TIMEOUT, |client| async move {
        report_clock(&client, &store, &lease, process, shown_ms).await
    });
    let writable = match report.await {
        Ok(true) => Ok(()),
        Err(error) if limits::is_full(&error) => Err(EngineError::Full),
        result => {
            tracing::debug!(?result, "cannot write the clock of this server to etcd");
            return;
        }
    };
    let _ = events.send(EngineEvent::Writable(writable));
}

async fn read_clocks(
    members: &Members,
    store: &Store,
) -> Result<ClockReadings, Option<EngineError>> {
    store.check()?;
    let names = store.names();
    let all = GetOptions::new().with_prefix();
    let latest = store.latest();
    let request = members.request(|client| async move {
        let mut kv = kv(&client);
        kv.get(names.clocks(), Some(all)).await
    });
    let Ok(response) = request.await else {
        return Err(None);
    };
    store.check_header(response.header(), latest)?;
    let nodes = response.kvs().iter().filter_map(|found| {
        let process = found.key().strip_prefix(&names.clocks()[..])?;
        let process = u128::from_str_radix(std::str::from_utf8(process).ok()?, 16).ok()?;
        let shown_ms = std::str::from_utf8(found.value()).ok()?.parse().ok()?;
        Some((process, shown_ms))
    });
    Ok(ClockReadings {
        engine_ms: None,
        nodes: nodes.collect(),
    })
}

async fn report_clock(
    client: &Client,
    store: &Store,
    lease: &OwnLease,
    process: u128,
    shown_ms: u64,
) -> Result<bool, Error> {
    let mut own = lease.lock().await;
    // The lease is stored again once etcd has accepted the report under it.
    let lease = renew_lease(client, own.take()).await?;
    let name = store.names().clock(process);
    let options = PutOptions::new().with_lease(lease);
    let put = etcd_client::TxnOp::put(name, shown_ms.to_string(), Some(options));
    let response = kv(client).txn(store.guarded_read(vec![put])).await?;
    *own = response.succeeded().then_some(lease);
    Ok(response.succeeded())
}

/// Returns a lease with its whole lifetime left: the given one if etcd still knows it, or a new one.
async fn renew_lease(client: &Client, lease: Option<i64>) -> Result<i64, Error> {
    let mut leases = client.lease_client();
    if let Some(lease) = lease
        && leases.keep_alive(lease).await.is_ok()
    {
        return Ok(lease);
    }
    let seconds = i64::try_from(CLOCK_LIFETIME.as_secs()).unwrap_or(i64::MAX);
    Ok(leases.grant(seconds, None).await?.id())
}
