//! Reads of several keys at one moment, while another server changes them.
use super::Engine;
use super::keeping::ask;
use super::world::{Peer, Store};

const ROUNDS: u32 = 100;

/// Number of absent keys between the two that exist: more than one transaction of etcd reads.
const ABSENT_KEYS: usize = 400;

/// Returns the values of the first and the last key in the response to an MGET.
fn values(answer: &str) -> [String; 2] {
    let lines: Vec<_> = answer.split("\r\n").collect();
    [5, 10 + ABSENT_KEYS].map(|line| lines[line].to_owned())
}

pub(crate) fn reads_of_several_keys_see_whole_transactions<E: Engine>() {
    let engine = E::start();
    let storage = &engine.url("snapshots");
    let [one, other] =
        [(), ()].map(|()| Store::launch(&["--storage", storage, "--listen", "tcp://127.0.0.1:0"]));
    let [mut writer, mut reader] =
        [&one, &other].map(|server| Peer::connect(server.listener.unwrap(), "peer"));
    let mut set_both = move |number: u32| {
        let value = number.to_string();
        let set = |key| ["3", "SET", key, &value];
        let transaction = [&["TXN"][..], &set("a"), &set("b")].concat();
        let answer = ask(&mut writer, &transaction, &mut Vec::new());
        assert!(answer.starts_with("*2\r\n$"), "{answer}");
    };
    set_both(0);
    let absent: Vec<_> = (0..ABSENT_KEYS)
        .map(|key| format!("absent-{key}"))
        .collect();
    let absent = absent.iter().map(String::as_str);
    let read: Vec<_> = ["MGET", "b"]
        .into_iter()
        .chain(absent)
        .chain(["a"])
        .collect();
    let writing = std::thread::spawn(move || (1..=ROUNDS).for_each(set_both));
    loop {
        let is_over = writing.is_finished();
        let answer = ask(&mut reader, &read, &mut Vec::new());
        let [b, a] = values(&answer);
        assert_eq!(a, b, "{answer}");
        if is_over {
            assert_eq!(a, ROUNDS.to_string());
            break;
        }
    }
    writing.join().unwrap();
}
