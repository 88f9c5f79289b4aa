//! Waiting for the servers at startup.

use core::time::Duration;

use slidegate::{Error, ErrorKind};
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};

use crate::redis::Redis;
use crate::servers::Failure;

/// The pause before servers that are not ready are tried again.
const PAUSE: Duration = Duration::from_millis(20);

impl Redis {
    /// Connects to all servers, and waits until each of them runs scripts for this user.
    ///
    /// Checks connect too, but only within their deadline, and their decisions are the only sign of
    /// a problem. Call this at startup so that a wrong password is an error.
    ///
    /// # Errors
    ///
    /// Returns an error of kind [`ErrorKind::Setting`] immediately if a server rejects the
    /// credentials, its TLS certificate is not trusted, or the user may not run scripts on these
    /// keys, because retrying cannot help. Returns an error of kind [`ErrorKind::Store`], with the
    /// last failure, if the servers are not ready `within` this time. In both cases, connecting
    /// continues in the background, and limiters work as soon as the cause is gone.
    pub async fn connect(&self, within: Duration) -> Result<(), Error> {
        if Handle::try_current().is_err() {
            return Err(Failure::no_runtime().into());
        }
        let mut last = None;
        let connecting = async {
            loop {
                match self.try_servers().await {
                    Ok(()) => return Ok(()),
                    Err(failure) if failure.is_permanent() => {
                        return Err(Error::new(ErrorKind::Setting, failure.to_string()));
                    }
                    Err(failure) => last = Some(failure),
                }
                sleep(PAUSE).await;
            }
        };
        // Adding `within` to the current time could overflow; a timeout does not.
        if let Ok(result) = timeout(within, connecting).await {
            return result;
        }
        let late = || Failure::unreachable(format!("not connected within {within:?}"));
        Err(last.unwrap_or_else(late).into())
    }

    /// Runs a script on every primary.
    pub(crate) async fn try_servers(&self) -> Result<(), Failure> {
        let servers = &self.shared.servers;
        let mut command = redis::cmd("EVAL");
        if servers.is_cluster() {
            // A node has only some of the keys.
            command.arg("return 1").arg(0);
        } else {
            let key = format!("{}connect", self.shared.names.start());
            command.arg("return redis.call('GET', KEYS[1])").arg(1).arg(key);
        }
        for node in servers.nodes_to_try().await? {
            node.query(&command, servers.query_deadline()).await?;
        }
        Ok(())
    }
}
