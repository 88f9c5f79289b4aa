//! Sends statistics to a StatsD server.

use std::collections::HashMap;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use cadence::{BufferedUdpMetricSink, MetricSink, StatsdClient, prelude::*};
use parking_lot::Mutex;
use slidegate_gate::BOUNDS;
use tracing::{info, warn};

use super::reference_statistics::ReferenceStatistics;
use crate::admin::ResultCounts;
use crate::config::{StatsdDialect, StatsdProtocol, StatsdSettings};
use crate::net::Stop;

/// The timeout for connecting and for writing.
const DEADLINE: Duration = Duration::from_secs(2);

/// Counters that are written together.
const CHUNK: usize = 64;

/// The statistic with the reply time of a call, in milliseconds.
const RESPONSE_TIME: &str = "ratelimit_server.ShouldRateLimit.response_time";

/// Sends the changes since the last time. Counts that could not be sent are sent the next time. Over
/// TCP, the [`CHUNK`] in which a connection breaks may arrive twice.
#[derive(Debug)]
pub(super) struct StatsdSender {
    settings: StatsdSettings,
    statistics: ReferenceStatistics,
    /// The values that were sent so far.
    sent: Mutex<Sent>,
    results: ResultCounts,
}

#[derive(Debug, Default)]
struct Sent {
    counters: HashMap<String, u64>,
    times: [u64; BOUNDS.len() + 1],
    /// Whether the last attempt failed, so that only changes are logged.
    has_failed: bool,
}

impl StatsdSender {
    pub(super) fn new(settings: &StatsdSettings, statistics: ReferenceStatistics) -> Self {
        let (name, help) = ("slidegate_statsd_flushes_total", "Attempts to send to StatsD.");
        let results = ResultCounts::new(name, help, &["ok", "failed"]);
        Self { settings: settings.clone(), statistics, sent: Mutex::default(), results }
    }

    /// Returns the counts of attempts.
    pub(super) fn results(&self) -> &ResultCounts {
        &self.results
    }

    /// Sends at every interval, and once at shutdown.
    pub(super) async fn run(self: Arc<Self>, stop: Stop) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(self.settings.interval) => {}
                () = stop.clone().wait() => {}
            }
            let sender = Arc::clone(&self);
            // Name resolution and writing are blocking calls.
            if tokio::task::spawn_blocking(move || sender.flush()).await.is_err() || stop.is_over()
            {
                return;
            }
        }
    }

    fn flush(&self) {
        let mut sent = self.sent.lock();
        let done = self.send(&mut sent);
        self.results.note(&done);
        let address = &self.settings.address;
        match (&done, sent.has_failed) {
            (Err(error), false) => {
                warn!("cannot send statistics to StatsD at {address}: {error}; retrying");
            }
            (Ok(()), true) => info!("statistics are sent to StatsD at {address} again"),
            _ => {}
        }
        sent.has_failed = done.is_err();
    }

    fn send(&self, sent: &mut Sent) -> Result<(), String> {
        let client = self.client().map_err(|error| error.to_string())?;
        let counters = self.statistics.counters();
        self.send_counters(&client, &counters, sent)?;
        let times = self.statistics.response_times();
        self.send_times(&client, &times, &sent.times)?;
        client.flush().map_err(|error| error.to_string())?;
        sent.times = times;
        Ok(())
    }

    /// Sends the changes of the counters in chunks, and notes each chunk when it is sent: if a later
    /// one fails, it is not sent again.
    fn send_counters(
        &self,
        client: &StatsdClient,
        counters: &[(String, u64)],
        sent: &mut Sent,
    ) -> Result<(), String> {
        for chunk in counters.chunks(CHUNK) {
            for (name, value) in chunk {
                let change = value.saturating_sub(sent.counters.get(name).copied().unwrap_or(0));
                if change > 0 {
                    let done = client.count_with_tags(&self.named(name), change).try_send();
                    done.map_err(|error| error.to_string())?;
                }
            }
            client.flush().map_err(|error| error.to_string())?;
            sent.counters.extend(chunk.iter().cloned());
        }
        // Counters of limits that are gone start at zero if they return.
        if sent.counters.len() > counters.len() {
            sent.counters = counters.iter().cloned().collect();
        }
        Ok(())
    }

    /// Sends one sample for all calls that took the same number of milliseconds, with a sample rate
    /// that gives their number.
    fn send_times(&self, client: &StatsdClient, times: &[u64], sent: &[u64]) -> Result<(), String> {
        let name = self.named(RESPONSE_TIME);
        let new: Vec<u64> =
            times.iter().zip(sent).map(|(now, then)| now.saturating_sub(*then)).collect();
        let mut counted = 0;
        for (index, below) in new.iter().enumerate() {
            let bound = BOUNDS.get(index).or(BOUNDS.last()).copied().unwrap_or_default();
            let next = BOUNDS.get(index + 1).copied().unwrap_or(u64::MAX);
            let millis = bound / 1_000_000;
            if next / 1_000_000 == millis || *below == counted {
                continue;
            }
            #[expect(clippy::cast_precision_loss, reason = "a rate is not exact")]
            let rate = 1.0 / (below - counted) as f64;
            let sample = client.time_with_tags(&name, millis).with_sampling_rate(rate);
            sample.try_send().map_err(|error| error.to_string())?;
            counted = *below;
        }
        Ok(())
    }

    /// Returns a name with the tags that are part of it.
    fn named(&self, name: &str) -> String {
        let mut name = name.to_owned();
        if self.settings.dialect == StatsdDialect::Statsd {
            for (tag, value) in self.tags() {
                name.extend([".__", tag, "=", value]);
            }
        }
        name
    }

    fn tags(&self) -> impl Iterator<Item = (&str, &str)> {
        self.settings.tags.iter().filter_map(|tag| tag.split_once(':'))
    }

    /// Connects again for every flush, so that a server that moves or restarts is found.
    fn client(&self) -> io::Result<StatsdClient> {
        let address = resolve(&self.settings.address)?;
        let mut builder = match self.settings.protocol {
            StatsdProtocol::Tcp => StatsdClient::builder("", TcpSink::connect(&address)?),
            StatsdProtocol::Udp => {
                let local = if address.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" };
                let sink = BufferedUdpMetricSink::from(address, UdpSocket::bind(local)?);
                StatsdClient::builder("", sink.map_err(io::Error::other)?)
            }
        };
        if self.settings.dialect == StatsdDialect::Dogstatsd {
            for (tag, value) in self.tags() {
                builder = builder.with_tag(tag, value);
            }
        }
        Ok(builder.build())
    }
}

fn resolve(address: &str) -> io::Result<SocketAddr> {
    let unknown = || io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
    address.to_socket_addrs()?.next().ok_or_else(unknown)
}

/// Writes one statistic per line to a connection, all at once when it is flushed. The lock is std's
/// because cadence requires it to be unwind safe.
struct TcpSink<W>(std::sync::Mutex<(W, Vec<u8>)>);

impl TcpSink<TcpStream> {
    fn connect(address: &SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(address, DEADLINE)?;
        stream.set_write_timeout(Some(DEADLINE))?;
        Ok(Self::new(stream))
    }
}

impl<W: Write> TcpSink<W> {
    fn new(stream: W) -> Self {
        Self(std::sync::Mutex::new((stream, Vec::new())))
    }
}

impl<W: Write> MetricSink for TcpSink<W> {
    fn emit(&self, metric: &str) -> io::Result<usize> {
        let (_, lines) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.extend_from_slice(metric.as_bytes());
        lines.push(b'\n');
        Ok(metric.len() + 1)
    }

    fn flush(&self) -> io::Result<()> {
        let (stream, lines) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        stream.write_all(lines)?;
        lines.clear();
        stream.flush()
    }
}

#[cfg(test)]
mod tests;
