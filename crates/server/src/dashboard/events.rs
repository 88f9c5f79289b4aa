//! The state as server-sent events.

use core::convert::Infallible;
use core::pin::Pin;
use core::sync::atomic::Ordering;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use std::sync::Arc;

use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use hyper::body::Bytes;
use tokio::task::JoinHandle;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use super::document::{Document, View};
use super::{Dashboard, SUBSCRIBERS_MAX};
use crate::http::Connections;

/// The time between two events.
const EVERY: Duration = Duration::from_secs(1);
/// The longest life of a stream, after which the client connects again. It is shorter than the time
/// after which an idle connection is closed.
const LIFE_MAX: Duration = Duration::from_secs(45);

/// The body of a reply of the admin listener.
#[derive(Debug)]
pub enum DashboardBody {
    /// All at once.
    Full(Full<Bytes>),
    /// An event per second.
    Events(EventStream),
}

/// A client that receives events.
#[derive(Debug)]
pub struct EventStream {
    dashboard: Arc<Dashboard>,
    listeners: Vec<Arc<Connections>>,
    view: View,
    interval: Interval,
    until: Instant,
    /// The document of the next event, while it is written.
    writing: Option<JoinHandle<Option<Document>>>,
}

impl EventStream {
    /// Starts a stream. `None` if there are too many.
    pub(super) fn start(
        dashboard: &Arc<Dashboard>,
        listeners: &[Arc<Connections>],
        view: View,
    ) -> Option<Self> {
        let count = &dashboard.subscribers;
        let add = |count: usize| (count < SUBSCRIBERS_MAX).then_some(count + 1);
        count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok()?;
        let mut interval = interval(EVERY);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Some(Self {
            dashboard: Arc::clone(dashboard),
            listeners: listeners.to_vec(),
            view,
            interval,
            until: Instant::now() + LIFE_MAX,
            writing: None,
        })
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let writing = match &mut self.writing {
            Some(writing) => writing,
            None => {
                let now = ready!(self.interval.poll_tick(cx));
                if now >= self.until || self.dashboard.is_ending() {
                    return Poll::Ready(None);
                }
                self.dashboard.look();
                let dashboard = Arc::clone(&self.dashboard);
                let document = dashboard.document(self.listeners.clone(), self.view.clone());
                self.writing.insert(tokio::spawn(document))
            }
        };
        let written = ready!(Pin::new(writing).poll(cx));
        self.writing = None;
        // After a panic, the client connects again.
        let Ok(Some(Document { json, config })) = written else { return Poll::Ready(None) };
        // The client has the configuration now.
        self.view.config = config;
        Poll::Ready(Some(format!("data: {json}\n\n").into()))
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        self.dashboard.subscribers.fetch_sub(1, Ordering::Relaxed);
        // The document has no reader any more. One that waits for its turn is not written.
        if let Some(writing) = &self.writing {
            writing.abort();
        }
    }
}

impl From<Full<Bytes>> for DashboardBody {
    fn from(body: Full<Bytes>) -> Self {
        Self::Full(body)
    }
}

impl Body for DashboardBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Self::Full(body) => Pin::new(body).poll_frame(cx),
            Self::Events(events) => {
                events.poll(cx).map(|event| event.map(|event| Ok(Frame::data(event))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Full(body) => body.is_end_stream(),
            Self::Events(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(body) => body.size_hint(),
            Self::Events(_) => SizeHint::default(),
        }
    }
}
