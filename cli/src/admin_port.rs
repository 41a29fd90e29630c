//! The HTTP port of a server: one request at a time, each over a connection of its own.
use crate::{
    admin_tls::{self, AdminTls},
    exit::Exit,
    failure::Failure,
};
use bytes::Bytes;
use clap::Args;
use http_body_util::{BodyExt as _, Full};
use hyper::{
    Method, Request, StatusCode, Uri,
    body::Incoming,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue},
};
use hyper_util::rt::TokioIo;
use std::{path::PathBuf, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};

/// Maximum length of an answer that is read as a whole.
const MAX_BYTES: usize = 16 << 20;
/// Maximum length of a token.
const MAX_TOKEN_BYTES: usize = 4096;

/// Options of the HTTP port of a server.
#[derive(Debug, Clone, Args)]
pub(crate) struct AdminPort {
    /// The HTTP port of the server: http://HOST[:PORT], or https://HOST[:PORT]
    #[arg(
        id = "admin",
        long = "admin",
        global = true,
        value_name = "URL",
        env = "STATESTORE_ADMIN",
        default_value = "http://127.0.0.1:9883"
    )]
    #[allow(clippy::doc_markdown, reason = "help is plain text")]
    url: Uri,
    /// File with the token of the server
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "STATESTORE_ADMIN_TOKEN_FILE"
    )]
    token_file: Option<PathBuf>,
    #[command(flatten)]
    tls: AdminTls,
}

/// An answer with its head, before its body is read.
#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: StatusCode,
    /// The path of the request.
    path: String,
    body: Incoming,
}

impl AdminPort {
    /// Requests a document of this media type.
    pub(crate) async fn get(
        &self,
        path: &str,
        media_type: &'static str,
        timeout: Duration,
    ) -> Result<HttpResponse, Failure> {
        let mut request = self.request(Method::GET, path, Bytes::new()).await?;
        let accepted = HeaderValue::from_static(media_type);
        request.headers_mut().insert(ACCEPT, accepted);
        self.exchange_within(request, timeout).await
    }

    /// Posts a JSON document.
    pub(crate) async fn post(
        &self,
        path: &str,
        body: Bytes,
        timeout: Duration,
    ) -> Result<HttpResponse, Failure> {
        let request = self.request(Method::POST, path, body).await?;
        self.exchange_within(request, timeout).await
    }

    /// Posts a request that may take long. The wait ends only when the server does not answer another request within `timeout`.
    pub(crate) async fn post_long_running(
        &self,
        path: &str,
        timeout: Duration,
    ) -> Result<HttpResponse, Failure> {
        let request = self.request(Method::POST, path, Bytes::new()).await?;
        let mut exchange = std::pin::pin!(self.exchange(request));
        loop {
            if let Ok(answer) = tokio::time::timeout(timeout, &mut exchange).await {
                return answer;
            }
            self.get("/healthz", "text/plain", timeout).await?;
        }
    }

    /// Requests a JSON document.
    pub(crate) async fn get_json(
        &self,
        path: &str,
        timeout: Duration,
    ) -> Result<serde_json::Value, Failure> {
        let response = self.get(path, "application/json", timeout).await?;
        let response = response.error_for_status(timeout).await?;
        response.json(timeout).await
    }

    async fn request(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, Failure> {
        let authority = self.authority()?;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = path
            .parse::<Uri>()
            .map_err(|error| Failure::usage(format!("cannot ask for this: {error}")))?;
        let headers = request.headers_mut();
        let host = HeaderValue::try_from(authority);
        headers.insert(HOST, host.map_err(|_| self.unusable())?);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(token) = self.token().await? {
            headers.insert(AUTHORIZATION, token);
        }
        Ok(request)
    }

    fn authority(&self) -> Result<&str, Failure> {
        let is_http = self.has_tls() || self.url.scheme_str() == Some("http");
        let rest = self.url.path_and_query().map_or("/", |it| it.as_str());
        match self.url.authority() {
            Some(authority) if is_http && rest == "/" && !authority.as_str().contains('@') => {
                if !self.has_tls() && !self.tls.is_empty() {
                    return Err(Failure::usage(format!(
                        "--ca-file, --cert-file and --key-file need https://, and '{}' has no TLS",
                        self.url
                    )));
                }
                Ok(authority.as_str())
            }
            _ => Err(self.unusable()),
        }
    }

    fn has_tls(&self) -> bool {
        self.url.scheme_str() == Some("https")
    }

    fn unusable(&self) -> Failure {
        Failure::usage(format!(
            "cannot use '{}': expected http://HOST:PORT or https://HOST:PORT, such as http://127.0.0.1:9883",
            self.url
        ))
    }

    async fn token(&self) -> Result<Option<HeaderValue>, Failure> {
        let Some(path) = &self.token_file else {
            return Ok(None);
        };
        let text = tokio::fs::read_to_string(path)
            .await
            .map_err(|error| Failure::file("read", path, &error))?;
        let text = text.trim();
        let bearer = HeaderValue::try_from(format!("Bearer {text}"));
        match bearer {
            Ok(mut value) if !text.is_empty() && text.len() <= MAX_TOKEN_BYTES => {
                value.set_sensitive(true);
                Ok(Some(value))
            }
            _ => Err(Failure::usage(format!(
                "file '{}' holds no token",
                path.display()
            ))),
        }
    }

    async fn exchange_within(
        &self,
        request: Request<Full<Bytes>>,
        timeout: Duration,
    ) -> Result<HttpResponse, Failure> {
        let answer = tokio::time::timeout(timeout, self.exchange(request)).await;
        answer.unwrap_or_else(|_| Err(self.no_response("no answer in time")))
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<HttpResponse, Failure> {
        let host = self.url.host().unwrap_or_default();
        let bare = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        let host = bare.unwrap_or(host);
        let default_port = if self.has_tls() { 443 } else { 80 };
        let place = (host, self.url.port_u16().unwrap_or(default_port));
        let stream = TcpStream::connect(place)
            .await
            .map_err(|error| self.no_response(&error.to_string()))?;
        if !self.has_tls() {
            return self.send(stream, request).await;
        }
        let connector = self.tls.connector().await?;
        let stream = Box::pin(admin_tls::connect(&connector, host, stream))
            .await
            .map_err(|reason| self.no_response(&reason))?;
        self.send(stream, request).await
    }

    async fn send<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
        &self,
        stream: S,
        request: Request<Full<Bytes>>,
    ) -> Result<HttpResponse, Failure> {
        let failed = |error: hyper::Error| self.no_response(&admin_tls::explain(&error));
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(failed)?;
        // The task ends with the response; reading the response returns its failures.
        tokio::spawn(connection);
        let path = request.uri().path().to_owned();
        let (head, body) = sender
            .send_request(request)
            .await
            .map_err(failed)?
            .into_parts();
        Ok(HttpResponse {
            status: head.status,
            path,
            body,
        })
    }

    fn no_response(&self, reason: &str) -> Failure {
        Failure::new(
            Exit::NoResponse,
            format!("cannot ask {}: {reason}", self.url),
        )
    }
}

impl HttpResponse {
    /// Returns this response if it is a success, otherwise a failure with the text of the server.
    pub(crate) async fn error_for_status(self, timeout: Duration) -> Result<Self, Failure> {
        if self.status.is_success() {
            return Ok(self);
        }
        let status = self.status;
        let path = self.path.clone();
        let text = self.text(timeout).await?;
        let document = serde_json::from_slice::<serde_json::Value>(&text).ok();
        let message = document
            .as_ref()
            .and_then(|document| document["error"].as_str());
        // The error of a known path is JSON, also if a client or key is absent.
        if status == StatusCode::NOT_FOUND && message.is_none() && path.starts_with("/api/") {
            return Err(Failure::new(
                Exit::Rejected,
                format!("this server does not have {path}; it is older than this command"),
            ));
        }
        if status == StatusCode::BAD_REQUEST
            && let Some(field) = message.and_then(unknown_field)
        {
            let field = crate::escape::escape(field.as_bytes());
            return Err(Failure::new(
                Exit::Rejected,
                format!(
                    "this server does not have '{field}' of {path}; it is older than this command"
                ),
            ));
        }
        let text = String::from_utf8_lossy(&text);
        let message = crate::escape::escape(message.unwrap_or(text.trim()).as_bytes());
        let exit = match status {
            StatusCode::NOT_FOUND => Exit::NegativeResult,
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => Exit::NoResponse,
            _ => Exit::Rejected,
        };
        Err(Failure::new(exit, format!("the server says: {message}")))
    }

    /// Reads the whole body.
    pub(crate) async fn text(mut self, timeout: Duration) -> Result<Bytes, Failure> {
        let mut text = Vec::new();
        while let Some(part) = self.chunk(timeout).await? {
            text.extend_from_slice(&part);
            if text.len() > MAX_BYTES {
                return Err(incomplete_response("it is too long"));
            }
        }
        Ok(text.into())
    }

    /// Reads the whole body as JSON.
    pub(crate) async fn json(self, timeout: Duration) -> Result<serde_json::Value, Failure> {
        let text = self.text(timeout).await?;
        serde_json::from_slice(&text).map_err(|error| {
            Failure::new(
                Exit::NoResponse,
                format!("this is not an HTTP port of statestored: {error}"),
            )
        })
    }

    /// Returns the next part of the body; `None` at its end.
    pub(crate) async fn chunk(&mut self, timeout: Duration) -> Result<Option<Bytes>, Failure> {
        loop {
            let next = tokio::time::timeout(timeout, self.body.frame()).await;
            let next = next.map_err(|_| incomplete_response("nothing came in time"))?;
            match next
                .transpose()
                .map_err(|error| incomplete_response(&error.to_string()))?
            {
                None => return Ok(None),
                Some(frame) => {
                    if let Ok(part) = frame.into_data() {
                        return Ok(Some(part));
                    }
                }
            }
        }
    }
}

/// Returns the field that a server has rejected, as serde reports it.
fn unknown_field(message: &str) -> Option<&str> {
    let (field, _) = message.strip_prefix("unknown field `")?.split_once('`')?;
    Some(field)
}

fn incomplete_response(reason: &str) -> Failure {
    Failure::new(
        Exit::NoResponse,
        format!("the response is incomplete: {reason}"),
    )
}
