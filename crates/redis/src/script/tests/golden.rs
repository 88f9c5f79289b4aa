//! The codes of a log as Lua writes and reads them.

use super::super::{Clock, Kind, text};
use super::Server;

/// A script that ends here makes what writes and reads codes, and uses it.
const MAIN: &str = "
local codes = log_codes(kit(us, SLACK))
local code = codes.write(tonumber(ARGV[1]), tonumber(ARGV[2]))
local units, gap, bytes = codes.read(ARGV[3], 1)
return { code, string.format('%.0f %.0f %.0f', units, gap, bytes) }
";

// A byte that differs would make a log unreadable for the other side, or read as other times.
#[test]
fn lua_has_the_golden_bytes() {
    let server = Server::start();
    let mut connection = server.connect();
    // The short cut would take the first argument for an ask.
    let script = text(Kind::Log, Clock::Server, MAIN).replacen("repeat", "while false do", 1);
    let script = redis::Script::new(&script.replacen("until true", "end", 1));
    let golden = include_str!("../../../../../conformance/golden/log-codes.txt");
    for line in golden.lines().filter(|line| !line.starts_with('#')) {
        let [units, gap, hex] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        let pairs = (0..hex.len()).step_by(2).map(|at| &hex[at..at + 2]);
        let bytes: Vec<u8> = pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect();
        let (code, read): (Vec<u8>, String) =
            script.arg(units).arg(gap).arg(&bytes).invoke(&mut connection).unwrap();
        assert_eq!(code, bytes, "{line}");
        assert_eq!(read, format!("{units} {gap} {}", bytes.len()), "{line}");
    }
}
