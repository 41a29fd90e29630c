//! Requests through a Mosquitto: to `statestored` behind it, and to a service beside it that answers each request with the same
//! bytes. Both share the broker, which does most of the work.

use crate::{
    load::{COLUMNS, run_measured},
    mqtt::Mqtt,
    plan::BenchmarkPlan,
    process::{Mosquitto, Server},
    raw_load::RawLoad,
    table::Table,
};
use bytes::BytesMut;
use statestore_protocol::{
    mqtt::{
        Connect, Limits, Publish, PublishHeader, Subscription,
        session::{Event, PublishOptions, Session, SessionConfig, Subscriptions},
    },
    property, topic,
};
use std::{
    collections::VecDeque,
    io::{Read, Write},
    net::TcpStream,
    sync::mpsc,
    thread,
};

const KEYS: u64 = 1000;
/// The answer of the service, as long as the answer to a GET.
const ANSWER: &[u8] = b"$100\r\nvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv\r\n";

/// Measures and prints.
pub fn measure(plan: &BenchmarkPlan) {
    for in_flight in [1, 64] {
        let (with_store, with_echo) = (Mosquitto::start(), Mosquitto::start());
        let server = Server::attached(&plan.statestored, &with_store);
        start_service(&with_echo);
        let mix = plan.mix(in_flight, KEYS);
        let row = |broker: &Mosquitto| {
            let mut raw = RawLoad::connect(broker.port(), 1, |number| Mqtt::new("bench", number));
            // Every key exists, so that each answer has the same length.
            raw.run(crate::load::Workload {
                set_percentage: 100,
                ..mix
            });
            raw
        };
        let (mut store, mut service) = (row(&with_store), row(&with_echo));
        let mut table = Table::new(&COLUMNS);
        let ours = table.row("statestored", || run_measured(&server, || store.run(mix)));
        // The cost of the service is in the client's column, because it is a thread of the client.
        let theirs = table.row("a service that answers at once", || {
            run_measured(with_echo.server(), || service.run(mix))
        });
        table.ratio("statestored / service", ours, theirs);
        let title = format!("Through a Mosquitto, one connection, {in_flight} in flight");
        table.print(&title, plan.rounds);
    }
}

/// A service on a thread of its own, until its broker ends.
fn start_service(broker: &Mosquitto) {
    let port = broker.port();
    let (ready, is_ready) = mpsc::channel();
    thread::spawn(move || serve(port, &ready));
    is_ready.recv().expect("the service subscribes");
}

fn serve(port: u16, ready: &mpsc::Sender<()>) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the broker listens");
    stream.set_nodelay(true).expect("a socket");
    let mut session = Session::new(SessionConfig {
        connect: Connect {
            client_id: "service".into(),
            clean_start: true,
            limits: Limits {
                receive_maximum: 1024,
                ..Limits::default()
            },
            ..Connect::default()
        },
        subscriptions: Subscriptions::new(|_| vec![Subscription::at_least_once(topic::REQUEST)]),
        ping_timeout_ms: 10_000,
    });
    session.connect(0).expect("a new session");
    let mut waiting: VecDeque<Publish> = VecDeque::new();
    let mut input = BytesMut::new();
    let mut chunk = vec![0; 64 * 1024];
    let mut is_told = false;
    loop {
        while session.capacity() > 0
            && let Some(request) = waiting.pop_front()
        {
            let header = PublishHeader {
                topic: request.response_topic().expect("a request has one"),
                correlation_data: request.correlation_data(),
                content_type: Some(property::CONTENT_TYPE),
                user_properties: &[
                    (property::STATUS, "200"),
                    (property::PROTOCOL_VERSION, property::PROTOCOL_VERSION_VALUE),
                ],
                ..PublishHeader::default()
            };
            let terms = PublishOptions {
                tag: (),
                deadline_ms: u64::MAX,
                is_harmless: true,
            };
            let write = |out: &mut BytesMut| out.extend_from_slice(ANSWER);
            session
                .publish(&header, ANSWER.len(), write, terms)
                .expect("there is room");
        }
        let output = session.take_output(0);
        if stream.write_all(&output).is_err() {
            return;
        }
        session.written(output.len(), false, 0);
        if session.is_ready() && !is_told {
            is_told = true;
            // The receiver may be gone.
            let _ = ready.send(());
        }
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return,
            Ok(count) => input.extend_from_slice(&chunk[..count]),
        }
        session
            .receive(&mut input, 0, usize::MAX, |event| {
                if let Event::Message { publish, .. } = event {
                    waiting.push_back(publish);
                }
            })
            .expect("the broker keeps to the protocol");
    }
}
