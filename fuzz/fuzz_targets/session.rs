//! A hostile broker: after the first byte's choice of a state, any bytes, in pieces, between publishes and reconnects.
#![no_main]
use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use statestore_protocol::mqtt::session::{
    Event, PublishOptions, Session, SessionConfig, Subscriptions,
};
use statestore_protocol::mqtt::{
    ConnAck, Connect, Limits, PublishHeader, ReasonCode, Subscription,
};

const CONFIG: fn() -> SessionConfig = || SessionConfig {
    connect: Connect {
        client_id: "me".into(),
        keep_alive_s: 1,
        limits: Limits {
            topic_alias_maximum: 2,
            ..Limits::default()
        },
        ..Connect::default()
    },
    subscriptions: Subscriptions::new(|client_id| vec![Subscription::at_least_once(client_id)]),
    ping_timeout_ms: 100,
};

fuzz_target!(|input: &[u8]| {
    let Some((&state, bytes)) = input.split_first() else {
        return;
    };
    let mut session = Session::new(CONFIG());
    let mut now_ms = 0;
    let mut ended = 0;
    let mut published = 0;
    session.connect(now_ms).expect("a CONNECT can be encoded");
    if state & 1 == 1 {
        let mut ready = BytesMut::new();
        ConnAck::new(ReasonCode::SUCCESS)
            .encode(u32::MAX, &mut ready)
            .expect("it can be encoded");
        ready.extend_from_slice(b"\x90\x04\0\x01\0\x01");
        session
            .receive(&mut ready, now_ms, usize::MAX, |_| {})
            .expect("a good start");
    }
    let mut stream = BytesMut::new();
    for piece in bytes.chunks(1 + usize::from(state >> 4)) {
        stream.extend_from_slice(piece);
        let header = PublishHeader {
            topic: "t",
            ..PublishHeader::default()
        };
        published += usize::from(
            session
                .publish(
                    &header,
                    0,
                    |_| {},
                    PublishOptions {
                        tag: published,
                        deadline_ms: now_ms,
                        is_harmless: false,
                    },
                )
                .is_ok(),
        );
        let received = session.receive(&mut stream, now_ms, 8, |event| {
            ended += usize::from(matches!(
                event,
                Event::Acknowledged { .. }
                    | Event::Lost { .. }
                    | Event::TooLarge { .. }
                    | Event::Dropped { .. }
            ));
        });
        // Some of what is taken stays unwritten, on every other connection.
        let output = session.take_output(now_ms);
        session.written(output.len() / (1 + usize::from(state & 2)), false, now_ms);
        now_ms += 50;
        if received.is_err() || session.poll(published > ended, now_ms).is_err() {
            stream.clear();
            session.connection_lost();
            session.connect(now_ms).expect("a CONNECT can be encoded");
        }
        assert_eq!(
            session.unacknowledged(),
            published - ended,
            "each PUBLISH ends once"
        );
    }
});
