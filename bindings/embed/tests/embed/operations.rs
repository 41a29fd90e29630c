//! Operations end exactly once, however they end.
use crate::server::{Inbox, close, connect, start, wait};
use statestore::{GetOptions, LockOptions, SetOptions};
use statestore_embed::{Error, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn a_result_comes_through_the_mailbox() {
    let server = start();
    let client = connect(&server);
    let inbox = Inbox::new();
    let set = client.set("key".into(), "value".into(), SetOptions::default());
    let operation = client
        .submit("setting", set, &inbox.mailbox, |result| result)
        .unwrap();
    assert!(inbox.next().unwrap().is_applied());
    assert!(operation.has_ended().unwrap());
    assert!(!operation.cancel().unwrap(), "it is over");
    assert!(inbox.is_empty());
    close(&client);
}

#[test]
fn an_immediate_error_is_posted_to_the_mailbox() {
    let server = start();
    let client = connect(&server);
    let inbox = Inbox::new();
    let get = client.get("".into(), GetOptions::default());
    client
        .submit("getting", get, &inbox.mailbox, |result| result)
        .unwrap();
    let error = inbox.next().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    close(&client);
}

#[test]
fn a_cancelled_operation_ends_once_with_cancelled() {
    let server = start();
    let (holder, waiter) = (connect(&server), connect(&server));
    let guard = wait(&holder, holder.lock("lock".into(), LockOptions::default())).unwrap();
    let inbox = Inbox::new();
    let lock = waiter.lock("lock".into(), LockOptions::default());
    let operation = waiter
        .submit("locking", lock, &inbox.mailbox, |result| result.map(drop))
        .unwrap();
    assert!(operation.cancel().unwrap());
    let error = inbox.next().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert!(error.to_string().starts_with("locking"), "{error}");
    assert!(!operation.cancel().unwrap());
    assert!(guard.is_valid().unwrap());
    close(&waiter);
    close(&holder);
    assert!(inbox.is_empty());
}

#[test]
fn every_operation_ends_once_when_the_client_is_closed() {
    const COUNT: usize = 1000;
    let server = start();
    let (holder, client) = (connect(&server), connect(&server));
    let _guard = wait(&holder, holder.lock("lock".into(), LockOptions::default())).unwrap();
    let inbox = Inbox::new();
    for number in 0..COUNT {
        // Requests that are answered or not, what waits for long, and what would never end by itself.
        let submitted = match number % 3 {
            0 => {
                let get = client.get("key".into(), GetOptions::default());
                client.submit("getting", get, &inbox.mailbox, move |it| {
                    (number, it.map(drop))
                })
            }
            1 => {
                let lock = client.lock("lock".into(), LockOptions::default());
                client.submit("locking", lock, &inbox.mailbox, move |it| {
                    (number, it.map(drop))
                })
            }
            _ => {
                let never = std::future::pending::<Result<(), Error>>();
                client.submit("waiting", never, &inbox.mailbox, move |it| (number, it))
            }
        };
        submitted.unwrap();
    }
    close(&client);
    let mut ended = vec![0; COUNT];
    for _ in 0..COUNT {
        let (number, result) = inbox.next();
        ended[number] += 1;
        match (number % 3, result.map_err(|error| error.kind())) {
            (0, Ok(())) | (_, Err(ErrorKind::Closed)) => {}
            (_, other) => panic!("{number}: {other:?}"),
        }
    }
    assert_eq!(ended, vec![1; COUNT]);
    assert!(inbox.is_empty());
    close(&holder);
}

#[test]
fn results_are_batched_into_few_wake_ups() {
    const COUNT: usize = 2000;
    let server = start();
    let client = connect(&server);
    let inbox = Inbox::new();
    for _ in 0..COUNT {
        let get = client.get("key".into(), GetOptions::default());
        client
            .submit("getting", get, &inbox.mailbox, |result| result)
            .unwrap();
    }
    // The mailbox is not emptied before all results have arrived.
    close(&client);
    for _ in 0..COUNT {
        inbox.next().ok();
    }
    assert_eq!(inbox.wake_ups(), 1);
    assert!(inbox.is_empty());
}

#[test]
fn dropping_the_handle_of_an_operation_does_not_end_it() {
    let server = start();
    let client = connect(&server);
    let inbox = Inbox::new();
    let get = client.get("key".into(), GetOptions::default());
    drop(client.submit("getting", get, &inbox.mailbox, |result| result));
    assert_eq!(inbox.next().unwrap(), None);
    close(&client);
}

#[test]
fn sixty_four_threads_share_one_client() {
    let server = start();
    let client = connect(&server);
    let done = Arc::new(AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for thread in 0..64 {
            let (client, done) = (client.clone(), Arc::clone(&done));
            scope.spawn(move || {
                for number in 0..20 {
                    let key = format!("{thread}/{number}");
                    let set = client.set(
                        key.clone().into(),
                        key.clone().into(),
                        SetOptions::default(),
                    );
                    wait(&client, set).unwrap();
                    let get = client.get(key.clone().into(), GetOptions::default());
                    let entry = wait(&client, get).unwrap().unwrap();
                    assert_eq!(entry.value, key);
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(done.load(Ordering::Relaxed), 64 * 20);
    close(&client);
}

#[test]
fn an_operation_whose_result_was_taken_has_ended() {
    let server = start();
    let client = connect(&server);
    let inbox = Inbox::new();
    for _ in 0..500 {
        let get = client.get("key".into(), GetOptions::default());
        let operation = client
            .submit("getting", get, &inbox.mailbox, |result| result)
            .unwrap();
        assert_eq!(inbox.next().unwrap(), None);
        assert!(operation.has_ended().unwrap());
    }
    close(&client);
}
