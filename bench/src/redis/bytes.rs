//! Bytes in memory and on the wire to a replica.

use core::time::Duration;

use slidegate::Quota;
use slidegate_testkit::server::RedisServer;

use super::subject::{Subject, SubjectKind};
use crate::Failure;
use crate::random::Random;
use crate::rounding::to_float;

/// Bytes by subject.
#[derive(Debug)]
pub(super) struct Bytes {
    pub(super) workload: String,
    /// What the bytes are for: a key, or a decision.
    pub(super) per: &'static str,
    pub(super) subjects: Vec<(SubjectKind, f64)>,
}

const SUBJECTS: [SubjectKind; 2] = [SubjectKind::Log, SubjectKind::SortedSet];

/// `MEMORY USAGE` of a key that `entries` requests came for, at random over the minute of its
/// window. Takes that minute, for all at the same time.
pub(super) async fn memory(server: &RedisServer, entries: &[u64]) -> Result<Vec<Bytes>, Failure> {
    let mut filling = tokio::task::JoinSet::new();
    for (place, entries) in entries.iter().copied().enumerate() {
        for which in SUBJECTS {
            let url = server.url();
            filling.spawn(async move {
                fill(which, &url, entries).await.map_err(|error| error.to_string())?;
                Ok::<_, String>((place, which))
            });
        }
    }
    let mut all: Vec<Bytes> = entries
        .iter()
        .map(|entries| Bytes {
            workload: format!("memory-{entries}"),
            per: "key",
            subjects: Vec::new(),
        })
        .collect();
    let mut connection = server.connection()?;
    while let Some(filled) = filling.join_next().await {
        let (place, which) = filled??;
        let first = first_key(entries[place])?;
        let mut total = 0_u64;
        for user in first..first + KEYS {
            total += usage(&mut connection, which, user)?;
        }
        all[place].subjects.push((which, to_float(total) / f64::from(KEYS)));
    }
    for bytes in &mut all {
        bytes.subjects.sort_by_key(|(which, _)| *which == SubjectKind::SortedSet);
    }
    Ok(all)
}

/// Keys whose bytes are averaged.
const KEYS: u32 = 20;

/// Twelve characters, as in a user name. The bytes of a key depend on the length of its name.
fn name(user: u32) -> String {
    format!("user:{user:07}")
}

fn first_key(entries: u64) -> Result<u32, Failure> {
    Ok(1000 * u32::try_from(entries)?)
}

async fn fill(which: SubjectKind, url: &str, entries: u64) -> Result<(), Failure> {
    let minute = Duration::from_secs(60);
    let subject = Subject::new(which, url, Quota::new(entries * 2, minute)?).await?;
    let first = first_key(entries)?;
    let mean = minute.as_secs_f64() * 0.95 / to_float(entries);
    let mut random = Random::new(7);
    let mut requests = Vec::new();
    // At times of its own for every key, as what a key takes goes in steps: the allocator has few sizes.
    for user in first..first + KEYS {
        let mut at = 0.0;
        for _ in 0..entries {
            // Exponential gaps: requests that know nothing of each other.
            at -= random.unit().ln() * mean;
            requests.push((Duration::from_secs_f64(at.min(58.0)), user));
        }
    }
    requests.sort();
    let began = tokio::time::Instant::now();
    for (number, (at, user)) in (0..).zip(requests) {
        tokio::time::sleep_until(began + at).await;
        subject.check(&name(user), number).await?;
    }
    Ok(())
}

fn usage(
    connection: &mut redis::Connection,
    which: SubjectKind,
    user: u32,
) -> Result<u64, Failure> {
    let key = name(user);
    let pattern = match which {
        SubjectKind::SortedSet => format!("zset:{key}"),
        ours => format!("sg:*:{};t{key}", ours.policy()),
    };
    let names: Vec<Vec<u8>> = redis::cmd("KEYS").arg(pattern).query(connection)?;
    let [name] = names.as_slice() else {
        return Err(format!("{} keys instead of one", names.len()).into());
    };
    Ok(redis::cmd("MEMORY").arg("USAGE").arg(name).arg("SAMPLES").arg(0).query(connection)?)
}

/// What a replica is sent for a decision that is allowed, with a hundred entries in the window.
pub(super) async fn replicated(server: &RedisServer) -> Result<Bytes, Failure> {
    // Keys of other workloads that expire meanwhile would be sent too.
    redis::cmd("FLUSHALL").exec(&mut server.connection()?)?;
    let replica = RedisServer::builder().replica_of(server).start()?;
    replica.wait_for_primary()?;
    let quota = Quota::new(100, Duration::from_millis(500))?;
    let mut subjects = Vec::new();
    for which in SUBJECTS {
        let subject = Subject::new(which, &server.url(), quota).await?;
        let (mut admitted, mut number) = (0_u64, 0);
        for _ in 0..200 {
            subject.check("alice", number).await?;
            number += 1;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let before = offset(server)?;
        for _ in 0..1000 {
            admitted += u64::from(subject.check("alice", number).await?);
            number += 1;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let sent = offset(server)? - before;
        subjects.push((which, to_float(sent) / to_float(admitted)));
    }
    Ok(Bytes { workload: "replicated".to_owned(), per: "allowed decision", subjects })
}

fn offset(server: &RedisServer) -> Result<u64, Failure> {
    Ok(server.info("replication", "master_repl_offset")?.parse()?)
}
