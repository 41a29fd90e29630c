//! Requests to the HTTP API of a server.
use crate::{
    admin_port::{AdminPort, HttpResponse},
    exit::Exit,
    failure::Failure,
    global_options::GlobalOptions,
};
use bytes::Bytes;
use serde_json::{Value, json};
use std::{
    fmt::{self, Write as _},
    time::Duration,
};

/// The HTTP API of a server, with a time limit for each answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Api<'a> {
    pub(super) port: &'a AdminPort,
    pub(super) timeout: Duration,
}

/// A path with its query.
#[derive(Debug, Clone)]
pub(super) struct Target {
    path: &'static str,
    query: String,
}

impl<'a> Api<'a> {
    pub(super) fn new(port: &'a AdminPort, global: &GlobalOptions) -> Self {
        Self {
            port,
            timeout: global.timeout,
        }
    }

    /// Requests a JSON document.
    pub(super) async fn get(&self, target: &Target) -> Result<Value, Failure> {
        let target = target.to_string();
        self.port.get_json(&target, self.timeout).await
    }

    /// Requests server-sent events.
    pub(super) async fn stream(&self, target: &Target) -> Result<HttpResponse, Failure> {
        let target = target.to_string();
        let answer = self.port.get(&target, "text/event-stream", self.timeout);
        answer.await?.error_for_status(self.timeout).await
    }

    /// Checks that the server still answers.
    pub(super) async fn check_alive(&self) -> Result<(), Failure> {
        let answer = self.port.get("/healthz", "text/plain", self.timeout);
        answer.await.map(|_| ())
    }

    /// Posts a JSON document, and returns the answer, which may be an error.
    pub(super) async fn send(&self, path: &str, request: &Value) -> Result<HttpResponse, Failure> {
        let body = Bytes::from(request.to_string());
        self.port.post(path, body, self.timeout).await
    }

    /// Posts a JSON document, and returns that of a successful answer.
    pub(super) async fn post(&self, path: &str, request: &Value) -> Result<Value, Failure> {
        let answer = self.send(path, request).await?;
        self.read(answer).await
    }

    /// Returns the JSON document of a successful answer.
    pub(super) async fn read(&self, answer: HttpResponse) -> Result<Value, Failure> {
        let answer = answer.error_for_status(self.timeout).await?;
        answer.json(self.timeout).await
    }
}

impl Target {
    pub(super) fn new(path: &'static str) -> Self {
        Self {
            path,
            query: String::new(),
        }
    }

    /// Adds a parameter.
    pub(super) fn with(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.query
            .push(if self.query.is_empty() { '?' } else { '&' });
        self.query.push_str(name);
        self.query.push('=');
        for &byte in value.as_ref() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                self.query.push(char::from(byte));
            } else {
                let _ = write!(self.query, "%{byte:02X}");
            }
        }
        self
    }

    /// Adds a parameter if it has a value.
    pub(super) fn with_optional(self, name: &str, value: Option<impl AsRef<[u8]>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    pub(super) fn path(&self) -> &'static str {
        self.path
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.path)?;
        f.write_str(&self.query)
    }
}

/// Returns a request that names a key.
pub(super) fn key_request(key: &Bytes) -> Value {
    match std::str::from_utf8(key) {
        Ok(text) => json!({ "key": text }),
        Err(_) => json!({ "hex": format!("{key:x}") }),
    }
}

/// Returns the failure for an answer that has another form than this command knows.
pub(super) fn unexpected_answer(path: &str) -> Failure {
    Failure::new(
        Exit::NoResponse,
        format!("the answer to {path} has an unknown form; the server is newer than this command"),
    )
}

#[cfg(test)]
mod tests {
    use super::Target;

    #[test]
    fn parameters_are_percent_encoded() {
        let target = Target::new("/api/keys")
            .with("match", b"a/* \xff&=")
            .with_optional("user", None::<&str>)
            .with_optional("client", Some("ü"));
        assert_eq!(
            target.to_string(),
            "/api/keys?match=a%2F%2A%20%FF%26%3D&client=%C3%BC"
        );
    }
}
