//! Calls that are awaited outside of tokio, or in a runtime that lacks something.
use crate::support::{Broker, within};
use statestore::{
    Client, ErrorKind, Expiry, GetOptions, LockOptions, Outcome, Release, SetOptions, Settings,
    Transaction,
};
use statestored::{RunningServer, config::Config};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;
use tokio::runtime::Builder;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Awaits a future on this thread, without any runtime.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        std::thread::park();
    }
}

#[test]
fn every_call_works_without_a_runtime() {
    let server = RunningServer::start(Config::in_memory()).unwrap();
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let connect = Client::connect(Settings::from_url(&server.url()).unwrap());
    let client = runtime.block_on(within(connect)).unwrap();
    block_on(async {
        client.set("key", "value").await.unwrap();
        let mut observer = client.observe("key").await.unwrap();
        let in_an_hour = SetOptions::new().expires_in(Duration::from_secs(3600));
        client.set_with("key", "value", &in_an_hour).await.unwrap();
        observer.next().await.unwrap();
        let remaining = GetOptions::new().remaining(true);
        let entry = client.get_with("key", &remaining).await.unwrap();
        let expires_in = entry.unwrap().expires_in;
        assert!(matches!(expires_in, Expiry::After(_)), "{expires_in:?}");
        let updated = client.update("counter", |_| Some("1")).await;
        updated.unwrap();
        let transaction = Transaction::new().set("a", "1", &SetOptions::new());
        client.transact(&transaction).await.unwrap();
        assert_eq!(
            client
                .scan("*")
                .next_page()
                .await
                .unwrap()
                .map(|keys| keys.len()),
            Some(3)
        );

        let guard = client.lock("lock").await.unwrap();
        let short = LockOptions::new().wait(Duration::from_millis(50));
        let held = client.lock_with("lock", &short).await.unwrap_err();
        assert_eq!(held.kind(), ErrorKind::LockHeld);
        guard.update("guarded", |_| Some("1")).await.unwrap();
        assert_eq!(guard.release().await.unwrap(), Release::Released);
        let lease = client.lease("lease").unwrap();
        let guard = lease.acquire().await.unwrap().guard().unwrap();
        let mut lost = pin!(guard.lost());
        let mut context = Context::from_waker(Waker::noop());
        assert!(lost.as_mut().poll(&mut context).is_pending());
        let election = client.election("election").unwrap();
        let leadership = election.campaign("me").await.unwrap();
        leadership.proclaim("still me").await.unwrap();
        leadership.resign().await.unwrap();
        client.close().await;
        assert_eq!(
            client.get("key").await.unwrap_err().kind(),
            ErrorKind::Closed
        );
    });
}

#[test]
fn connecting_without_a_runtime_is_an_error() {
    let error = block_on(Client::connect(Settings::new("127.0.0.1", 1))).unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::InvalidSettings, Outcome::NotDone)
    );
    let text = error.to_string();
    assert!(text.contains("there is no tokio runtime here"), "{text}");
}

#[test]
fn a_missing_runtime_feature_is_named() {
    let with_io = Builder::new_current_thread().enable_all().build().unwrap();
    let broker = with_io.block_on(Broker::start());
    for (mut builder, lacks) in [
        (Builder::new_current_thread(), "enable_time"),
        (Builder::new_current_thread(), "enable_io"),
    ] {
        if lacks == "enable_io" {
            builder.enable_time();
        } else {
            builder.enable_io();
        }
        let runtime = builder.build().unwrap();
        let settings = broker.settings().connect_limit(Duration::ZERO);
        let error = runtime.block_on(Client::connect(settings)).unwrap_err();
        assert!(error.to_string().contains(lacks), "{error}");
        assert_eq!(error.outcome(), Outcome::NotDone);
    }
}
