//! Server-sent events.
use super::api::{Api, Target};
use crate::{admin_port::HttpResponse, exit::Exit, failure::Failure};
use bytes::Bytes;
use serde_json::Value;
use std::time::Duration;

/// Maximum length of the events that have not ended yet.
const MAX_EVENT_BYTES: usize = 16 << 20;

/// A stream of server-sent events, each a JSON document.
#[derive(Debug)]
pub(super) struct EventStream<'a> {
    api: Api<'a>,
    answer: HttpResponse,
    parser: EventParser,
}

/// Lines that do not form an event yet.
#[derive(Debug, Default)]
struct EventParser {
    line: Vec<u8>,
    data: Vec<u8>,
}

impl<'a> EventStream<'a> {
    /// Opens the stream.
    pub(super) async fn open(api: Api<'a>, target: &Target) -> Result<Self, Failure> {
        Ok(Self {
            answer: api.stream(target).await?,
            api,
            parser: EventParser::default(),
        })
    }

    /// Returns the next events, at least one; `None` at the end of the stream.
    pub(super) async fn next_events(&mut self) -> Result<Option<Vec<Value>>, Failure> {
        while let Some(chunk) = self.next_chunk().await? {
            let events = self.parser.push(&chunk)?;
            if !events.is_empty() {
                return Ok(Some(events));
            }
        }
        Ok(None)
    }

    /// Returns the next part. An idle server has no events, and is asked whether it is alive.
    async fn next_chunk(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            let chunk = self.answer.chunk(Duration::MAX);
            if let Ok(chunk) = tokio::time::timeout(self.api.timeout, chunk).await {
                return chunk;
            }
            self.api.check_alive().await?;
        }
    }
}

impl EventParser {
    /// Adds bytes, and returns the events that they complete.
    fn push(&mut self, bytes: &[u8]) -> Result<Vec<Value>, Failure> {
        let mut events = Vec::new();
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let Some(end) = part.strip_suffix(b"\n") else {
                self.line.extend_from_slice(part);
                break;
            };
            self.line.extend_from_slice(end);
            let mut line = std::mem::take(&mut self.line);
            line.truncate(line.trim_ascii_end().len());
            events.extend(self.push_line(&line)?);
        }
        if self.line.len() + self.data.len() > MAX_EVENT_BYTES {
            return Err(unreadable("it is too long"));
        }
        Ok(events)
    }

    /// Adds a line, and returns the event that it completes. Comments and other fields than `data` are ignored.
    fn push_line(&mut self, line: &[u8]) -> Result<Option<Value>, Failure> {
        if let Some(data) = line.strip_prefix(b"data:") {
            self.data.extend_from_slice(data);
            self.data.push(b'\n');
        }
        if !line.is_empty() || self.data.is_empty() {
            return Ok(None);
        }
        let event = serde_json::from_slice::<Value>(&self.data);
        self.data.clear();
        let event = event.map_err(|error| unreadable(&error.to_string()))?;
        Ok(Some(event))
    }
}

fn unreadable(reason: &str) -> Failure {
    Failure::new(
        Exit::NoResponse,
        format!("an event of the server is not readable: {reason}"),
    )
}

#[cfg(test)]
mod tests {
    use super::EventParser;
    use serde_json::{Value, json};

    #[test]
    fn events_are_independent_of_the_parts_in_which_they_arrive() {
        let stream = b": comment\r\n\r\nevent: x\ndata: {\"a\":\ndata: 1}\n\ndata: 2\n\n\ndata:3\n\ndata: 4\n";
        for length in 1..=stream.len() {
            let mut parser = EventParser::default();
            let mut events = Vec::new();
            for part in stream.chunks(length) {
                events.extend(parser.push(part).unwrap());
            }
            assert_eq!(events, [json!({"a": 1}), json!(2), json!(3)], "{length}");
        }
    }

    #[test]
    fn an_event_that_is_no_json_is_a_failure() {
        let mut parser = EventParser::default();
        assert_eq!(parser.push(b"data: {\n").unwrap(), Vec::<Value>::new());
        assert!(parser.push(b"\n").is_err());
    }
}
