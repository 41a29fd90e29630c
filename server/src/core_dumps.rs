//! The memory of the process, which holds keys, values and passwords, stays out of core dumps.
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// From now on the process leaves no core dump, and only root may trace it or read its memory.
pub(crate) fn disable() {
    let limit = Rlimit {
        current: Some(0),
        ..getrlimit(Resource::Core)
    };
    if let Err(error) = setrlimit(Resource::Core, limit) {
        tracing::warn!(%error, "cannot set the limit of core dumps");
    }
    // The limit does not hold for dumps that the system pipes to a program.
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
            tracing::warn!(%error, "cannot switch core dumps off");
        }
    }
}
