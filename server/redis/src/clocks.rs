//! Comparison of the wall clocks of the nodes and of Redis.
use super::connection::Session;
use super::key_names::number;
use super::transactions::{ConnectionStatus, ends_connection, unwritable_reason};
use ::redis::Value;
use ::redis::aio::MultiplexedConnection;
use statestored_shared::{
    CLOCK_LIFETIME, ClockReadings, EngineError, EngineEvent, EngineRequestId,
};
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedSender;

const REPORT: &str = include_str!("clocks.lua");
const PROBE: &str = include_str!("probe.lua");

/// Reads the other clocks, and reports that of this process. The other nodes do without it if Redis accepts no writes. No replica has to
/// confirm the report.
pub(super) async fn compare(
    mut connection: MultiplexedConnection,
    session: Arc<Session>,
    id: EngineRequestId,
    (process, shown_ms): (u128, u64),
    events: UnboundedSender<EngineEvent>,
) -> ConnectionStatus {
    let mut commands = ::redis::pipe();
    commands.cmd("TIME");
    commands.cmd("HGETALL").arg(session.names.clocks());
    let call = commands.cmd("EVAL").arg(REPORT).arg(2);
    call.arg(session.names.manifest())
        .arg(session.names.clocks());
    call.arg(&session.history).arg(lifetime_ms());
    call.arg(process_name(process)).arg(shown_ms);
    let probe = commands.cmd("EVAL").arg(PROBE);
    probe.arg(1).arg(session.names.mark());
    commands.ignore_errors();
    let count = commands.len();
    let answers: Result<Vec<Value>, _> = connection.send_packed_commands(&commands, 0, count).await;
    let (found, status) = match &answers {
        Ok(answers) if answers.iter().any(ends_connection) => (None, ConnectionStatus::Lost),
        Ok(answers) => (decode_clocks(answers), ConnectionStatus::Usable),
        Err(_) => (None, ConnectionStatus::Lost),
    };
    if found.is_none() {
        tracing::debug!(?answers, "cannot read the clocks of the servers from redis");
    }
    // The receiver may be gone.
    let _ = events.send(EngineEvent::Clocks(id, found.ok_or(None)));
    let probed = answers.ok().as_deref().and_then(<[_]>::last).map(writable);
    if let Some(result) = probed.flatten() {
        let _ = events.send(EngineEvent::Writable(result));
    }
    status
}

/// Interprets the answer to the probe for writes.
fn writable(probed: &Value) -> Option<Result<(), EngineError>> {
    match probed {
        Value::Okay => Some(Ok(())),
        Value::ServerError(error) => unwritable_reason(error).map(Err),
        _ => None,
    }
}

fn lifetime_ms() -> u64 {
    u64::try_from(CLOCK_LIFETIME.as_millis()).unwrap_or(u64::MAX)
}

fn process_name(process: u128) -> String {
    format!("{process:032x}")
}

fn decode_clocks(answers: &[Value]) -> Option<ClockReadings> {
    let [Value::Array(time), Value::Array(fields), ..] = answers else {
        return None;
    };
    let [Value::BulkString(seconds), Value::BulkString(micros)] = &time[..] else {
        return None;
    };
    let engine_ms = number(seconds)? * 1_000 + number(micros)? / 1_000;
    let nodes = fields.as_chunks::<2>().0.iter();
    let nodes = nodes.filter_map(|[node, reading]| decode_clock(node, reading, engine_ms));
    Some(ClockReadings {
        engine_ms: Some(engine_ms),
        nodes: nodes.collect(),
    })
}

/// Decodes the report of a node's clock; `None` if it is too old.
fn decode_clock(node: &Value, reading: &Value, engine_ms: u64) -> Option<(u128, u64)> {
    let (Value::BulkString(node), Value::BulkString(reading)) = (node, reading) else {
        return None;
    };
    let process = u128::from_str_radix(std::str::from_utf8(node).ok()?, 16).ok()?;
    let colon = reading.iter().position(|byte| *byte == b':')?;
    let (shown, at) = (number(&reading[..colon])?, number(&reading[colon + 1..])?);
    (engine_ms.abs_diff(at) <= lifetime_ms()).then_some((process, shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn a_clock_reading_is_decoded_unless_it_has_expired() {
        let time = Value::Array(vec![text("100"), text("5500")]);
        let (now, long_ago) = (text("7:99000"), text("8:1000"));
        let fields = Value::Array(vec![
            text(&process_name(9)),
            now,
            text(&process_name(10)),
            long_ago,
            text("other"),
            text("1:100000"),
        ]);
        let expected = ClockReadings {
            engine_ms: Some(100_005),
            nodes: vec![(9, 7)],
        };
        assert_eq!(decode_clocks(&[time, fields, Value::Okay]), Some(expected));
        assert_eq!(decode_clocks(&[text("x")]), None);
    }
}
