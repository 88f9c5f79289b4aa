//! Tests of `parse`.

use super::*;

type Read = Option<(usize, Vec<Vec<u8>>)>;

fn read(input: &[u8]) -> Result<Read, Malformed> {
    let mut arguments = CommandArguments::default();
    let read = arguments.read(input)?;
    let all = (0..arguments.len()).map(|index| arguments.get(input, index).unwrap().to_vec());
    Ok(read.map(|used| (used, all.collect())))
}

#[test]
fn incomplete_commands_wait() {
    let input = b"*2\r\n$4\r\nPING\r\n$2\r\nhi\r\n*1\r\n";
    for end in 0..22 {
        assert_eq!(read(&input[..end]), Ok(None), "{end}");
    }
    let ping = vec![b"PING".to_vec(), b"hi".to_vec()];
    assert_eq!(read(input), Ok(Some((22, ping))));
}

#[test]
fn inline_commands_are_parsed() {
    let words = vec![b"sg.check".to_vec(), b"api".to_vec()];
    assert_eq!(read(b"  sg.check  api\r\nrest"), Ok(Some((17, words))));
    assert_eq!(read(b"\r\n"), Ok(Some((2, Vec::new()))));
    assert_eq!(read(b"sg.check"), Ok(None));
}

#[test]
fn rejects_malformed_commands() {
    for input in [
        &b"*x\r\n"[..],
        b"*1\r\n:1\r\n",
        b"*1\r\n$-1\r\n",
        b"*1\r\n$1\r\nab\r\n",
        b"*1\r\n$1\rx",
        b"*999999999999999999999\r\n",
        b"*99999999999999999999",
    ] {
        assert!(matches!(read(input), Err(Malformed::Protocol(_))), "{input:?}");
    }
    assert_eq!(read(b"*257\r\n"), Err(Malformed::TooMany));
    assert_eq!(read(b"*1\r\n$65537\r\n"), Err(Malformed::TooLong));
    assert_eq!(read(&vec![b'a'; ARGUMENT_MAX + 1]), Err(Malformed::TooLong));
    assert_eq!(
        read(&b"a ".repeat(300).into_iter().chain(*b"\n").collect::<Vec<_>>()),
        Err(Malformed::TooMany)
    );
}

#[test]
fn no_input_panics() {
    let pieces: [&[u8]; 10] =
        [b"*", b"$", b"\r", b"\n", b"\r\n", b"-", b"1", b"2", b"PING", b"\0\xff"];
    let mut state = 7u64;
    for _ in 0..200_000 {
        let mut input = Vec::new();
        for _ in 0..8 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            input.extend_from_slice(pieces[(state >> 33) as usize % pieces.len()]);
        }
        if let Ok(Some((used, _))) = read(&input) {
            assert!(used > 0 && used <= input.len());
        }
    }
}
