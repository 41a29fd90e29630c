//! `statestore`: get, set and watch keys from the shell. The crate is a program. Its [`command`] line is public for generated
//! files such as the manual.
#![deny(unsafe_code)]

mod admin;
mod admin_port;
mod admin_tls;
mod arguments;
mod bench;
mod byte_size;
mod completions;
mod connection;
mod del;
mod duration;
mod elect;
mod escape;
mod exists;
mod exit;
mod failure;
mod get;
mod global_options;
mod health;
mod incr;
mod key;
mod lease;
mod lock;
mod message;
mod open_clients;
mod output;
mod ping;
mod platform;
mod record;
mod scan;
mod set;
mod top;
mod touch;
mod transact;
mod ttl;
mod units;
mod value;
mod vdel;
mod watch;

use arguments::{Arguments, Verb};
use clap::{CommandFactory as _, Parser as _};
use exit::Exit;
use failure::Failure;
use global_options::GlobalOptions;
use platform::{TerminationSignal, signals};
use std::process::ExitCode;

/// Returns the command line as a command of clap.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Runs the program.
pub fn run() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return arguments::explain(&error).into(),
    };
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            return Failure::usage(format!("cannot start: {error}"))
                .report()
                .into();
        }
    };
    let exit = runtime
        .block_on(run_arguments(arguments))
        .unwrap_or_else(|failure| failure.report());
    // a read from standard input or a write to a full pipe may hang for ever; do not wait for it
    runtime.shutdown_background();
    exit.into()
}

async fn run_arguments(Arguments { verb, global }: Arguments) -> Result<Exit, Failure> {
    if let (true, Some(reason)) = (global.json, verb.why_no_json()) {
        return Err(Failure::usage(format!("--json is not possible: {reason}")));
    }
    let is_endless = match &verb {
        Verb::Watch(_) => true,
        Verb::Admin(admin) => admin.is_endless(),
        _ => false,
    };
    let exit = match &verb {
        Verb::Lock(_) | Verb::Elect(_) => run_verb(verb, &global).await,
        #[cfg(unix)]
        Verb::Supervise(_) => run_verb(verb, &global).await,
        _ if is_endless => until_signal(run_verb(verb, &global), |_| Exit::Done).await,
        _ => until_signal(run_verb(verb, &global), TerminationSignal::exit).await,
    };
    global.clients.close().await;
    exit
}

/// Ends the work when a signal arrives.
async fn until_signal(
    work: impl Future<Output = Result<Exit, Failure>>,
    on_signal: impl FnOnce(TerminationSignal) -> Exit,
) -> Result<Exit, Failure> {
    let mut signals = signals()?;
    tokio::select! {
        // listen for signals before anything is begun
        biased;
        signal = signals.recv() => Ok(on_signal(signal)),
        result = work => result,
    }
}

async fn run_verb(verb: Verb, global: &GlobalOptions) -> Result<Exit, Failure> {
    match verb {
        Verb::Get(get) => get.run(global).await,
        Verb::Exists(exists) => exists.run(global).await,
        Verb::Ttl(ttl) => ttl.run(global).await,
        Verb::Set(set) => set.run(global).await,
        Verb::Del(del) => del.run(global).await,
        Verb::Vdel(vdel) => vdel.run(global).await,
        Verb::Touch(touch) => touch.run(global).await,
        Verb::Incr(incr) => incr.run(global).await,
        Verb::Transact(transact) => transact.run(global).await,
        Verb::Scan(scan) => scan.run(global).await,
        Verb::Watch(watch) => watch.run(global).await,
        Verb::Lock(lock) => lock.run(global).await,
        Verb::Elect(elect) => elect.run(global).await,
        Verb::Lease(lease) => lease.run(global).await,
        Verb::Ping(ping) => ping.run(global).await,
        Verb::Bench(bench) => bench.run(global).await,
        Verb::Admin(admin) => admin.run(global).await,
        Verb::Health(health) => health.run(global).await,
        Verb::Top(top) => top.run(global).await,
        Verb::Completions(completions) => completions.run(command()).await,
        #[cfg(unix)]
        Verb::Supervise(supervisor) => supervisor.run().await,
    }
}
