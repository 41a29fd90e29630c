//! `statestore`: get, set and watch keys from the shell. The crate is a program. Its [`command`] line is public for generated
//! files such as the manual.
#![deny(unsafe_code)]

mod admin;
mod arguments;
mod attendant;
mod bench;
mod child;
mod completions;
mod connection;
mod del;
mod duration;
mod elect;
mod escape;
mod exit;
mod failure;
mod family;
mod get;
mod health;
mod ignored;
mod key;
mod lease;
mod lock;
mod message;
mod output;
mod port;
mod record;
mod scan;
mod set;
mod top;
mod transact;
mod value;
mod vdel;
mod watch;

use arguments::{Arguments, Global, Verb};
use child::{Ending, signals};
use clap::{CommandFactory as _, Parser as _};
use exit::Exit;
use failure::Failure;
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
        .block_on(answer(arguments))
        .unwrap_or_else(|failure| failure.report());
    // a read from standard input or a write to a full pipe may hang for ever; do not wait for it
    runtime.shutdown_background();
    exit.into()
}

async fn answer(Arguments { verb, global }: Arguments) -> Result<Exit, Failure> {
    let exit = match &verb {
        Verb::Lock(_) | Verb::Elect(_) | Verb::Attendant(_) => work(verb, &global).await,
        Verb::Watch(_) => until_told(work(verb, &global), |_| Exit::Done).await,
        _ => until_told(work(verb, &global), Ending::exit).await,
    };
    global.clients.close().await;
    exit
}

/// Ends the work when a signal arrives.
async fn until_told(
    work: impl Future<Output = Result<Exit, Failure>>,
    told: impl FnOnce(Ending) -> Exit,
) -> Result<Exit, Failure> {
    let mut signals = signals()?;
    tokio::select! {
        // listen for signals before anything is begun
        biased;
        signal = signals.recv() => Ok(told(signal)),
        result = work => result,
    }
}

async fn work(verb: Verb, global: &Global) -> Result<Exit, Failure> {
    match verb {
        Verb::Get(get) => get.run(global).await,
        Verb::Set(set) => set.run(global).await,
        Verb::Del(del) => del.run(global).await,
        Verb::Vdel(vdel) => vdel.run(global).await,
        Verb::Transact(transact) => transact.run(global).await,
        Verb::Scan(scan) => scan.run(global).await,
        Verb::Watch(watch) => watch.run(global).await,
        Verb::Lock(lock) => lock.run(global).await,
        Verb::Elect(elect) => elect.run(global).await,
        Verb::Lease(lease) => lease.run(global).await,
        Verb::Bench(bench) => bench.run(global).await,
        Verb::Admin(admin) => admin.run(global).await,
        Verb::Health(health) => health.run(global).await,
        Verb::Top(top) => top.run(global).await,
        Verb::Completions(completions) => completions.run().await,
        Verb::Attendant(attendant) => attendant.run().await,
    }
}
