//! `MULTI`, `EXEC` and `DISCARD`, with which client libraries wrap pipelines.
//!
//! The commands run one after another when `EXEC` arrives. Commands of other connections may run between
//! them: checks that must be decided together are what `SG.ALL` is for.

use super::reply::Replies;

/// The largest transaction, in bytes of its commands.
const QUEUED_MAX: usize = 1024 * 1024;

/// The transaction of a connection.
#[derive(Debug, Default)]
pub(super) struct Transaction(Option<Queue>);

/// Commands that wait for `EXEC`.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// The commands as they arrived, one after another.
    pub(super) bytes: Vec<u8>,
    pub(super) commands: usize,
    /// One of the commands cannot be run, so none is.
    is_broken: bool,
}

/// What to do with a command.
#[derive(Debug)]
pub(super) enum Next {
    /// Run it now.
    Run,
    /// Nothing more: it is empty, or it was queued or replied to.
    Replied,
    /// Run these commands.
    Exec(Queue),
}

impl Transaction {
    /// Returns the number of bytes of the commands that wait.
    pub(super) fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |queue| queue.bytes.len())
    }

    /// Takes a command: its name, all its bytes, and an error if there is no command of this name.
    pub(super) fn take(
        &mut self,
        name: &[u8],
        command: &[u8],
        unknown: impl FnOnce() -> Option<String>,
        replies: &mut Replies,
    ) -> Next {
        let is = |word: &[u8]| name.eq_ignore_ascii_case(word);
        match &mut self.0 {
            None if is(b"multi") => {
                self.0 = Some(Queue::default());
                replies.simple("OK");
            }
            None if is(b"exec") => replies.error("ERR EXEC without MULTI"),
            None if is(b"discard") => replies.error("ERR DISCARD without MULTI"),
            None => return Next::Run,
            Some(_) if is(b"multi") => replies.error("ERR MULTI calls can not be nested"),
            Some(_) if is(b"watch") => replies.error("ERR WATCH inside MULTI is not allowed"),
            Some(queue) if is(b"exec") => {
                let queue = core::mem::take(queue);
                self.0 = None;
                if !queue.is_broken {
                    return Next::Exec(queue);
                }
                replies.error("EXECABORT Transaction discarded because of previous errors.");
            }
            Some(_) if is(b"discard") => {
                self.0 = None;
                replies.simple("OK");
            }
            Some(_) if is(b"reset") || is(b"quit") => {
                self.0 = None;
                return Next::Run;
            }
            Some(queue) => queue.push(command, unknown(), replies),
        }
        Next::Replied
    }
}

impl Queue {
    fn push(&mut self, command: &[u8], error: Option<String>, replies: &mut Replies) {
        let error = error.or_else(|| {
            let is_full = self.bytes.len() + command.len() > QUEUED_MAX;
            is_full.then(|| format!("ERR a transaction has at most {QUEUED_MAX} bytes"))
        });
        match error {
            Some(error) => {
                // No command will run, so none is kept.
                (self.is_broken, self.bytes) = (true, Vec::new());
                replies.error(&error);
            }
            None => {
                if !self.is_broken {
                    self.bytes.extend_from_slice(command);
                    self.commands += 1;
                }
                replies.simple("QUEUED");
            }
        }
    }
}
