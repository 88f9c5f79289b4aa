//! A stream that records the activity of a client.

use core::pin::Pin;
use core::task::{Context, Poll};
use std::io::{self, IoSlice};
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::frames::Frames;
use super::timeouts::Activity;

/// A plain-text stream whose reads and writes are recorded in an [`Activity`]. It fails if the
/// client floods it with HTTP/2 control frames.
#[derive(Debug)]
pub(crate) struct ObservedStream<S> {
    stream: S,
    activity: Arc<Activity>,
    frames: Frames,
}

impl<S> ObservedStream<S> {
    pub(crate) fn new(stream: S, activity: Arc<Activity>) -> Self {
        Self { stream, activity, frames: Frames::default() }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ObservedStream<S> {
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(cx, buffer);
        if let Some(bytes) = buffer.filled().get(before..).filter(|bytes| !bytes.is_empty()) {
            this.activity.note_read();
            if this.frames.read(bytes, &this.activity).is_err() {
                this.activity.note_flood();
                return Poll::Ready(Err(io::Error::other("too many HTTP/2 control frames")));
            }
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ObservedStream<S> {
    #[inline]
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.activity.note_write(written.is_pending());
        written
    }

    #[inline]
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.activity.note_write(written.is_pending());
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        // TLS buffers written data, so a client that does not read may be detected only here.
        self.activity.note_write(flushed.is_pending());
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
