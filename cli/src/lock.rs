//! `statestore lock`.
use crate::{
    connection::{Connection, URL_VARIABLE, failure, store_url_without_password},
    duration,
    escape::escape,
    exit::Exit,
    failure::Failure,
    global_options::GlobalOptions,
    key, message,
    platform::{
        IgnoredSignals, SupervisedCommand, TerminationSignals, confirmation_interval,
        confirmed_duration, signals,
    },
};
use clap::Args;
use statestore::{ErrorKind, Guard, LeaseOptions, LockOptions, Release};
use std::{ffi::OsString, time::Duration};
use tokio::time::{Instant, MissedTickBehavior, interval};

/// Run a command while a lock is held
///
/// Waits for the lock, runs the command with the fencing token in STATESTORE_FENCING_TOKEN, and releases the lock when the
/// command ends. When the lock is lost, the command and its processes get SIGTERM, and SIGKILL after the time of --grace; so
/// do processes that the command leaves behind when it ends. Windows has no SIGTERM: a lost lock kills them at once.
///
/// The exit code is that of the command; 1 if another holder has the lock when the time to wait is over, 3 if the lock is lost.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[allow(clippy::doc_markdown, reason = "help is plain text")]
pub(crate) struct Lock {
    /// The name of the lock, which is a key of the store
    name: OsString,
    #[command(flatten)]
    acquisition: LockArgs,
    /// Time between SIGTERM and SIGKILL when the lock is lost, also for processes that the command leaves behind; 0 kills them
    /// at once
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration::parse_wait_or_zero)]
    grace: Duration,
    /// The command with its arguments
    #[arg(required = true, last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Options of a lock.
#[derive(Debug, Args)]
pub(crate) struct LockArgs {
    /// Time after which the lock of a dead or disconnected holder expires
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse_wait)]
    lease: Duration,
    /// Maximum time to wait for the lock; 0: one attempt [default: no limit]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_wait_or_zero)]
    wait: Option<Duration>,
}

const EXAMPLES: &str = "\
Examples:
  statestore lock nightly --wait 30s -- ./report     exit code 1 if it is held for 30 seconds
  statestore lock pump -- sh -c 'statestore set pump/state on --fence \"$STATESTORE_FENCING_TOKEN\"'";

/// Environment variable with the fencing token for the command.
const TOKEN_VARIABLE: &str = "STATESTORE_FENCING_TOKEN";

impl LockArgs {
    /// Returns the options in the form of the library.
    pub(crate) fn options(&self) -> LockOptions {
        LockOptions::new()
            .lease(LeaseOptions::new().duration(self.lease))
            .wait(self.wait)
    }
}

impl Lock {
    /// Runs the subcommand and handles its signals.
    pub(crate) async fn run(self, global: &GlobalOptions) -> Result<Exit, Failure> {
        let ignored = IgnoredSignals::current();
        let mut signals = signals()?;
        let name = key::from_argument(&self.name, global.escaped)?;
        let connection = tokio::select! {
            biased;
            signal = signals.recv() => return Ok(signal.exit()),
            connection = Connection::open(global) => connection?,
        };
        let options = self.acquisition.options();
        let locking = tokio::select! {
            biased;
            signal = signals.recv() => Err(signal.exit()),
            guard = connection.client.lock_with(&name, &options) => Ok(guard),
        };
        let guard = match locking {
            Ok(guard) => guard,
            Err(exit) => {
                connection.close().await;
                return Ok(exit);
            }
        };
        let guard = match guard {
            Ok(guard) => guard,
            Err(error) if error.kind() == ErrorKind::LockHeld => {
                message::print_error(&error.to_string());
                return Ok(Exit::NegativeResult);
            }
            Err(error) => return Err(failure(&error)),
        };
        let variables = [
            (TOKEN_VARIABLE, Some(guard.token().to_string())),
            (URL_VARIABLE, store_url_without_password()),
        ];
        let lease = self.acquisition.lease;
        let exit =
            match SupervisedCommand::start(&self.command, &variables, ignored, self.grace, lease) {
                Ok(mut child) => self.supervise(&guard, &mut child, &mut signals).await,
                Err(failure) => failure.report(),
            };
        let loss = release_lock(guard, &name, global.timeout).await;
        connection.close().await;
        match loss {
            // The command ran without the lock, at least for a part of the time. A failure of the command itself takes
            // precedence.
            Some(loss) if exit == Exit::CommandCode(0) => {
                message::print_error(&loss);
                Ok(Exit::NoResponse)
            }
            _ => Ok(exit),
        }
    }

    /// Waits until the command ends, and ends it when the lock is lost.
    async fn supervise(
        &self,
        guard: &Guard,
        child: &mut SupervisedCommand,
        signals: &mut TerminationSignals,
    ) -> Exit {
        let lease = self.acquisition.lease;
        let mut ticks = interval(confirmation_interval(lease));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                exit = child.wait() => return exit,
                _ = guard.lost() => break,
                signal = signals.recv() => child.forward_signal(signal),
                _ = ticks.tick() => if Instant::now() + confirmed_duration(lease) <= guard.valid_until() {
                    child.confirm_lock();
                },
            }
        }
        let reason = guard.reason().map(|reason| format!(": {reason}"));
        message::print_error(&format!(
            "the lock is lost{}; ending the command",
            reason.unwrap_or_default()
        ));
        child.terminate(self.grace).await;
        Exit::NoResponse
    }
}

/// Releases a lock after its command has ended. Returns how the lock was lost before, if it was. The effects of the command stay,
/// whether the lock is released or expires.
async fn release_lock(guard: Guard, name: &[u8], timeout: Duration) -> Option<String> {
    let loss = guard.loss();
    let until = guard.valid_until();
    match tokio::time::timeout(timeout, guard.release()).await {
        // A lock that is gone before its lease can have ended was taken away.
        Ok(Ok(Release::NotHeld)) if loss.is_none() && Instant::now() < until => {
            return Some("the lock is lost: it was taken away".to_owned());
        }
        Ok(Ok(_)) => {}
        Ok(Err(_)) | Err(_) => message::print_line(&format!(
            "the lock '{}' could not be given back; it ends by itself",
            escape(name)
        )),
    }
    loss.map(|loss| loss.to_string())
}
