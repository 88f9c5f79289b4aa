//! Whether a client has begun to speak.

use core::pin::Pin;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Context, Poll};
use std::io::{self, IoSlice};
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream that counts the bytes that came, until they are enough.
#[derive(Debug)]
pub(super) struct Opening<S> {
    stream: S,
    opened: Opened,
    is_done: bool,
}

/// Whether they were enough.
#[derive(Debug, Clone, Default)]
pub(super) struct Opened(Arc<AtomicUsize>);

/// What every client says first. Before it, the library asks nobody whether they are there.
const PREFACE_LEN: usize = 24;

impl<S> Opening<S> {
    pub(super) fn new(stream: S) -> (Self, Opened) {
        let opened = Opened::default();
        (Self { stream, opened: opened.clone(), is_done: false }, opened)
    }
}

impl Opened {
    pub(super) fn is_done(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= PREFACE_LEN
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Opening<S> {
    #[inline]
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if !self.is_done {
            self.opened.0.fetch_add(buffer.filled().len() - before, Ordering::Relaxed);
            self.is_done = self.opened.is_done();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Opening<S> {
    #[inline]
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    #[inline]
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
