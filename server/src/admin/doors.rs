//! Connections to the HTTP port: few, and none that stays silent for long or blocks others.
use super::body::Content;
use super::gate::{Gate, Rights};
use super::places::{self, Answering, Places, Seat};
use super::reply;
use super::routes::{self, Room};
use hyper::body::{Body, Incoming};
use hyper::header::CONNECTION;
use hyper::http::HeaderValue;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, sleep, sleep_until};

/// Time limit for the head of a request.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Time after which an idle connection is closed.
const SILENCE: Duration = Duration::from_secs(30);
/// Maximum length of the head of a request, and maximum number of its lines.
const MOST_HEAD_BYTES: usize = 16 * 1024;
const MOST_HEADERS: usize = 64;
/// Pause of accepting after a failure, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves the port until the server has stopped.
pub(super) async fn serve(listeners: Vec<TcpListener>, gate: Rc<Gate>, room: Rc<Room>) {
    let listeners = listeners.into_iter().map(tokio::net::TcpListener::from_std);
    let listeners = match listeners.collect::<io::Result<Vec<_>>>() {
        Ok(listeners) => listeners,
        Err(error) => return tracing::error!(%error, "the HTTP port cannot be served"),
    };
    let mut connections = JoinSet::new();
    let places = Places::default();
    let mut events = std::pin::pin!(room.tell_viewers());
    let mut report = std::pin::pin!(room.trail.report_lines_left_out());
    loop {
        tokio::select! {
            () = room.ended() => return,
            () = &mut events => {}
            () = &mut report => {}
            Some(_) = connections.join_next() => {}
            accepted = accept(&listeners) => match accepted {
                Ok((stream, address)) => {
                    let made = places.make_room();
                    if made != places::Room::Free {
                        room.refused_connection();
                    }
                    if made != places::Room::None {
                        places.take(address.ip(), |seat| {
                            let (gate, room) = (Rc::clone(&gate), Rc::clone(&room));
                            let conversation = converse(stream, address, seat, gate, room);
                            connections.spawn_local(conversation)
                        });
                    }
                    if made == places::Room::Given {
                        // Lets every accepted connection run once before another one takes its place, however many
                        // arrive.
                        yield_now().await;
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection to the HTTP port");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// Accepts the next connection at any of the addresses.
async fn accept(listeners: &[tokio::net::TcpListener]) -> io::Result<(TcpStream, SocketAddr)> {
    poll_fn(|context| {
        let mut polled = listeners.iter().map(|it| it.poll_accept(context));
        polled.find(Poll::is_ready).unwrap_or(Poll::Pending)
    })
    .await
}

/// Answers the requests of one connection.
async fn converse(
    stream: TcpStream,
    peer: SocketAddr,
    seat: Rc<Seat>,
    gate: Rc<Gate>,
    room: Rc<Room>,
) {
    let answer = service_fn(|request: Request<Incoming>| {
        let (gate, room, seat) = (Rc::clone(&gate), Rc::clone(&room), Rc::clone(&seat));
        async move {
            let (parts, body) = request.into_parts();
            let judged = gate.judge(&parts);
            let has_token = judged.is_ok_and(|rights| rights == Rights::Everything);
            let answering = seat.answering(has_token);
            let reply = routes::answer(peer, &parts, body, (judged, &answering), &room).await;
            Ok::<_, Infallible>(watched(reply, answering))
        }
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_header_size(MOST_HEAD_BYTES)
        .max_buf_size(MOST_HEAD_BYTES)
        .max_headers(MOST_HEADERS);
    let conversation = builder.serve_connection(TokioIo::new(stream), answer);
    tokio::select! {
        ended = conversation => if let Err(error) = ended {
            tracing::debug!(%error, "a connection to the HTTP port ended");
        },
        () = silence(&seat) => {}
    }
}

/// Waits until the connection has been idle for too long.
async fn silence(seat: &Seat) {
    loop {
        let due = seat.moved() + SILENCE;
        if Instant::now() >= due {
            return;
        }
        sleep_until(due).await;
    }
}

/// Wraps a response, so that the connection counts as active when a part of it is taken.
fn watched(reply: reply::Reply, answering: Answering) -> Response<Watched> {
    let is_refused_unread = matches!(
        reply.status(),
        StatusCode::BAD_REQUEST | StatusCode::LENGTH_REQUIRED | StatusCode::PAYLOAD_TOO_LARGE
    );
    let mut reply = reply.map(|content| Watched { content, answering });
    if is_refused_unread {
        // The bytes that follow may be part of the refused body, so that they cannot be read as a request.
        let close = HeaderValue::from_static("close");
        reply.headers_mut().insert(CONNECTION, close);
    }
    reply
}

struct Watched {
    content: Content,
    answering: Answering,
}

impl Body for Watched {
    type Data = <Content as Body>::Data;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<hyper::body::Frame<Self::Data>>>> {
        let next = Pin::new(&mut self.content).poll_frame(context);
        if next.is_ready() {
            self.answering.moves();
        }
        next
    }

    fn is_end_stream(&self) -> bool {
        self.content.is_end_stream()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        self.content.size_hint()
    }
}
