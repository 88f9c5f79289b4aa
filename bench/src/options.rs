//! The command line.

use crate::Failure;

/// The text of `--help`.
pub(crate) const HELP: &str = "\
usage: slidegate-bench inproc [--json] [--quick] [WORKLOAD]
       slidegate-bench memory [--json] [WORKLOAD]
       slidegate-bench holds [--json]
       slidegate-bench over [--json] [--quick]
       slidegate-bench redis [--json] [--quick]
       slidegate-bench faults [--json] [FAULT]
       slidegate-bench outages [--json] [SCHEDULES]
       slidegate-bench instructions [--json] [--record | --compare]
       slidegate-bench tower [--json] [--quick]
       slidegate-bench server [--json] [--quick]
       slidegate-bench dashboard [--json]
       slidegate-bench soak [--json] [--minutes N]

inproc        time of a check, compared with peers and a floor
memory        resident memory after one window of filling and three of churn
holds         the longest time for which a lock is held while 10 M keys are added, saved and swept
over          units that two threads get from one key, compared with the limit
redis         limits in Redis compared with the usual sorted set, on a server started for it
faults        every fault of a Redis store, staged on real servers; about seven minutes
outages       random loads of four processes in an outage, compared with the bound of `local`; 400
              schedules by default, which take about a minute
instructions  instructions per check, counted with callgrind
tower         overhead of a layer per request, in time and instructions
server        the daemon compared with servers that do nothing, Redis and a peer
dashboard     instructions that an open dashboard adds to a request; about 15 minutes
soak          the daemon's memory under a steady load; exits with 1 if it grows by more than 5 %

--json     one object a line instead of a table
--quick    three short rounds instead of eleven
--record   write the counts to bench/instructions.json
--compare  exit with 1 if a Slidegate count is more than 5 % off the recorded one
--minutes  duration of a soak, 15 by default";

/// A parsed command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) command: Command,
    pub(crate) json: bool,
    pub(crate) quick: bool,
}

/// Which bench to run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Help,
    Holds,
    Over,
    Inproc {
        workload: Option<String>,
    },
    Memory {
        workload: Option<String>,
    },
    /// Hidden: one workload, alone in its process so that its resident memory is its own. Churn that
    /// would take longer than `seconds` is left out.
    MemoryChild {
        workload: String,
        subject: String,
        seconds: u64,
    },
    Instructions {
        action: Action,
    },
    /// Hidden: one run under callgrind.
    InstructionsChild {
        subject: String,
        checks: u64,
    },
    Service(Service),
}

/// A benchmark of a server or of middleware.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Service {
    Dashboard,
    Outages {
        schedules: u32,
    },
    Faults {
        fault: Option<String>,
    },
    Redis,
    Server,
    /// Hidden: a server that does nothing but reply with a number of bytes.
    ServerChild {
        subject: String,
        port: u16,
        bytes: usize,
    },
    Soak {
        minutes: u64,
    },
    Tower,
    /// Hidden: one run under callgrind.
    TowerChild {
        subject: String,
        requests: u64,
    },
}

/// How long a soak takes.
const SOAK_MINUTES: u64 = 15;

/// What to do with instruction counts besides printing them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Print,
    Record,
    Compare,
}

impl Options {
    /// Reads the arguments after the program's name.
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let (mut json, mut quick, mut action) = (false, false, Action::Print);
        let mut words = Vec::new();
        let mut minutes = SOAK_MINUTES;
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--minutes" => {
                    let number = arguments.next().ok_or("--minutes wants a number")?;
                    minutes = number.parse().map_err(|_| refusal(&number))?;
                }
                "--json" => json = true,
                "--quick" => quick = true,
                "--record" => action = Action::Record,
                "--compare" => action = Action::Compare,
                "--help" | "-h" => words.insert(0, "help".to_owned()),
                flag if flag.starts_with('-') => return Err(refusal(flag)),
                _ => words.push(argument),
            }
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let command = match words[..] {
            [] | ["help", ..] => Command::Help,
            ["holds"] => Command::Holds,
            ["over"] => Command::Over,
            ["inproc"] => Command::Inproc { workload: None },
            ["inproc", workload] => Command::Inproc { workload: Some(workload.to_owned()) },
            ["memory"] => Command::Memory { workload: None },
            ["memory", workload] => Command::Memory { workload: Some(workload.to_owned()) },
            ["memory-child", workload, subject, seconds] => Command::MemoryChild {
                workload: workload.to_owned(),
                subject: subject.to_owned(),
                seconds: seconds.parse()?,
            },
            ["instructions"] => Command::Instructions { action },
            ["instructions-child", subject, checks] => {
                Command::InstructionsChild { subject: subject.to_owned(), checks: checks.parse()? }
            }
            _ => Command::Service(Service::parse(&words, minutes)?),
        };
        Ok(Self { command, json, quick })
    }
}

impl Service {
    fn parse(words: &[&str], minutes: u64) -> Result<Self, Failure> {
        Ok(match *words {
            ["dashboard"] => Self::Dashboard,
            ["outages"] => Self::Outages { schedules: 400 },
            ["outages", schedules] => Self::Outages { schedules: schedules.parse()? },
            ["faults"] => Self::Faults { fault: None },
            ["faults", fault] => Self::Faults { fault: Some(fault.to_owned()) },
            ["redis"] => Self::Redis,
            ["server"] => Self::Server,
            ["server-child", subject, port, bytes] => Self::ServerChild {
                subject: subject.to_owned(),
                port: port.parse()?,
                bytes: bytes.parse()?,
            },
            ["soak"] => Self::Soak { minutes },
            ["tower"] => Self::Tower,
            ["tower-child", subject, requests] => {
                Self::TowerChild { subject: subject.to_owned(), requests: requests.parse()? }
            }
            _ => return Err(refusal(words.first().unwrap_or(&""))),
        })
    }
}

fn refusal(word: &str) -> Failure {
    format!("cannot make sense of {word:?}\n{HELP}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, Failure> {
        Options::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn flags_may_stand_anywhere() {
        let options = parse("--json inproc --quick").unwrap();
        let command = Command::Inproc { workload: None };
        assert_eq!(options, Options { command, json: true, quick: true });
        let options = parse("instructions --compare").unwrap();
        assert_eq!(options.command, Command::Instructions { action: Action::Compare });
    }

    #[test]
    fn one_workload_can_be_named() {
        let options = parse("inproc fresh-1m").unwrap();
        assert_eq!(options.command, Command::Inproc { workload: Some("fresh-1m".to_owned()) });
        let options = parse("memory log-1m-x-5").unwrap();
        assert_eq!(options.command, Command::Memory { workload: Some("log-1m-x-5".to_owned()) });
    }

    #[test]
    fn a_soak_may_be_shorter() {
        let usual = Command::Service(Service::Soak { minutes: 15 });
        assert_eq!(parse("soak").unwrap().command, usual);
        let short = Command::Service(Service::Soak { minutes: 2 });
        assert_eq!(parse("soak --minutes 2").unwrap().command, short);
        assert!(parse("soak --minutes soon").is_err());
    }

    #[test]
    fn nonsense_is_refused_with_the_usage() {
        for line in ["--jsno", "frobnicate", "inproc hot denied"] {
            assert!(parse(line).unwrap_err().to_string().contains("usage"), "{line}");
        }
    }
}
