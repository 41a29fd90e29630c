//! Console events that ask this program to end.
use super::super::termination_signal::TerminationSignal;
use crate::failure::Failure;
use std::io;
use tokio::signal::windows::{
    CtrlBreak, CtrlC, CtrlClose, CtrlShutdown, ctrl_break, ctrl_c, ctrl_close, ctrl_shutdown,
};

/// The events that ask this program to end.
#[derive(Debug)]
pub(crate) struct TerminationSignals {
    interrupt: CtrlC,
    terminate: CtrlBreak,
    close: CtrlClose,
    shutdown: CtrlShutdown,
}

/// Handles these events from now on, so that they do not end the program.
pub(crate) fn signals() -> Result<TerminationSignals, Failure> {
    let listen = || -> io::Result<TerminationSignals> {
        Ok(TerminationSignals {
            interrupt: ctrl_c()?,
            terminate: ctrl_break()?,
            close: ctrl_close()?,
            shutdown: ctrl_shutdown()?,
        })
    };
    listen().map_err(|error| Failure::usage(format!("cannot listen for signals: {error}")))
}

impl TerminationSignals {
    /// Waits for the next event.
    pub(crate) async fn recv(&mut self) -> TerminationSignal {
        tokio::select! {
            _ = self.interrupt.recv() => TerminationSignal::Interrupt,
            _ = self.terminate.recv() => TerminationSignal::Terminate,
            _ = self.close.recv() => TerminationSignal::Terminate,
            _ = self.shutdown.recv() => TerminationSignal::Terminate,
        }
    }
}
