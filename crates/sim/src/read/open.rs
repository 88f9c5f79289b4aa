//! Opens files and standard input, compressed or not.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Bytes that are read at once.
const BUFFER: usize = 128 * 1024;

type Stream = Box<dyn BufRead + Send>;

/// Opens a path, `-` for standard input. What it contains is decompressed if it is gzip or zstd. Bytes are
/// counted as they are read, before decompression.
pub(crate) fn open(path: &Path, read: &Arc<AtomicU64>) -> io::Result<Stream> {
    let from: Box<dyn Read + Send> =
        if path.as_os_str() == "-" { Box::new(io::stdin()) } else { Box::new(File::open(path)?) };
    let counted = CountedRead { from, read: Arc::clone(read) };
    let mut stream = BufReader::with_capacity(BUFFER, counted);
    // The first read of a pipe can be shorter, but not shorter than a magic number in practice.
    let start = stream.fill_buf()?;
    if start.starts_with(&[0x1f, 0x8b]) {
        return Ok(buffered(MultiGzDecoder::new(stream)));
    }
    if start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        return Ok(buffered(ZstdFrames {
            frame: FrameDecoder::new(),
            is_open: false,
            from: stream,
        }));
    }
    Ok(Box::new(stream))
}

fn buffered(from: impl Read + Send + 'static) -> Stream {
    Box::new(BufReader::with_capacity(BUFFER, from))
}

/// Counts the bytes that are read.
struct CountedRead {
    from: Box<dyn Read + Send>,
    read: Arc<AtomicU64>,
}

impl Read for CountedRead {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buffer)?;
        // A progress bar reads it, which needs no order.
        self.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// Decompresses all frames of a zstd stream.
struct ZstdFrames<R> {
    frame: FrameDecoder,
    /// Whether `frame` has something to decode.
    is_open: bool,
    from: R,
}

impl<R: BufRead> ZstdFrames<R> {
    /// Begins the next frame. Returns `false` at the end of the stream.
    fn begin(&mut self) -> io::Result<bool> {
        use FrameDecoderError::ReadFrameHeaderError as Header;
        while !self.from.fill_buf()?.is_empty() {
            match self.frame.init(&mut self.from) {
                Ok(()) => return Ok(true),
                Err(Header(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    io::copy(&mut self.from.by_ref().take(length.into()), &mut io::sink())?;
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Ok(false)
    }
}

impl<R: BufRead> Read for ZstdFrames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.is_open {
                if !self.begin()? {
                    return Ok(0);
                }
                self.is_open = true;
            }
            while self.frame.can_collect() == 0 && !self.frame.is_finished() {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                self.frame.decode_blocks(&mut self.from, one).map_err(io::Error::other)?;
            }
            match self.frame.read(buffer)? {
                0 => self.is_open = false,
                count => return Ok(count),
            }
        }
    }
}
