//! The Redis protocol of slidegate.

use core::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ErrorKind};

use super::{Failure, Verdict};

#[derive(Debug)]
pub(crate) struct RespConnection {
    address: String,
    policy: String,
    link: Option<MultiplexedConnection>,
}

impl RespConnection {
    pub(super) fn new(address: &str, policy: &str) -> Self {
        Self { address: address.to_owned(), policy: policy.to_owned(), link: None }
    }

    pub(super) fn disconnect(&mut self) {
        self.link = None;
    }

    pub(super) async fn connect(&mut self, deadline: Duration) -> Result<(), Failure> {
        if self.link.is_none() {
            let client = Client::open(format!("redis://{}", self.address));
            let client = client.map_err(|error| Failure::connect(&error))?;
            let config = AsyncConnectionConfig::new()
                .set_connection_timeout(Some(deadline))
                .set_response_timeout(Some(deadline));
            let link = client.get_multiplexed_async_connection_with_config(&config).await;
            self.link = Some(link.map_err(|error| Failure::connect(&error))?);
        }
        Ok(())
    }

    pub(super) async fn check(
        &mut self,
        key: &str,
        deadline: Duration,
    ) -> Result<Verdict, Failure> {
        self.connect(deadline).await?;
        let Some(link) = &mut self.link else {
            return Err(Failure::new("connect", "there is no connection"));
        };
        let mut command = redis::cmd("SG.CHECK");
        let replied = command.arg(&self.policy).arg(key).query_async::<Vec<i64>>(link).await;
        let numbers = replied.map_err(|error| {
            let kind = match error.kind() {
                ErrorKind::Io if error.is_timeout() => "deadline",
                ErrorKind::Io => "broken connection",
                _ => "error reply",
            };
            Failure::new(kind, super::chain(&error))
        })?;
        match numbers.first() {
            Some(1) => Ok(Verdict::Allowed),
            Some(0) => Ok(Verdict::Denied),
            _ => Err(Failure::new("no decision", "the reply is not that of SG.CHECK")),
        }
    }
}
