//! Throughput while many idle connections are open.

use core::time::Duration;
use std::net::Ipv4Addr;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpStream;

use super::closed;
use super::load_client::LoadClient;
use super::program::Programs;
use super::subject::ServerKind;
use super::workload::Protocol;
use crate::Failure;
use crate::progress;
use crate::rounding::to_float;
use crate::summary::Summary;

/// The results.
#[derive(Debug, Clone, Copy)]
pub(super) struct Idle {
    pub(super) which: ServerKind,
    pub(super) connections: usize,
    pub(super) per_second: Summary,
    /// To the same server without idle connections, in the same round.
    pub(super) ratio: Summary,
    /// Resident memory for each connection, in bytes.
    pub(super) bytes_each: f64,
}

/// Connections that are wanted, and files that a process needs besides.
const CONNECTIONS: u64 = 8000;
const OTHER_FILES: u64 = 300;

/// Raises the limit of open files, which servers inherit, as far as it goes.
pub(super) fn room() -> Result<usize, Failure> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = CONNECTIONS + OTHER_FILES;
    let reached = maximum.map_or(wanted, |maximum| maximum.min(wanted)).max(current.unwrap_or(0));
    setrlimit(Resource::Nofile, Rlimit { current: Some(reached), maximum })?;
    let connections = reached.saturating_sub(OTHER_FILES).min(CONNECTIONS);
    if connections < CONNECTIONS {
        progress::say(&format!("server: at most {reached} open files, so {connections} idle"));
    }
    Ok(usize::try_from(connections)?)
}

/// In turn with and without them.
pub(super) async fn measure(
    which: ServerKind,
    programs: &Programs,
    workers: usize,
    rounds: usize,
    time: Duration,
) -> Result<Idle, Failure> {
    let connections = room()?;
    let wrapper = super::process::Wrapper::None;
    let free = which.start(programs, workers, wrapper).await?;
    let busy = which.start(programs, workers, wrapper).await?;
    let mut free_lines = LoadClient::open_all(which, Protocol::Http, &free).await?;
    let mut busy_lines = LoadClient::open_all(which, Protocol::Http, &busy).await?;
    closed::lap(&mut free_lines, &free, time).await?;
    closed::lap(&mut busy_lines, &busy, time).await?;
    let before = busy.resident()?;
    let mut idle = Vec::with_capacity(connections);
    while idle.len() < connections {
        idle.push(TcpStream::connect((Ipv4Addr::LOCALHOST, busy.ports.http)).await?);
    }
    // A reply on the last one shows that all before it were accepted.
    drop(LoadClient::open_one(which, Protocol::Http, &busy).await?.ask().await);
    let after = busy.resident()?;
    let (mut per_second, mut ratios) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let mut laps = [0.0; 2];
        for turn in 0..2 {
            let place = (round + turn) % 2;
            let (lines, server) =
                if place == 0 { (&mut free_lines, &free) } else { (&mut busy_lines, &busy) };
            laps[place] = closed::lap(lines, server, time).await?.asks_per_second;
        }
        per_second.push(laps[1]);
        ratios.push(laps[1] / laps[0]);
    }
    let none = "no round was run";
    Ok(Idle {
        which,
        connections,
        per_second: Summary::of(per_second).ok_or(none)?,
        ratio: Summary::of(ratios).ok_or(none)?,
        bytes_each: to_float(after.saturating_sub(before)) / to_float(connections.max(1) as u64),
    })
}
