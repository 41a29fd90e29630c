//! A thread that the system gives no time, as one of the lowest priority: others go on without it. A program of its own, since it
//! stops threads by a signal.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, unsafe_code)]

use statestore::{GetOptions, ObserveOptions, SetOptions, Settings};
use statestore_embed::{Client, Mailbox, WaitOptions};
use statestored::RunningServer;
use statestored::config::Config;
use std::fs::read_to_string;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long anything may take before the test fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// Serializes the tests: they share one runtime, and check which thread drives it.
static SERIAL: Mutex<()> = Mutex::new(());

/// The ends of the pipes that the handler writes to when it begins, and reads from before it returns.
static STOPPED: AtomicI32 = AtomicI32::new(-1);
static CONTINUED: AtomicI32 = AtomicI32::new(-1);

extern "C" fn block_in_handler(_: libc::c_int) {
    let mut byte = 0_u8;
    let byte = (&raw mut byte).cast();
    // SAFETY: both calls are allowed in a handler, with one byte that lives long enough.
    unsafe {
        libc::write(STOPPED.load(Ordering::SeqCst), byte, 1);
        libc::read(CONTINUED.load(Ordering::SeqCst), byte, 1);
    }
}

/// A thread that stands still until this is dropped.
struct StoppedThread([libc::c_int; 4]);

impl StoppedThread {
    /// Stops a thread where it is.
    fn stop(id: libc::pid_t) -> Self {
        let mut ends = [0; 4];
        let mut byte = 0_u8;
        // SAFETY: the arrays have place for what is written, the handler lives as long as the program, and the thread runs.
        unsafe {
            assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
            assert_eq!(libc::pipe(ends[2..].as_mut_ptr()), 0);
            STOPPED.store(ends[1], Ordering::SeqCst);
            CONTINUED.store(ends[2], Ordering::SeqCst);
            libc::signal(libc::SIGUSR1, block_in_handler as *const () as usize);
            let process = libc::getpid();
            assert_eq!(
                libc::syscall(libc::SYS_tgkill, process, id, libc::SIGUSR1),
                0
            );
            assert_eq!(libc::read(ends[0], (&raw mut byte).cast(), 1), 1);
        }
        Self(ends)
    }
}

impl Drop for StoppedThread {
    fn drop(&mut self) {
        // SAFETY: the ends are those of `stop`.
        unsafe {
            libc::write(self.0[3], [0_u8].as_ptr().cast(), 1);
        }
    }
}

/// Waits until a thread of this process sleeps.
fn wait_until_asleep(id: libc::pid_t) -> libc::pid_t {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let stat = read_to_string(format!("/proc/self/task/{id}/stat")).unwrap();
        if stat.rsplit_once(") ").unwrap().1.starts_with('S') {
            return id;
        }
        assert!(Instant::now() < deadline);
        thread::yield_now();
    }
}

fn this_thread() -> libc::pid_t {
    // SAFETY: it takes nothing and cannot fail.
    unsafe { libc::gettid() }
}

fn connect(server: &RunningServer) -> Client {
    let client = Client::new(Settings::from_url(&server.url()).unwrap()).unwrap();
    let connecting = client.connect();
    client
        .wait("connecting", connecting, WaitOptions::default())
        .unwrap();
    client
}

fn get(client: &Client) {
    let get = client.get("key".into(), GetOptions::default());
    client.wait("getting", get, WaitOptions::default()).unwrap();
}

/// Starts an operation that no thread waits for in the runtime.
fn get_in_the_background(client: &Client) {
    let (wake, woken) = channel();
    let mailbox = Mailbox::new(move || wake.send(()).unwrap_or_default());
    let get = client.get("key".into(), GetOptions::default());
    client
        .submit("getting", get, &mailbox, |result| result)
        .unwrap();
    woken.recv_timeout(PATIENCE).unwrap();
}

#[test]
fn other_threads_progress_while_one_that_waits_for_an_event_is_stopped() {
    let _alone = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
    let server = RunningServer::start(Config::in_memory()).unwrap();
    let client = connect(&server);
    let observe = client.observe("key".into(), ObserveOptions::default());
    let feed = client
        .wait("observing", observe, WaitOptions::default())
        .unwrap();
    thread::scope(|scope| {
        let (begun, has_begun) = channel();
        let (client, feed) = (&client, &feed);
        let waiting = scope.spawn(move || {
            begun.send(this_thread()).unwrap();
            let wait = WaitOptions {
                for_event: true,
                ..WaitOptions::default()
            };
            client.wait("waiting", feed.next(), wait).unwrap()
        });
        let stopped = StoppedThread::stop(wait_until_asleep(has_begun.recv().unwrap()));
        get_in_the_background(client);
        get(client);
        let set = client.set("key".into(), "value".into(), SetOptions::default());
        client.wait("setting", set, WaitOptions::default()).unwrap();
        drop(stopped);
        assert!(waiting.join().unwrap().is_some());
    });
    client.close(WaitOptions::default()).unwrap();
}

#[test]
fn a_stopped_thread_that_requested_the_runtime_does_not_block_other_threads() {
    let _alone = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
    let server = RunningServer::start(Config::in_memory()).unwrap();
    let client = connect(&server);
    thread::scope(|scope| {
        // The runtime's own thread is blocked, so that another thread has to wait for it.
        let (holding, is_held) = channel();
        let (release, released) = channel::<()>();
        let nobody = Mailbox::new(|| {});
        client
            .submit("holding up", async { Ok(()) }, &nobody, move |_| {
                holding.send(()).unwrap();
                released.recv().unwrap();
            })
            .unwrap();
        is_held.recv_timeout(PATIENCE).unwrap();
        let (begun, has_begun) = channel();
        let other = &client;
        let asking = scope.spawn(move || {
            begun.send(this_thread()).unwrap();
            get(other);
        });
        let stopped = StoppedThread::stop(wait_until_asleep(has_begun.recv().unwrap()));
        release.send(()).unwrap();
        get_in_the_background(&client);
        drop(stopped);
        asking.join().unwrap();
    });
    client.close(WaitOptions::default()).unwrap();
}

/// How often the runtime's own thread went to sleep.
fn context_switches() -> u64 {
    let mut tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let path = tasks
        .find_map(|task| {
            let path = task.unwrap().path();
            let name = read_to_string(path.join("comm")).ok()?;
            (name == "statestore\n").then_some(path)
        })
        .unwrap();
    let status = read_to_string(path.join("status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}

#[test]
fn polling_after_the_deadline_wakes_no_other_thread() {
    let _alone = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
    let server = RunningServer::start(Config::in_memory()).unwrap();
    let client = connect(&server);
    let observe = client.observe("key".into(), ObserveOptions::default());
    let feed = client
        .wait("observing", observe, WaitOptions::default())
        .unwrap();
    // From here on it is the runtime's own thread that drives.
    get_in_the_background(&client);
    let before = context_switches();
    for _ in 0..1_000 {
        let wait = WaitOptions {
            deadline: Some(Instant::now()),
            ..WaitOptions::default()
        };
        client.wait("looking", feed.next(), wait).unwrap_err();
    }
    let after = context_switches();
    assert!(after - before < 50, "{before} to {after}");
    client.close(WaitOptions::default()).unwrap();
}
