//! Tests of `statsd`.

use std::sync::mpsc::{Sender, channel};

use super::*;
use crate::engine::Engine;
use crate::gates::NoRestore;
use crate::spec::Spec;

/// A connection that breaks after some writes.
struct Breaks {
    writes: usize,
    received: Sender<Vec<u8>>,
}

impl Write for Breaks {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        self.writes = self.writes.checked_sub(1).ok_or_else(broken)?;
        self.received.send(bytes.to_vec()).map_err(|_| broken())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_connection_that_breaks_between_writes_counts_nothing_twice() {
    let engine = Arc::new(Engine::new(&Spec::default(), &mut NoRestore).unwrap());
    let reloads = Arc::new(ResultCounts::new("reloads", "Reloads.", &["ok", "failed"]));
    let statistics = ReferenceStatistics { engine, reloads };
    let sender = StatsdSender::new(&StatsdSettings::default(), statistics);
    // As long as names of Envoy's descriptors may be.
    let name = |number: u64| format!("counter{number}.{}", "x".repeat(500));
    let counters: Vec<_> = (1..=200).map(|number| (name(number), number)).collect();
    let (received, lines) = channel();
    let mut sent = Sent::default();
    for writes in [2, usize::MAX] {
        let sink = TcpSink::new(Breaks { writes, received: received.clone() });
        let client = StatsdClient::from_sink("", sink);
        let done = sender.send_counters(&client, &counters, &mut sent);
        assert_eq!(done.is_ok(), writes > 2, "{done:?}");
    }
    drop(received);

    let text = String::from_utf8(lines.iter().flatten().collect()).unwrap();
    let mut sums: HashMap<String, u64> = HashMap::new();
    for line in text.lines() {
        let (name, value) = line.split_once(':').unwrap();
        *sums.entry(name.to_owned()).or_default() +=
            value.strip_suffix("|c").unwrap().parse::<u64>().unwrap();
    }
    assert_eq!(sums, counters.into_iter().collect());
}
