//! The control of the server by its HTTP port.
use crate::server_handle::{ReloadError, ServerHandle};
use statestored_admin::{
    Backup, BoxFuture, EffectiveOption, InspectFn, ReloadFailure, ReloadReport, ReloadStatus,
    ServerControl, ServerStopped, SnapshotError,
};

impl ServerControl for ServerHandle {
    fn run_inspection(&self, inspection: InspectFn) -> BoxFuture<'_, Result<(), ServerStopped>> {
        Box::pin(self.inspect(inspection))
    }

    fn backup(&self) -> BoxFuture<'_, Result<Backup, SnapshotError>> {
        Box::pin(ServerHandle::backup(self))
    }

    fn reload(&self) -> BoxFuture<'_, Result<ReloadReport, ReloadFailure>> {
        Box::pin(async {
            ServerHandle::reload(self)
                .await
                .map_err(|error| match error {
                    ReloadError::Stopped(stopped) => ReloadFailure::Stopped(stopped),
                    rejected => ReloadFailure::Rejected(rejected.to_string()),
                })
        })
    }

    fn reload_status(&self) -> &ReloadStatus {
        ServerHandle::reload_status(self)
    }

    fn options(&self) -> Vec<EffectiveOption> {
        ServerHandle::options(self).list()
    }
}
