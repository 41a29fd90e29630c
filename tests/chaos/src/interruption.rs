//! Interruption of a run by a signal.
use std::process::ExitCode;
use tokio::signal::unix::{Signal, SignalKind, signal};

fn on(kind: SignalKind) -> Signal {
    signal(kind).unwrap()
}

/// Runs to the end, or until SIGINT or SIGTERM; all processes that the run has started end with it.
pub async fn until_interrupted(run: impl Future<Output = ExitCode>) -> ExitCode {
    let (mut interrupt, mut terminate) = (on(SignalKind::interrupt()), on(SignalKind::terminate()));
    let kind = tokio::select! {
        code = run => return code,
        _ = interrupt.recv() => SignalKind::interrupt(),
        _ = terminate.recv() => SignalKind::terminate(),
    };
    eprintln!("interrupted: nothing is checked, and every process is ended");
    // The exit code that a shell reports.
    ExitCode::from(128 + u8::try_from(kind.as_raw_value()).unwrap())
}
