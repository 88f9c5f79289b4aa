//! Files of timed requests and the decisions that are expected of them.

mod read;
mod table;

use core::net::IpAddr;
use core::time::Duration;
use std::path::PathBuf;

use slidegate::Cost;

pub use read::read;

/// A file of tests.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// The configuration under test, if the file names one.
    pub config: Option<PathBuf>,
    /// What is to be tried, each with fresh counts.
    pub tests: Vec<Test>,
}

/// Requests at their times, one after another.
#[derive(Debug, Clone, PartialEq)]
pub struct Test {
    /// What it shows.
    pub name: String,
    /// In the order of time.
    pub steps: Vec<Step>,
}

/// One request, or several alike.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// When, from the start of the test.
    pub at: Duration,
    /// What is asked.
    pub ask: Asked,
    /// How often, one after another.
    pub times: u32,
    /// What is expected of each.
    pub expect: Expected,
    /// Where it stands: the line of the file.
    pub line: usize,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub enum Asked {
    /// A policy, about a key.
    Policy {
        /// The policy.
        policy: String,
        /// The key.
        key: String,
        /// The tier of the key.
        tier: Option<String>,
        /// Units.
        cost: Cost,
    },
    /// The rules, about a request.
    Request(HttpRequest),
    /// A domain, about descriptors: lists of keys and values.
    Descriptors {
        /// The domain.
        domain: String,
        /// Each a list of entries.
        descriptors: Vec<Vec<(String, String)>>,
        /// Units.
        hits: u32,
    },
}

/// A request as a proxy would tell it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpRequest {
    /// In capital letters.
    pub method: String,
    /// Without a query.
    pub path: String,
    /// Without a port.
    pub host: String,
    /// The client's.
    pub address: IpAddr,
    /// Names in small letters.
    pub headers: Vec<(String, String)>,
}

/// What is expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// Whether it is allowed.
    pub allowed: bool,
    /// Units left afterwards, in the tightest quota.
    pub remaining: Option<u64>,
    /// How long to wait, of a denied one.
    pub retry_after: Option<Duration>,
}

impl HttpRequest {
    /// A `GET` of a path from a documentation address.
    pub fn get(path: &str) -> Self {
        Self {
            method: "GET".to_owned(),
            path: path.to_owned(),
            host: "localhost".to_owned(),
            address: IpAddr::from([192, 0, 2, 1]),
            headers: Vec::new(),
        }
    }

    /// All values of a header.
    pub fn header<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let same = move |(known, _): &&(String, String)| known.eq_ignore_ascii_case(name);
        self.headers.iter().filter(same).map(|(_, value)| value.as_str())
    }
}
