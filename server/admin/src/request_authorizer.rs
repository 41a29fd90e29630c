//! The checks that every request passes before its path is considered, and the rights that result.
//!
//! | check | against |
//! |---|---|
//! | `Host` names an address of this port, `localhost`, or a configured name; checks of health in HTTP/1.0 need none | DNS rebinding |
//! | `Origin` is the same host, and `Sec-Fetch-Site` this site | requests that another page has a browser send |
//! | `Authorization: Bearer` has a token, never a cookie | the same, and clients without a token |
//! | no `Transfer-Encoding`, and no body but with POST | request smuggling |
use super::reply::{self, Reply};
use crate::config::{ActiveTokens, AdminConfig, TokenRole};
use hyper::header::{AUTHORIZATION, HOST, HeaderName, ORIGIN, TRANSFER_ENCODING, WWW_AUTHENTICATE};
use hyper::http::HeaderValue;
use hyper::http::request::Parts;
use hyper::http::uri::Authority;
use hyper::{Method, StatusCode, Version};
use std::net::{IpAddr, SocketAddr};

/// Header with the site from which a browser sends a request.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Rights of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AccessLevel {
    /// Learn whether the server is alive.
    Liveness,
    /// See metrics, and the reasons of health checks. The request had a token.
    Metrics,
    /// See metrics, and, where any local user may read all keys over MQTT, keys, values and clients. Local users need no token.
    Read,
    /// See everything. The request had a token.
    ReadAll,
    /// See everything and change something. The request had a token.
    Full,
}

impl AccessLevel {
    /// Returns whether the request certainly had a token. A token for metrics adds nothing to the rights of a local user.
    pub(super) fn is_of_token(self) -> bool {
        matches!(self, Self::Metrics | Self::ReadAll | Self::Full)
    }
}

impl From<TokenRole> for AccessLevel {
    fn from(role: TokenRole) -> Self {
        match role {
            TokenRole::Metrics => Self::Metrics,
            TokenRole::Read => Self::ReadAll,
            TokenRole::Operate => Self::Full,
        }
    }
}

/// A refusal of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestRefusal {
    status: StatusCode,
    reason: &'static str,
}

impl RequestRefusal {
    /// Returns the reason.
    pub(super) fn reason(&self) -> &'static str {
        self.reason
    }

    /// Creates the refusal of a request that needs a token.
    pub(super) fn unauthorized(why: &'static str) -> Self {
        Self {
            status: StatusCode::UNAUTHORIZED,
            reason: why,
        }
    }

    /// Creates the refusal of a request whose token has too few rights.
    pub(super) fn forbidden(why: &'static str) -> Self {
        Self {
            status: StatusCode::FORBIDDEN,
            reason: why,
        }
    }
}

impl From<RequestRefusal> for Reply {
    fn from(
        RequestRefusal {
            status,
            reason: why,
        }: RequestRefusal,
    ) -> Self {
        let mut reply = reply::text(status, why);
        if status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Bearer");
            reply.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        reply
    }
}

/// The checks of requests.
#[derive(Debug)]
pub(super) struct RequestAuthorizer {
    addresses: Vec<IpAddr>,
    hosts: Vec<String>,
    tokens: ActiveTokens,
}

impl RequestAuthorizer {
    pub(super) fn new(addresses: &[SocketAddr], config: AdminConfig) -> Self {
        Self {
            addresses: addresses.iter().map(SocketAddr::ip).collect(),
            hosts: config.hosts,
            tokens: config.tokens,
        }
    }

    /// Returns the rights of a request, or the reason why it is refused.
    pub(super) fn authorize(&self, request: &Parts) -> Result<AccessLevel, RequestRefusal> {
        let refuse = |status, why| {
            Err(RequestRefusal {
                status,
                reason: why,
            })
        };
        if request.version != Version::HTTP_11 && request.version != Version::HTTP_10 {
            return refuse(
                StatusCode::HTTP_VERSION_NOT_SUPPORTED,
                "HTTP/1.1 is spoken here\n",
            );
        }
        if request.headers.contains_key(TRANSFER_ENCODING) {
            let why = "a body needs a Content-Length, and no Transfer-Encoding\n";
            return refuse(StatusCode::LENGTH_REQUIRED, why);
        }
        if request.uri.authority().is_some() {
            return refuse(StatusCode::BAD_REQUEST, "this is not a proxy\n");
        }
        if is_load_balancer_probe(request) {
            return self.access_level(request);
        }
        let mut hosts = request.headers.get_all(HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else {
            return refuse(StatusCode::BAD_REQUEST, "one Host is needed\n");
        };
        if !self.serves_host(host) {
            let why = "this name is not served here; --http-host allows further ones\n";
            return refuse(StatusCode::MISDIRECTED_REQUEST, why);
        }
        if !is_same_origin(request, host) {
            let why = "another site has sent this request\n";
            return refuse(StatusCode::FORBIDDEN, why);
        }
        self.access_level(request)
    }

    /// Returns whether a `Host` is one of this server, with any port: a proxy may use another one.
    fn serves_host(&self, host: &HeaderValue) -> bool {
        let Ok(authority) = Authority::try_from(host.as_bytes()) else {
            return false;
        };
        if host.as_bytes().contains(&b'@') {
            return false;
        }
        let host = authority.host();
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        match bare.unwrap_or(host).parse::<IpAddr>() {
            // DNS rebinding needs a name, and this is an IP address.
            Ok(address) => {
                let mut own = self.addresses.iter();
                own.any(|own| own.is_unspecified() || *own == address)
            }
            Err(_) => {
                host.eq_ignore_ascii_case("localhost")
                    || self.hosts.iter().any(|it| it.eq_ignore_ascii_case(host))
            }
        }
    }

    fn access_level(&self, request: &Parts) -> Result<AccessLevel, RequestRefusal> {
        let mut given = request.headers.get_all(AUTHORIZATION).iter();
        let (first, second) = (given.next(), given.next());
        let without_token = if self.addresses.iter().all(IpAddr::is_loopback) {
            AccessLevel::Read
        } else {
            AccessLevel::Liveness
        };
        let Some(first) = first else {
            return Ok(without_token);
        };
        let given = bearer(first).filter(|_| second.is_none());
        match given.and_then(|given| self.tokens.role_of(given)) {
            // A token takes no rights away.
            Some(role) => Ok(without_token.max(role.into())),
            None => Err(RequestRefusal::unauthorized("this is not the token\n")),
        }
    }
}

/// Returns whether a request is the check of a load balancer, in HTTP/1.0 and without `Host`. Browsers always send `Host`.
fn is_load_balancer_probe(request: &Parts) -> bool {
    let headers = &request.headers;
    request.version == Version::HTTP_10
        && ["/healthz", "/readyz"].contains(&request.uri.path())
        && !headers.contains_key(HOST)
        && !headers.contains_key(ORIGIN)
}

fn bearer(authorization: &HeaderValue) -> Option<&[u8]> {
    let (scheme, token) = authorization.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then_some(token)
}

/// Returns whether the request does not come from a page of another site.
fn is_same_origin(request: &Parts, host: &HeaderValue) -> bool {
    let mut sites = request.headers.get_all(FETCH_SITE).iter();
    // A page opened from another site is shown; its own requests come from this site.
    let is_read = request.method == Method::GET || request.method == Method::HEAD;
    let is_here = sites.all(|site| {
        site == "same-origin" || (is_read && (site == "none" || is_navigation(request)))
    });
    let mut origins = request.headers.get_all(ORIGIN).iter();
    let is_own = origins.all(|origin| {
        let host = host.as_bytes();
        let origin = origin.as_bytes();
        [&b"http://"[..], b"https://"]
            .iter()
            .any(|scheme| origin.strip_prefix(*scheme) == Some(host))
    });
    is_here && is_own
}

/// Returns whether a user opens the page by a link.
fn is_navigation(request: &Parts) -> bool {
    let mode = request.headers.get("sec-fetch-mode");
    mode.is_some_and(|mode| mode == "navigate") && request.uri.path() == "/"
}
