//! Panics are caught, and poison the client.
use crate::server::{Inbox, PATIENCE, close, connect, start, wait};
use statestore::{GetOptions, ObserveOptions};
use statestore_embed::{Client, Error, ErrorKind, WaitError, WaitOptions};

fn is_poisoned(client: &Client) -> bool {
    let get = client.get("key".into(), GetOptions::default());
    let inbox = Inbox::new();
    let refused = client.submit("getting", get, &inbox.mailbox, |result| result);
    refused.is_err_and(|error| error.kind() == ErrorKind::Internal)
}

fn inject() -> Error {
    panic!("injected")
}

#[test]
fn a_panic_in_an_operation_ends_it_and_poisons_the_client() {
    let server = start();
    let client = connect(&server);
    let inbox = Inbox::new();
    let inner = client.clone();
    let panics = async move {
        // Makes it panic on the runtime's thread.
        inner
            .observe("key".into(), ObserveOptions::default())
            .await?;
        Err::<(), _>(inject())
    };
    client
        .submit("panicking", panics, &inbox.mailbox, |result| result)
        .unwrap();
    let error = inbox.next().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
    assert!(is_poisoned(&client));
    close(&client);
}

#[test]
fn a_panic_while_waiting_poisons_the_client() {
    let server = start();
    let client = connect(&server);
    let panics = async { Err::<(), _>(inject()) };
    let stopped = client
        .wait("waiting", panics, WaitOptions::default())
        .unwrap_err();
    assert!(
        matches!(&stopped, WaitError::Failed(error) if error.kind() == ErrorKind::Internal),
        "{stopped:?}"
    );
    assert!(is_poisoned(&client));
    close(&client);
}

#[test]
fn a_panic_in_a_callback_poisons_the_client_and_the_next_callback_runs() {
    let server = start();
    let client = connect(&server);
    let callbacks = client.callbacks().unwrap();
    callbacks
        .post(Box::new(|| panic!("injected")))
        .ok()
        .unwrap();
    let (done, ran) = std::sync::mpsc::channel();
    callbacks
        .post(Box::new(move || done.send(()).unwrap()))
        .ok()
        .unwrap();
    ran.recv_timeout(PATIENCE).unwrap();
    assert!(is_poisoned(&client));
    close(&client);
}

#[test]
fn a_panic_does_not_affect_other_clients() {
    let server = start();
    let (one, other) = (connect(&server), connect(&server));
    one.poison();
    assert!(is_poisoned(&one));
    let get = other.get("key".into(), GetOptions::default());
    assert_eq!(wait(&other, get).unwrap(), None);
    close(&one);
    close(&other);
}
