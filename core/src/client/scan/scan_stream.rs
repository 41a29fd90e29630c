//! The SCAN request as a stream.
use super::Scan;
use crate::error::Error;
use bytes::Bytes;
use futures_core::Stream;
use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, ready};

/// A stream of the keys that a [`Scan`] finds. It ends after the last key, and after an error.
#[derive(Debug)]
pub struct ScanStream {
    keys: VecDeque<Bytes>,
    pages: PageState,
}

/// Future of [`Scan::next_page`] that returns the scan together with the page.
type PageFuture = Pin<Box<dyn Future<Output = (Scan, Result<Option<Vec<Bytes>>, Error>)> + Send>>;

enum PageState {
    /// The next page is under way. The lock is never contended: it makes the stream `Sync`, which its future is not.
    Loading(Mutex<PageFuture>),
    End,
}

impl fmt::Debug for PageState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loading(_) => "UnderWay",
            Self::End => "End",
        })
    }
}

impl PageState {
    /// Starts with the next page of `scan`. No request is sent before the future is polled.
    fn start(mut scan: Scan) -> Self {
        let page: PageFuture = Box::pin(async move {
            let page = scan.next_page().await;
            (scan, page)
        });
        Self::Loading(Mutex::new(page))
    }
}

impl Scan {
    /// Converts the scan into a stream of its remaining keys.
    pub fn into_stream(self) -> ScanStream {
        ScanStream {
            keys: VecDeque::new(),
            pages: PageState::start(self),
        }
    }
}

impl Stream for ScanStream {
    type Item = Result<Bytes, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(key) = self.keys.pop_front() {
                return Poll::Ready(Some(Ok(key)));
            }
            let PageState::Loading(page) = &mut self.pages else {
                return Poll::Ready(None);
            };
            let page = page.get_mut().unwrap_or_else(PoisonError::into_inner);
            let (scan, page) = ready!(page.as_mut().poll(context));
            match page {
                Ok(Some(keys)) => {
                    self.keys = keys.into();
                    self.pages = PageState::start(scan);
                }
                Ok(None) => self.pages = PageState::End,
                Err(error) => {
                    self.pages = PageState::End;
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }
}
