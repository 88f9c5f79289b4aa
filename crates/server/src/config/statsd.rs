//! The StatsD server for statistics.

use core::time::Duration;

use super::table::{keywords, section};

section! {
    /// The StatsD server for statistics of Envoy's domains, under the names of
    /// envoyproxy/ratelimit.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct StatsdSettings, STATSD = "StatsD" {
        /// The host and port of the server.
        address: String = Leaf(&HOST_AND_PORT), needed "nowhere", example "\"127.0.0.1:8125\"";
        /// The protocol to the server. envoyproxy/ratelimit uses TCP. If a connection breaks, up to 64
        /// counters may be counted twice.
        protocol: StatsdProtocol = Choice(StatsdProtocol::KEYWORDS), default "udp", example "tcp";
        /// The format of tags: part of the name, as in envoyproxy/ratelimit, or after the value.
        dialect: StatsdDialect = Choice(StatsdDialect::KEYWORDS), default "statsd",
            example "dogstatsd";
        /// The interval at which counts are sent.
        interval: Duration = Time(SECOND, HOUR), default "10s", example "1m";
        /// Tags of every statistic.
        tags: Vec<String> = List(&Leaf(&TAG), 32), default "[]", example "[\"zone:eu\"]";
    }
}

keywords! {
    /// The protocol to a StatsD server.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum StatsdProtocol {
        /// Datagrams, which may be lost.
        #[default]
        Udp = "udp",
        /// A connection.
        Tcp = "tcp",
    }
}

keywords! {
    /// The format of tags.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum StatsdDialect {
        /// `name.__zone=eu:1|c`
        #[default]
        Statsd = "statsd",
        /// `name:1|c|#zone:eu`
        Dogstatsd = "dogstatsd",
    }
}
