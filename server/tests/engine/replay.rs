//! Redelivered requests.
use crate::simulation::{Simulation, WALL, config, hlc, payload};
use statestored_store::service::ServiceConfig;

fn redeliver(sim: &mut Simulation, correlation: &[u8], command: &str) -> String {
    let timestamp = Some(Ok(hlc(WALL, 0, "c")));
    let draft = sim.request().correlation(correlation).timestamp(timestamp);
    draft.run(command)
}

#[test]
fn a_redelivered_write_is_answered_again_and_not_executed_again() {
    let mut sim = Simulation::new();
    sim.run("KEYNOTIFY k");
    let longest = vec![3; 65_535];
    for correlation in [&b"1"[..], &[2; 16], &longest] {
        let first = redeliver(&mut sim, correlation, "SET k v NX");
        assert!(first.starts_with("+OK"));
        assert_eq!(sim.notified().len(), 1);
        sim.pass(3);
        assert_eq!(redeliver(&mut sim, correlation, "SET k v NX"), first);
        assert!(sim.notified().is_empty());
        let correlation = [correlation, b"'"].concat();
        let deleted = redeliver(&mut sim, &correlation, "VDEL k v");
        assert!(deleted.starts_with(":1 "));
        assert_eq!(redeliver(&mut sim, &correlation, "VDEL k v"), deleted);
        sim.notified();
    }
    assert!(redeliver(&mut sim, b"4", "SET k v").starts_with("+OK"));
    assert!(redeliver(&mut sim, b"5", "DEL k").starts_with(":1 "));
    assert!(redeliver(&mut sim, b"4", "SET k v").starts_with("+OK"));
    assert_eq!(
        sim.run("GET k"),
        "$-1",
        "a late redelivery does not undo what came after it"
    );
}

#[test]
fn the_same_correlation_data_of_another_user_is_another_request() {
    let mut sim = Simulation::new();
    let delete = |sim: &mut Simulation, user: &str| {
        let draft = sim.request().user(user).correlation(b"1");
        let timestamp = Some(Ok(hlc(WALL, 0, "c")));
        draft.timestamp(timestamp).run("DEL k")
    };
    assert_eq!(delete(&mut sim, "ann"), ":0");
    sim.run("SET k v");
    assert_eq!(delete(&mut sim, "ann"), ":0", "a redelivery");
    assert!(delete(&mut sim, "bob").starts_with(":1 "));
}

#[test]
fn a_redelivered_refusal_is_refused_again() {
    let mut sim = Simulation::with(ServiceConfig {
        max_keys: 1,
        ..config()
    });
    redeliver(&mut sim, b"1", "SET a v");
    let refused = redeliver(&mut sim, b"2", "SET b v");
    assert_eq!(refused, "-ERR the quota has been exceeded");
    assert_eq!(redeliver(&mut sim, b"3", "DEL b"), ":0");
    redeliver(&mut sim, b"4", "DEL a");
    assert_eq!(redeliver(&mut sim, b"2", "SET b v"), refused);
    redeliver(&mut sim, b"5", "SET b v");
    assert_eq!(redeliver(&mut sim, b"3", "DEL b"), ":0");
    assert!(sim.run("GET b").starts_with("$1"));
}

#[test]
fn the_same_correlation_data_with_other_content_is_another_request() {
    let mut sim = Simulation::new();
    let first = redeliver(&mut sim, b"1", "SET k v");
    let other_payload = redeliver(&mut sim, b"1", "SET k w");
    assert_ne!(other_payload, first);
    assert!(sim.run("GET k").starts_with("$1\r\nw"));
    let stamped = |sim: &mut Simulation, token, wall| {
        let draft = sim.request().correlation(b"1").token(token);
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
        let draft = sim.request().client(client).correlation(b"1");
        draft.timestamp(timestamp).run("SET k v NX")
    };
    assert!(run(&mut sim, "a").starts_with("+OK"));
    assert!(run(&mut sim, "b").starts_with(":-1"));
    assert!(run(&mut sim, "a").starts_with("+OK"));
}

#[test]
fn reads_and_watches_are_executed_again() {
    let mut sim = Simulation::new();
    assert_eq!(redeliver(&mut sim, b"1", "GET k"), "$-1");
    assert_eq!(redeliver(&mut sim, b"2", "KEYNOTIFY k"), "+OK");
    sim.service.end_watches("c");
    assert_eq!(redeliver(&mut sim, b"2", "KEYNOTIFY k"), "+OK");
    sim.run("SET k v");
    assert_eq!(sim.notified().len(), 1, "the new connection watches");
    assert!(redeliver(&mut sim, b"1", "GET k").starts_with("$1"));
    assert_eq!(redeliver(&mut sim, b"3", "KEYNOTIFY k STOP"), "+OK");
    assert_eq!(redeliver(&mut sim, b"3", "KEYNOTIFY k STOP"), ":0");
}

#[test]
fn remembered_responses_end_with_the_session() {
    let mut sim = Simulation::new();
    let first = redeliver(&mut sim, b"1", "SET k v NX");
    sim.service.end_watches("c");
    assert_eq!(redeliver(&mut sim, b"1", "SET k v NX"), first);
    sim.service.forget_replies("c");
    sim.service.forget_replies("nobody");
    assert!(redeliver(&mut sim, b"1", "SET k v NX").starts_with(":-1"));
}

#[test]
fn only_the_newest_responses_of_a_client_are_remembered() {
    let mut sim = Simulation::with(ServiceConfig {
        replay_per_client: 100,
        ..config()
    });
    for request in 0..1_000u32 {
        redeliver(&mut sim, &request.to_be_bytes(), "SET k v");
    }
    for request in (900..1_000u32).rev() {
        redeliver(&mut sim, &request.to_be_bytes(), "SET k v");
    }
    assert!(sim.run("GET k").ends_with("+1000"));
    redeliver(&mut sim, &899u32.to_be_bytes(), "SET k v");
    assert!(sim.run("GET k").ends_with("+1001"), "that one is forgotten");
}

#[test]
fn remembered_responses_are_not_evicted_by_other_clients() {
    let mut sim = Simulation::with(ServiceConfig {
        replay_per_client: 1_000,
        ..config()
    });
    let set = redeliver(&mut sim, b"1", "SET k mine");
    let deleted = redeliver(&mut sim, b"2", "DEL k");
    for request in 0..1_000u32 {
        // More than the answers of a thousand full clients would be before any of them had to go.
        for client in 0..20 {
            let draft = sim.request().client(&format!("client-{client}"));
            draft
                .correlation(&request.to_be_bytes())
                .run("SET k theirs");
        }
    }
    assert_eq!(redeliver(&mut sim, b"1", "SET k mine"), set);
    assert_eq!(redeliver(&mut sim, b"2", "DEL k"), deleted);
    assert!(sim.run("GET k").starts_with("$6\r\ntheirs"));
}

#[test]
fn an_acknowledged_response_is_forgotten() {
    let mut sim = Simulation::new();
    let send = |sim: &mut Simulation, correlation: u32| {
        let draft = sim.request().correlation(&correlation.to_be_bytes());
        draft
            .timestamp(Some(Ok(hlc(WALL, 0, "c"))))
            .send(&payload([&b"DEL"[..], b"k"]))
    };
    send(&mut sim, 0);
    let least = sim.service.client_bytes();
    let answers: Vec<_> = (1..=100)
        .map(|it| send(&mut sim, it).replay_number.unwrap())
        .collect();
    let most = sim.service.client_bytes();
    assert!(most > least + 100 * 64, "{most}");
    assert_eq!(sim.service.bytes_of("c"), most);
    assert_eq!(
        send(&mut sim, 50).replay_number,
        Some(answers[49]),
        "the same again"
    );
    for answer in answers.iter().rev().chain(&answers) {
        sim.service.forget_reply("c", *answer);
        sim.service.forget_reply("nobody", *answer);
    }
    assert_eq!(sim.service.client_bytes(), least);
    assert_eq!(
        send(&mut sim, 0).replay_number,
        Some(0),
        "that one was not received"
    );
    assert!(
        send(&mut sim, 50).replay_number > Some(100),
        "executed anew"
    );
    sim.service.forget_replies("c");
    assert_eq!(sim.service.client_bytes(), 0);
}

#[test]
fn responses_are_not_remembered_without_a_persistent_session() {
    let mut sim = Simulation::new();
    let send = |sim: &mut Simulation| {
        let timestamp = Some(Ok(hlc(WALL, 0, "c")));
        let draft = sim.request().ephemeral().correlation(b"1");
        draft.timestamp(timestamp).run("SET k v NX")
    };
    assert!(send(&mut sim).starts_with("+OK"));
    assert!(send(&mut sim).starts_with(":-1"));
    assert_eq!(sim.service.client_bytes(), 0);
}

#[test]
fn responses_are_not_remembered_if_disabled() {
    let mut sim = Simulation::with(ServiceConfig {
        replay_per_client: 0,
        ..config()
    });
    assert!(redeliver(&mut sim, b"1", "SET k v NX").starts_with("+OK"));
    assert!(redeliver(&mut sim, b"1", "SET k v NX").starts_with(":-1"));
}
