//! Resolvers and files that hang, and a system that refuses threads. A program of its own: it replaces the functions of the system
//! that look up names and start threads.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, unsafe_code)]

use statestore::{GetOptions, Outcome, Settings};
use statestore_embed::{Client, ErrorKind, Mailbox, WaitOptions};
use statestored::RunningServer;
use statestored::config::Config;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::Write;
use std::mem::transmute;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Barrier, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long anything may take before the test fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// The tests share what the replaced functions do.
static SERIAL: Mutex<()> = Mutex::new(());

/// Look-ups of `hangs.test` under way, and whether they may end.
static RESOLVER: Mutex<(usize, bool)> = Mutex::new((0, false));
static CHANGED: Condvar = Condvar::new();

/// Whether threads are refused, and how many were.
static REJECTS_THREADS: AtomicBool = AtomicBool::new(false);
static REJECTED_THREADS: AtomicUsize = AtomicUsize::new(0);

type GetAddrInfo = unsafe extern "C" fn(
    *const c_char,
    *const c_char,
    *const libc::addrinfo,
    *mut *mut libc::addrinfo,
) -> c_int;

type ThreadStart = extern "C" fn(*mut c_void) -> *mut c_void;

type CreateThread = unsafe extern "C" fn(
    *mut libc::pthread_t,
    *const libc::pthread_attr_t,
    ThreadStart,
    *mut c_void,
) -> c_int;

/// Looks up `hangs.test` until the end of the test, and `works.test` as 127.0.0.1.
#[unsafe(no_mangle)]
unsafe extern "C" fn getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const libc::addrinfo,
    found: *mut *mut libc::addrinfo,
) -> c_int {
    // SAFETY: the caller passes a name, and the next function of that name has this type.
    let (name, next) = unsafe {
        let next = libc::dlsym(libc::RTLD_NEXT, c"getaddrinfo".as_ptr());
        (
            CStr::from_ptr(node),
            transmute::<*mut c_void, GetAddrInfo>(next),
        )
    };
    if name == c"hangs.test" {
        let mut hanging = lock_resolver();
        hanging.0 += 1;
        CHANGED.notify_all();
        drop(CHANGED.wait_while(hanging, |hanging| !hanging.1));
        return libc::EAI_AGAIN;
    }
    let name = if name == c"works.test" {
        c"127.0.0.1"
    } else {
        name
    };
    // SAFETY: the arguments are those of the caller.
    unsafe { next(name.as_ptr(), service, hints, found) }
}

/// Starts a thread, unless the test has threads refused.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    body: ThreadStart,
    argument: *mut c_void,
) -> c_int {
    if REJECTS_THREADS.load(Ordering::SeqCst) {
        REJECTED_THREADS.fetch_add(1, Ordering::SeqCst);
        return libc::EAGAIN;
    }
    // SAFETY: the next function of that name has this type, and the arguments are those of the caller.
    unsafe {
        let next = libc::dlsym(libc::RTLD_NEXT, c"pthread_create".as_ptr());
        transmute::<*mut c_void, CreateThread>(next)(thread, attributes, body, argument)
    }
}

fn lock_resolver() -> MutexGuard<'static, (usize, bool)> {
    RESOLVER.lock().unwrap_or_else(PoisonError::into_inner)
}

fn begin_serial() -> MutexGuard<'static, ()> {
    let alone = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
    *lock_resolver() = (0, false);
    REJECTS_THREADS.store(false, Ordering::SeqCst);
    alone
}

/// Ends the look-ups at the end of the test.
struct ReleaseOnDrop;

impl Drop for ReleaseOnDrop {
    fn drop(&mut self) {
        lock_resolver().1 = true;
        CHANGED.notify_all();
    }
}

fn settings_for(host: &str, server: &RunningServer) -> Settings {
    let port = server.url().rsplit_once(':').unwrap().1.parse().unwrap();
    Settings::new(host, port)
}

/// A password file that the server does not ask for.
fn password_file() -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"secret").unwrap();
    file
}

fn connect(client: &Client) {
    let wait = WaitOptions {
        deadline: Some(Instant::now() + PATIENCE),
        ..WaitOptions::default()
    };
    client.wait("connecting", client.connect(), wait).unwrap();
    let get = client.get("key".into(), GetOptions::default());
    client.wait("getting", get, WaitOptions::default()).unwrap();
}

#[test]
fn a_hanging_resolver_delays_only_the_clients_that_use_it() {
    let _alone = begin_serial();
    let release = ReleaseOnDrop;
    let server = RunningServer::start(Config::in_memory()).unwrap();
    let nobody = Mailbox::new(|| {});
    let many = 10;
    let waiting: Vec<_> = (0..many)
        .map(|_| {
            let client = Client::new(Settings::new("hangs.test", 1883)).unwrap();
            let connecting = client
                .submit("connecting", client.connect(), &nobody, drop)
                .unwrap();
            (client, connecting)
        })
        .collect();
    let (looked_up, timeout) = CHANGED
        .wait_timeout_while(lock_resolver(), PATIENCE, |hanging| hanging.0 < many)
        .unwrap();
    assert!(!timeout.timed_out(), "{} of {many}", looked_up.0);
    drop(looked_up);

    let numeric = Client::new(Settings::from_url(&server.url()).unwrap()).unwrap();
    connect(&numeric);
    let file = password_file();
    let settings = settings_for("works.test", &server)
        .user_name("ann")
        .password_file(file.path())
        .allow_plaintext_credentials(true);
    let by_name = Client::new(settings).unwrap();
    connect(&by_name);

    for (client, _) in &waiting {
        client.close(WaitOptions::default()).unwrap();
    }
    by_name.close(WaitOptions::default()).unwrap();
    numeric.close(WaitOptions::default()).unwrap();
    drop(release);
}

#[test]
fn connection_attempts_share_a_hanging_look_up() {
    let _alone = begin_serial();
    let release = ReleaseOnDrop;
    let settings = Settings::new("hangs.test", 1883)
        .connect_timeout(Duration::from_millis(20))
        .reconnect_delay(Duration::from_millis(1), Duration::from_millis(1))
        .connect_limit(Duration::from_millis(500));
    let client = Client::new(settings).unwrap();
    let error = client
        .wait("connecting", client.connect(), WaitOptions::default())
        .unwrap_err()
        .into_error("connecting");
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert_eq!(lock_resolver().0, 1);
    client.close(WaitOptions::default()).unwrap();
    drop(release);
}

#[test]
fn a_failed_thread_creation_fails_the_connection_attempt() {
    let _alone = begin_serial();
    let server = RunningServer::start(Config::in_memory()).unwrap();
    let file = password_file();
    let others = [
        settings_for("works.test", &server),
        settings_for("127.0.0.1", &server)
            .user_name("ann")
            .password_file(file.path())
            .allow_plaintext_credentials(true),
    ];
    for settings in others {
        let settings = settings
            .reconnect_delay(Duration::from_millis(1), Duration::from_millis(10))
            .connect_limit(PATIENCE);
        let hasty = settings.clone().connect_limit(Duration::ZERO);
        let (hasty, patient) = (Client::new(hasty).unwrap(), Client::new(settings).unwrap());
        REJECTS_THREADS.store(true, Ordering::SeqCst);
        let error = hasty
            .wait("connecting", hasty.connect(), WaitOptions::default())
            .unwrap_err()
            .into_error("connecting");
        assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
        assert_eq!(error.outcome(), Outcome::NotDone);
        REJECTED_THREADS.store(0, Ordering::SeqCst);
        let refuses = Barrier::new(2);
        std::thread::scope(|scope| {
            let connecting = with_threads_allowed(|| {
                scope.spawn(|| {
                    refuses.wait();
                    connect(&patient);
                })
            });
            refuses.wait();
            while REJECTED_THREADS.load(Ordering::SeqCst) < 3 {
                std::thread::yield_now();
            }
            REJECTS_THREADS.store(false, Ordering::SeqCst);
            connecting.join().unwrap();
        });
        patient.close(WaitOptions::default()).unwrap();
        hasty.close(WaitOptions::default()).unwrap();
    }
}

/// Starts a thread of the test itself.
fn with_threads_allowed<T>(start: impl FnOnce() -> T) -> T {
    REJECTS_THREADS.store(false, Ordering::SeqCst);
    let started = start();
    REJECTS_THREADS.store(true, Ordering::SeqCst);
    started
}
