//! Protection of the memory of the process, which holds keys, values and passwords, from core dumps.
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Disables core dumps of the process. From now on, only root may trace it or read its memory.
pub(crate) fn disable() {
    let limit = Rlimit {
        current: Some(0),
        ..getrlimit(Resource::Core)
    };
    if let Err(error) = setrlimit(Resource::Core, limit) {
        tracing::warn!(%error, "cannot set the limit of core dumps");
    }
    // The limit does not apply to dumps that the system pipes to a program.
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
            tracing::warn!(%error, "cannot switch core dumps off");
        }
    }
}
