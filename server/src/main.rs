//! `statestored`: the state store on one machine.
#![deny(unsafe_code)]
mod core_dumps;
mod log;
mod open_files;
mod reserving_allocator;
mod sighup_flag;
mod signals;
mod standard_input;
mod supervisor;

use log::FilterHandle;
use reserving_allocator::ReservingAllocator;
use sighup_flag::SighupFlag;
use standard_input::EndOfInput;
use statestored::config::{
    Arguments, AuditLog, ConfigError, ConfigLayers, ConfigSource, LogControl, ProcessSettings,
};
use statestored::{Server, ServerHandle, single_threaded_runtime};
use statestored_broker::audit;
use statestored_common::read_tracker::ReadTracker;
use std::convert::Infallible;
use std::error::Error;
use std::io::Write;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Time in which `--check` reads the files. The writer of a pipe may come late.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

#[global_allocator]
static ALLOCATOR: ReservingAllocator = ReservingAllocator::new();

fn main() -> ExitCode {
    // Done first: reading files before the runtime starts can take long.
    let hangup = match SighupFlag::catch() {
        Ok(hangup) => hangup,
        Err(error) => return fail(&error),
    };
    let layers = ConfigLayers::new(std::env::args_os());
    let read = if std::env::args_os().any(|argument| argument == "--check") {
        let layers = layers.clone();
        match read_in_time(move || layers.read()) {
            Ok(read) => read,
            Err(error) => return fail(&*error),
        }
    } else {
        layers.read()
    };
    let mut arguments = match read {
        Ok(arguments) => arguments,
        Err(ConfigError::CommandLine(error)) => error.exit(),
        Err(error) => return fail(&error),
    };
    let audit = AuditLog::default();
    let begun = log::init(arguments.log_filter(), arguments.log_format(), &audit);
    let (log, filter) = match begun {
        Ok(begun) => begun,
        Err(error) => return fail(&error),
    };
    signals::survive_file_size_limit();
    let ended = if let Some(tool) = arguments.take_subcommand() {
        hangup.release();
        core_dumps::disable();
        tool.run()
    } else if arguments.is_check() {
        hangup.release();
        check(arguments)
    } else {
        run(arguments, layers, (filter, audit), &hangup)
    };
    ended.unwrap_or_else(|error| {
        log.write_error(&*error);
        ExitCode::FAILURE
    })
}

fn fail(error: &dyn Error) -> ExitCode {
    eprintln!("statestored: {error}");
    ExitCode::FAILURE
}

/// Checks the configuration and the files that it names, without serving.
fn check(arguments: Arguments) -> Result<ExitCode, Box<dyn Error>> {
    read_in_time(|| arguments.into_config())??.check()?;
    writeln!(std::io::stdout(), "the configuration can be used")?;
    Ok(ExitCode::SUCCESS)
}

/// Reads files on a thread of its own, which continues if a file never ends.
fn read_in_time<T: Send + 'static>(
    read: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Box<dyn Error>> {
    let (sender, result) = mpsc::channel();
    let reading = ReadTracker::default();
    let observed = reading.clone();
    thread::Builder::new().spawn(move || sender.send(observed.track(read)))?;
    result.recv_timeout(CHECK_TIMEOUT).map_err(|_| {
        let seconds = CHECK_TIMEOUT.as_secs();
        let problem =
            "it is a pipe without a writer, has no end, or its file system does not answer";
        format!("cannot read {reading} within {seconds} s: {problem}").into()
    })
}

fn run(
    arguments: Arguments,
    layers: ConfigLayers,
    (filter, audit): (FilterHandle, AuditLog),
    early: &SighupFlag,
) -> Result<ExitCode, Box<dyn Error>> {
    if !arguments.allows_core_dumps() {
        core_dumps::disable();
    }
    // Done before another thread exists, or much is allocated.
    ALLOCATOR.set_up(statestored::available_memory());
    let stops_with_stdin = arguments.stops_with_stdin();
    let mut config = arguments.into_config()?;
    config.heap = Some(&ALLOCATOR);
    if let Some(admin) = &mut config.admin {
        let (get, set) = (filter.clone(), filter.clone());
        let log = LogControl::new(move || get.get(), move |filter| set.set(filter));
        admin.log = Some(log);
        admin.audit = Some(audit);
    }
    config.source = Some(ConfigSource::new(move || {
        let arguments = layers.read()?;
        let (log_filter, filter) = (arguments.log_filter().clone(), filter.clone());
        let mut config = arguments.into_config()?;
        config.process = Some(ProcessSettings::new(move |limits| {
            filter.set(&log_filter);
            limits.max_connections = open_files::raise_limit(limits.max_connections);
        }));
        Ok(config)
    }));
    config.limits.max_connections = open_files::raise_limit(config.limits.max_connections);
    let runtime = single_threaded_runtime()?;
    let ended: Result<(), Box<dyn Error>> = runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let hangup = signal(SignalKind::hangup())?;
        let end_of_input = stops_with_stdin.then(EndOfInput::watch).transpose()?;
        let end_of_input = async {
            match end_of_input {
                Some(end) => end.wait().await,
                None => std::future::pending().await,
            }
        };
        let shutdown = async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
                () = end_of_input => {}
            }
            supervisor::stopping();
            tracing::info!("stopping");
        };
        let mut shutdown = pin!(shutdown);
        let server = tokio::select! {
            server = Server::start(config) => server?,
            () = &mut shutdown => return Ok(()),
            never = supervisor::extend_start_timeout() => match never {},
        };
        let mut stdout = std::io::stdout().lock();
        for listening in server.bound_addresses() {
            writeln!(stdout, "listening on {listening}")?;
        }
        if let Some(broker) = server.broker() {
            writeln!(stdout, "attaching to {broker}")?;
        }
        let scheme = if server.http_has_tls() {
            "https"
        } else {
            "http"
        };
        for address in server.http_addresses() {
            writeln!(stdout, "http on {scheme}://{address}")?;
        }
        stdout.flush()?;
        drop(stdout);
        supervisor::ready();
        let (control, probe) = (server.handle(), server.liveness());
        tokio::select! {
            ended = server.run(shutdown) => Ok(ended?),
            never = reload_on_sighup(hangup, early, &control) => match never {},
            never = supervisor::send_watchdog(probe) => match never {},
        }
    });
    // A blocking call for a file may be running, for any length of time.
    runtime.shutdown_background();
    ended.map(|()| ExitCode::SUCCESS)
}

/// Reloads at each SIGHUP. Only `caught` decides whether a signal came: it is set before `wakeups` receives it. A wakeup may belong
/// to a signal that an earlier reload has served.
async fn reload_on_sighup(
    mut wakeups: Signal,
    caught: &SighupFlag,
    control: &ServerHandle,
) -> Infallible {
    loop {
        while !caught.take() {
            if wakeups.recv().await.is_none() {
                return std::future::pending().await;
            }
        }
        supervisor::reloading();
        reload(control).await;
        supervisor::ready();
    }
}

async fn reload(control: &ServerHandle) {
    match control.reload().await {
        Ok(reloaded) => {
            let needs_restart = &reloaded.needs_restart;
            let options = (!needs_restart.is_empty()).then(|| needs_restart.join(","));
            tracing::info!(
                target: audit::ADMIN,
                event = "action",
                action = "reload",
                origin = "signal",
                users = reloaded.users,
                disconnected = reloaded.disconnected,
                needs_restart = options,
                "the configuration was read again"
            );
        }
        Err(error) => tracing::error!(
            target: audit::ADMIN,
            event = "action",
            action = "reload",
            origin = "signal",
            "cannot reload: {error}"
        ),
    }
}
