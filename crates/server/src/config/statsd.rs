//! Where statistics are sent.

use core::time::Duration;

use super::table::{section, words};

section! {
    /// Where statistics of Envoy's domains are sent, under the names of envoyproxy/ratelimit.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct StatsdSettings, STATSD = "StatsD" {
        /// The host and port of the server.
        address: String = Leaf(&HOST_AND_PORT), needed "nowhere", example "\"127.0.0.1:8125\"";
        /// How the server is reached. envoyproxy/ratelimit uses TCP.
        protocol: StatsdProtocol = Choice(StatsdProtocol::WORDS), default "udp", example "tcp";
        /// How tags are written: as part of the name, as envoyproxy/ratelimit does, or behind the value.
        dialect: StatsdDialect = Choice(StatsdDialect::WORDS), default "statsd",
            example "dogstatsd";
        /// How often counts are sent.
        interval: Duration = Time(SECOND, HOUR), default "10s", example "1m";
        /// Tags of every statistic.
        tags: Vec<String> = List(&Leaf(&TAG), 32), default "[]", example "[\"zone:eu\"]";
    }
}

words! {
    /// How a StatsD server is reached.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum StatsdProtocol {
        /// Datagrams, which may be lost.
        #[default]
        Udp = "udp",
        /// A connection.
        Tcp = "tcp",
    }
}

words! {
    /// How tags are written.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum StatsdDialect {
        /// `name.__zone=eu:1|c`
        #[default]
        Statsd = "statsd",
        /// `name:1|c|#zone:eu`
        Dogstatsd = "dogstatsd",
    }
}
