//! Tests of `frame`.

use super::*;

/// Returns the frames of a stream that arrives in pieces of `size` bytes.
fn frames(stream: &[u8], size: usize) -> Vec<Vec<u8>> {
    let mut follower = Frames::default();
    let mut frames = Vec::new();
    let mut frame = Vec::new();
    for mut piece in stream.chunks(size) {
        while !piece.is_empty() {
            let part = follower.follow(piece);
            frame.extend_from_slice(&piece[..part.length]);
            piece = &piece[part.length..];
            if part.is_last {
                frames.push(core::mem::take(&mut frame));
            }
        }
    }
    assert!(frame.is_empty(), "{frame:?} is left over");
    frames
}

#[test]
fn finds_frames_in_pieces_of_any_size() {
    let expected: &[&[u8]] = &[
        b"+OK\r\n",
        b"-ERR a line that is longer than what is kept of it\r\n",
        b":12345\r\n",
        b"$5\r\na\r\nbc\r\n",
        b"$-1\r\n",
        b"$0\r\n\r\n",
        b"*0\r\n",
        b"*-1\r\n",
        b"*2\r\n$1\r\na\r\n*2\r\n:1\r\n$-1\r\n",
        b"%1\r\n+a\r\n*1\r\n:1\r\n",
        b"|1\r\n+ttl\r\n:1\r\n$1\r\nx\r\n",
        b">2\r\n+a\r\n+b\r\n",
        b"_\r\n",
    ];
    let stream = expected.concat();
    for size in 1..=stream.len() {
        assert_eq!(frames(&stream, size), expected, "in pieces of {size}");
    }
}

#[test]
fn other_protocols_are_forwarded_by_piece() {
    let mut follower = Frames::default();
    assert_eq!(follower.follow(b"\x16\x03\x01abc"), Part { length: 6, is_last: true });
    assert_eq!(follower.follow(b"$9"), Part { length: 2, is_last: true });
}
