//! The process from its start to its end.
use crate::arguments::Arguments;
use crate::endpoint::{self, GrpcServices};
use crate::instance_registry::InstanceRegistry;
use crate::service::ComponentService;
use crate::socket::{SocketFile, listen};
use sd_notify::NotifyState;
use std::error::Error;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};

/// Time limit for disconnecting from the stores.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Serves until a signal arrives.
pub(crate) fn serve(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    // A single thread handles more than daprd can send, and leaves the other processors to daprd, the application and the store.
    // With two threads, each call wakes the other thread several times, which costs more than the call.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let (listener, file) = listen(&arguments.socket(), arguments.socket_mode())?;
        let instances = Arc::new(InstanceRegistry::new(arguments.url())?);
        let mut stdout = std::io::stdout().lock();
        writeln!(stdout, "listening on {}", file.path().display())?;
        stdout.flush()?;
        drop(stdout);
        notify_manager(&[NotifyState::Ready]);
        let shutdown = async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            notify_manager(&[NotifyState::Stopping]);
            tracing::info!("stopping");
        };
        let served = serve_until(listener, file, &instances, shutdown).await;
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, instances.close()).await;
        served
    })
}

/// Answers calls until `shutdown` completes, and then the calls that are still running.
async fn serve_until(
    listener: UnixListener,
    file: SocketFile,
    instances: &Arc<InstanceRegistry>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Box<dyn Error>> {
    let services = GrpcServices::new(ComponentService::new(instances.clone()))?;
    let shutdown = async move {
        shutdown.await;
        // The file is removed first, so that no new connection arrives.
        drop(file);
    };
    endpoint::serve(listener, services, shutdown).await;
    Ok(())
}

/// Notifies the service manager (`sd_notify(3)`). Does nothing without a service manager.
fn notify_manager(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "cannot tell the manager of services (NOTIFY_SOCKET)");
    }
}
