//! The frames that a client sends over HTTP/2.
//!
//! SETTINGS and PING frames are acknowledged and `WINDOW_UPDATE` frames are processed, but none of
//! them is a request, so a client could keep a server busy with them forever. This module counts
//! them, and a client that sends many of them without requests is disconnected.

use super::timeouts::Activity;

/// The first bytes of every HTTP/2 client.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The length of a frame's head.
const HEAD: usize = 9;

/// Control frames that a client may send without a request.
const CONTROL_MAX: u32 = 1024;

/// Control frames that a client may send per request, or per end of a request. A client that grants
/// a window for each reply and sends a ping with it sends about four.
const CONTROL_PER_EVENT: u64 = 16;

/// Follows the frames of a connection. Does nothing if the client does not use HTTP/2.
#[derive(Debug, Default)]
pub(super) struct Frames {
    state: State,
    /// Control frames since `events` was read.
    control: u32,
    events: u64,
}

#[derive(Debug, Default)]
enum State {
    /// This many bytes of the preface have arrived.
    Preface(usize),
    #[default]
    Start,
    /// This many bytes of a frame's head have arrived.
    Head(usize, [u8; HEAD]),
    /// This many bytes of a frame's payload are missing.
    Payload(usize),
    NotHttp2,
}

/// The client sent too many control frames.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Flooded;

impl Frames {
    /// Follows the next bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if the client floods the server with control frames.
    #[inline]
    pub(super) fn read(&mut self, bytes: &[u8], activity: &Activity) -> Result<(), Flooded> {
        if matches!(self.state, State::NotHttp2) { Ok(()) } else { self.follow(bytes, activity) }
    }

    fn follow(&mut self, mut bytes: &[u8], activity: &Activity) -> Result<(), Flooded> {
        while !bytes.is_empty() {
            match &mut self.state {
                State::NotHttp2 => return Ok(()),
                State::Start => self.state = State::Preface(0),
                State::Preface(known) => {
                    let rest = &PREFACE[*known..];
                    let length = rest.len().min(bytes.len());
                    if rest[..length] != bytes[..length] {
                        self.state = State::NotHttp2;
                        return Ok(());
                    }
                    bytes = &bytes[length..];
                    *known += length;
                    if *known == PREFACE.len() {
                        self.state = State::Head(0, [0; HEAD]);
                    }
                }
                State::Head(known, head) => {
                    let length = (HEAD - *known).min(bytes.len());
                    head[*known..*known + length].copy_from_slice(&bytes[..length]);
                    bytes = &bytes[length..];
                    *known += length;
                    if *known == HEAD {
                        let head = *head;
                        self.state = match payload(head) {
                            0 => State::Head(0, [0; HEAD]),
                            length => State::Payload(length),
                        };
                        self.note(head, activity)?;
                    }
                }
                State::Payload(left) => {
                    let length = (*left).min(bytes.len());
                    bytes = &bytes[length..];
                    *left -= length;
                    if *left == 0 {
                        self.state = State::Head(0, [0; HEAD]);
                    }
                }
            }
        }
        Ok(())
    }

    fn note(&mut self, head: [u8; HEAD], activity: &Activity) -> Result<(), Flooded> {
        const DATA: u8 = 0;
        const HEADERS: u8 = 1;
        const SETTINGS: u8 = 4;
        const CONTINUATION: u8 = 9;
        const ACK: u8 = 1;
        let (kind, flags) = (head[3], head[4]);
        if kind == SETTINGS && flags & ACK != 0 {
            activity.note_open();
        }
        // The library bounds the frames of a head.
        if matches!(kind, HEADERS | CONTINUATION) || kind == DATA && payload(head) > 0 {
            return Ok(());
        }
        self.control += 1;
        if self.control > CONTROL_MAX {
            let events = activity.events();
            let allowed = events.wrapping_sub(self.events).saturating_mul(CONTROL_PER_EVENT);
            if u64::from(self.control) > allowed {
                return Err(Flooded);
            }
            (self.control, self.events) = (0, events);
        }
        Ok(())
    }
}

fn payload(head: [u8; HEAD]) -> usize {
    usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2])
}

#[cfg(test)]
mod tests;
