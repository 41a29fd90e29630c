//! How many files the process may have open: each connection is one.
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// More than there are besides the connections: listeners, the storage's files, those of the runtime, standard streams.
const OTHERS: u64 = 64;

/// Raises the limit of this process to what the system allows. A warning says if that is too little for `connections`.
pub(crate) fn raise_limit(connections: usize) {
    let needed = u64::try_from(connections)
        .unwrap_or(u64::MAX)
        .saturating_add(OTHERS);
    let mut limit = getrlimit(Resource::Nofile);
    // A system that names no highest limit may refuse one that is higher than it can serve.
    let highest = limit.maximum.unwrap_or(needed);
    if let Some(before) = limit.current
        && before < highest
    {
        let raised = Rlimit {
            current: Some(highest),
            ..limit
        };
        match setrlimit(Resource::Nofile, raised) {
            Ok(()) => {
                tracing::debug!(before, now = highest, "the limit of open files is raised");
                limit = raised;
            }
            Err(error) => tracing::warn!(%error, before, "cannot raise the limit of open files"),
        }
    }
    if let Some(most) = limit.current
        && most < needed
    {
        tracing::warn!(
            "{most} files may be open, too few for the {connections} connections that are allowed: \
             start it with a limit of {needed} or more (`ulimit -n`, or LimitNOFILE= of systemd)"
        );
    }
}
