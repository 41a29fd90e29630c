//! The limit of open files of the process. Each connection takes one.
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Number of descriptors for everything but connections of clients: 64 connections of HTTP, listeners, the storage's files and its
/// reserve, the runtimes, connections to an engine or a broker, standard streams.
const RESERVED_DESCRIPTORS: u64 = 128;

/// Raises the limit of open files of this process to the maximum that the system allows.
///
/// Returns the number of connections that fit: at most `connections`, with a warning if they are fewer. If the limit is very low, a
/// quarter of it is for connections.
pub(crate) fn raise_limit(connections: usize) -> usize {
    let needed = u64::try_from(connections)
        .unwrap_or(u64::MAX)
        .saturating_add(RESERVED_DESCRIPTORS);
    let mut limit = getrlimit(Resource::Nofile);
    // A system without a maximum may refuse a limit that is higher than it can serve.
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
    let Some(most) = limit.current.filter(|most| *most < needed) else {
        return connections;
    };
    let fitting = most
        .saturating_sub(RESERVED_DESCRIPTORS)
        .max(most / 4)
        .max(1);
    let fitting = usize::try_from(fitting).map_or(connections, |it| it.min(connections));
    tracing::warn!(
        "{most} files may be open, too few for the {connections} connections that are allowed: {fitting} are accepted; \
         start it with a limit of {needed} or more (`ulimit -n`, or LimitNOFILE= of systemd)"
    );
    fitting
}
