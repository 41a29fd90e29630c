//! Redelivered requests.
use crate::simulation::{Simulation, WALL, config, hlc, payload};
use statestored::service::ServiceConfig;

fn again(sim: &mut Simulation, correlation: &[u8], command: &str) -> String {
    let timestamp = Some(Ok(hlc(WALL, 0, "c")));
    let draft = sim.draft().correlation(correlation).timestamp(timestamp);
    draft.run(command)
}

#[test]
fn a_redelivered_write_is_answered_again_and_not_executed_again() {
    let mut sim = Simulation::new();
    sim.run("KEYNOTIFY k");
    let longest = vec![3; 65_535];
    for correlation in [&b"1"[..], &[2; 16], &longest] {
        let first = again(&mut sim, correlation, "SET k v NX");
        assert!(first.starts_with("+OK"));
        assert_eq!(sim.notified().len(), 1);
        sim.pass(3);
        assert_eq!(again(&mut sim, correlation, "SET k v NX"), first);
        assert!(sim.notified().is_empty());
        let correlation = [correlation, b"'"].concat();
        let deleted = again(&mut sim, &correlation, "VDEL k v");
        assert!(deleted.starts_with(":1 "));
        assert_eq!(again(&mut sim, &correlation, "VDEL k v"), deleted);
        sim.notified();
    }
    assert!(again(&mut sim, b"4", "SET k v").starts_with("+OK"));
    assert!(again(&mut sim, b"5", "DEL k").starts_with(":1 "));
    assert!(again(&mut sim, b"4", "SET k v").starts_with("+OK"));
    assert_eq!(
        sim.run("GET k"),
        "$-1",
        "a late redelivery does not undo what came after it"
    );
}

#[test]
fn what_somebody_else_asks_under_the_same_name_is_another_request() {
    let mut sim = Simulation::new();
    let delete = |sim: &mut Simulation, user: &str| {
        let draft = sim.draft().user(user).correlation(b"1");
        let timestamp = Some(Ok(hlc(WALL, 0, "c")));
        draft.timestamp(timestamp).run("DEL k")
    };
    assert_eq!(delete(&mut sim, "ann"), ":0");
    sim.run("SET k v");
    assert_eq!(delete(&mut sim, "ann"), ":0", "a redelivery");
    assert!(delete(&mut sim, "bob").starts_with(":1 "));
}

#[test]
fn a_refusal_stays_a_refusal() {
    let mut sim = Simulation::with(ServiceConfig {
        max_keys: 1,
        ..config()
    });
    again(&mut sim, b"1", "SET a v");
    let refused = again(&mut sim, b"2", "SET b v");
    assert_eq!(refused, "-ERR the quota has been exceeded");
    assert_eq!(again(&mut sim, b"3", "DEL b"), ":0");
    again(&mut sim, b"4", "DEL a");
    assert_eq!(again(&mut sim, b"2", "SET b v"), refused);
    again(&mut sim, b"5", "SET b v");
    assert_eq!(again(&mut sim, b"3", "DEL b"), ":0");
    assert!(sim.run("GET b").starts_with("$1"));
}

#[test]
fn the_same_correlation_data_with_other_content_is_another_request() {
    let mut sim = Simulation::new();
    let first = again(&mut sim, b"1", "SET k v");
    let other_payload = again(&mut sim, b"1", "SET k w");
    assert_ne!(other_payload, first);
    assert!(sim.run("GET k").starts_with("$1\r\nw"));
    let stamped = |sim: &mut Simulation, token, wall| {
        let draft = sim.draft().correlation(b"1").token(token);
        draft.timestamp(Some(Ok(hlc(wall, 0, "c")))).run("SET k w")
    };
    let other_timestamp = stamped(&mut sim, None, WALL + 1);
    assert_ne!(other_timestamp, other_payload);
    let other_token = stamped(&mut sim, Some(hlc(1, 0, "l")), WALL + 1);
    assert_ne!(other_token, other_timestamp);
    assert_eq!(
        stamped(&mut sim, Some(hlc(1, 0, "l")), WALL + 1),
        other_token
    );
}

#[test]
fn clients_do_not_share_correlation_data() {
    let mut sim = Simulation::new();
    let run = |sim: &mut Simulation, client| {
        let timestamp = Some(Ok(hlc(WALL, 0, "c")));
        let draft = sim.draft().client(client).correlation(b"1");
        draft.timestamp(timestamp).run("SET k v NX")
    };
    assert!(run(&mut sim, "a").starts_with("+OK"));
    assert!(run(&mut sim, "b").starts_with(":-1"));
    assert!(run(&mut sim, "a").starts_with("+OK"));
}

#[test]
fn reads_and_watches_are_executed_again() {
    let mut sim = Simulation::new();
    assert_eq!(again(&mut sim, b"1", "GET k"), "$-1");
    assert_eq!(again(&mut sim, b"2", "KEYNOTIFY k"), "+OK");
    sim.service.disconnected("c");
    assert_eq!(again(&mut sim, b"2", "KEYNOTIFY k"), "+OK");
    sim.run("SET k v");
    assert_eq!(sim.notified().len(), 1, "the new connection watches");
    assert!(again(&mut sim, b"1", "GET k").starts_with("$1"));
    assert_eq!(again(&mut sim, b"3", "KEYNOTIFY k STOP"), "+OK");
    assert_eq!(again(&mut sim, b"3", "KEYNOTIFY k STOP"), ":0");
}

#[test]
fn answers_outlive_the_connection_and_end_with_the_session() {
    let mut sim = Simulation::new();
    let first = again(&mut sim, b"1", "SET k v NX");
    sim.service.disconnected("c");
    assert_eq!(again(&mut sim, b"1", "SET k v NX"), first);
    sim.service.session_ended("c");
    sim.service.session_ended("nobody");
    assert!(again(&mut sim, b"1", "SET k v NX").starts_with(":-1"));
}

#[test]
fn the_newest_answers_of_a_client_are_remembered() {
    let mut sim = Simulation::with(ServiceConfig {
        replay_per_client: 100,
        ..config()
    });
    for request in 0..1_000u32 {
        again(&mut sim, &request.to_be_bytes(), "SET k v");
    }
    for request in (900..1_000u32).rev() {
        again(&mut sim, &request.to_be_bytes(), "SET k v");
    }
    assert!(sim.run("GET k").ends_with("+1000"));
    again(&mut sim, &899u32.to_be_bytes(), "SET k v");
    assert!(sim.run("GET k").ends_with("+1001"), "that one is forgotten");
}

#[test]
fn no_answer_is_forgotten_for_the_sake_of_other_clients() {
    let mut sim = Simulation::with(ServiceConfig {
        replay_per_client: 1_000,
        ..config()
    });
    let set = again(&mut sim, b"1", "SET k mine");
    let deleted = again(&mut sim, b"2", "DEL k");
    for request in 0..1_000u32 {
        // More than the answers of a thousand full clients would be before any of them had to go.
        for client in 0..20 {
            let draft = sim.draft().client(&format!("client-{client}"));
            draft
                .correlation(&request.to_be_bytes())
                .run("SET k theirs");
        }
    }
    assert_eq!(again(&mut sim, b"1", "SET k mine"), set);
    assert_eq!(again(&mut sim, b"2", "DEL k"), deleted);
    assert!(sim.run("GET k").starts_with("$6\r\ntheirs"));
}

#[test]
fn an_answer_that_was_received_is_forgotten_and_takes_no_memory() {
    let mut sim = Simulation::new();
    let send = |sim: &mut Simulation, correlation: u32| {
        let draft = sim.draft().correlation(&correlation.to_be_bytes());
        draft
            .timestamp(Some(Ok(hlc(WALL, 0, "c"))))
            .send(&payload([&b"DEL"[..], b"k"]))
    };
    send(&mut sim, 0);
    let least = sim.service.client_bytes();
    let answers: Vec<_> = (1..=100)
        .map(|it| send(&mut sim, it).answer.unwrap())
        .collect();
    let most = sim.service.client_bytes();
    assert!(most > least + 100 * 64, "{most}");
    assert_eq!(sim.service.bytes_of("c"), most);
    assert_eq!(
        send(&mut sim, 50).answer,
        Some(answers[49]),
        "the same again"
    );
    for answer in answers.iter().rev().chain(&answers) {
        sim.service.answer_received("c", *answer);
        sim.service.answer_received("nobody", *answer);
    }
    assert_eq!(sim.service.client_bytes(), least);
    assert_eq!(
        send(&mut sim, 0).answer,
        Some(0),
        "that one was not received"
    );
    assert!(send(&mut sim, 50).answer > Some(100), "executed anew");
    sim.service.session_ended("c");
    assert_eq!(sim.service.client_bytes(), 0);
}

#[test]
fn nothing_is_remembered_for_clients_whose_session_ends_with_the_connection() {
    let mut sim = Simulation::new();
    let send = |sim: &mut Simulation| {
        let timestamp = Some(Ok(hlc(WALL, 0, "c")));
        let draft = sim.draft().ephemeral().correlation(b"1");
        draft.timestamp(timestamp).run("SET k v NX")
    };
    assert!(send(&mut sim).starts_with("+OK"));
    assert!(send(&mut sim).starts_with(":-1"));
    assert_eq!(sim.service.client_bytes(), 0);
}

#[test]
fn nothing_is_remembered_if_nothing_is_to_be() {
    let mut sim = Simulation::with(ServiceConfig {
        replay_per_client: 0,
        ..config()
    });
    assert!(again(&mut sim, b"1", "SET k v NX").starts_with("+OK"));
    assert!(again(&mut sim, b"1", "SET k v NX").starts_with(":-1"));
}
