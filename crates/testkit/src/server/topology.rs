//! The primaries and replicas of a cluster, as one of its nodes sees them.

use super::ServerError;

/// A node's reply to `CLUSTER NODES`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Topology {
    members: Vec<Member>,
}

/// One line of it.
#[derive(Debug, PartialEq, Eq)]
struct Member {
    id: String,
    port: u16,
    is_primary: bool,
    has_failed: bool,
    /// The primary of a replica.
    follows: Option<String>,
    /// First and last slot, both included.
    slots: Vec<(u16, u16)>,
}

impl Topology {
    pub(super) fn parse(text: &str) -> Result<Self, ServerError> {
        let member = |line: &str| {
            parse_line(line).ok_or_else(|| {
                ServerError::new(format!("cannot read this line of CLUSTER NODES: {line}"))
            })
        };
        let members = text.lines().map(member).collect::<Result<_, _>>()?;
        Ok(Self { members })
    }

    /// Returns the port of the primary of a slot.
    pub(super) fn primary_of(&self, slot: u16) -> Option<u16> {
        let answers = |member: &&Member| {
            let holds = member.slots.iter().any(|(first, last)| (*first..=*last).contains(&slot));
            member.is_primary && !member.has_failed && holds
        };
        self.members.iter().find(answers).map(|member| member.port)
    }

    /// Returns the ports of the replicas of the primary on `port`.
    pub(super) fn replicas_of(&self, port: u16) -> Vec<u16> {
        let Some(primary) = self.members.iter().find(|member| member.port == port) else {
            return Vec::new();
        };
        let follows =
            |member: &&Member| !member.has_failed && member.follows.as_ref() == Some(&primary.id);
        self.members.iter().filter(follows).map(|member| member.port).collect()
    }

    /// Returns the ports of the primaries with slots that have not failed.
    pub(super) fn primaries(&self) -> Vec<u16> {
        let serves =
            |member: &&Member| member.is_primary && !member.has_failed && !member.slots.is_empty();
        self.members.iter().filter(serves).map(|member| member.port).collect()
    }
}

/// Parses `ID HOST:PORT@BUS FLAGS PRIMARY PING PONG EPOCH LINK SLOT...`.
fn parse_line(line: &str) -> Option<Member> {
    let mut words = line.split_ascii_whitespace();
    let id = words.next()?.to_owned();
    let (_, address) = words.next()?.split_once(':')?;
    let port = address.split('@').next()?.parse().ok()?;
    let flags: Vec<&str> = words.next()?.split(',').collect();
    let follows = words.next().filter(|id| *id != "-").map(str::to_owned);
    let slots = words.skip(4).filter_map(parse_slots).collect();
    Some(Member {
        id,
        port,
        is_primary: flags.contains(&"master"),
        has_failed: flags.contains(&"fail"),
        follows,
        slots,
    })
}

/// Parses `7`, `0-5460`. Migrating slots, in brackets, are ignored.
fn parse_slots(word: &str) -> Option<(u16, u16)> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    Some((first.parse().ok()?, last.parse().ok()?))
}

#[cfg(test)]
mod tests;
