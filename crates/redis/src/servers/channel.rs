//! The channel for commands: a connection of this crate, or one of the user.

use core::fmt;
use core::pin::Pin;
use std::sync::Arc;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, Pipeline, RedisResult, Value};

/// A connection that several callers may use at the same time.
#[derive(Clone)]
pub(crate) enum Channel {
    Own(MultiplexedConnection),
    Given(Arc<dyn UserConnection>),
}

/// A connection of the user, with a type that only the user knows.
pub(crate) trait UserConnection: Send + Sync {
    fn send(&self, command: Cmd) -> Pin<Box<dyn Future<Output = RedisResult<Value>> + Send>>;
}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> UserConnection for C {
    fn send(&self, command: Cmd) -> Pin<Box<dyn Future<Output = RedisResult<Value>> + Send>> {
        let mut connection = self.clone();
        Box::pin(async move { connection.req_packed_command(&command).await })
    }
}

impl Channel {
    /// Sends a command and waits for the reply, without a deadline.
    pub(super) async fn send(&mut self, command: &Cmd) -> RedisResult<Value> {
        match self {
            Self::Own(connection) => connection.send_packed_command(command).await,
            Self::Given(connection) => connection.send(command.clone()).await,
        }
    }

    /// Sends a command to a node that is importing the slot. Only the routing of this crate needs
    /// it.
    pub(super) async fn send_asking(&mut self, command: &Cmd) -> RedisResult<Value> {
        let Self::Own(connection) = self else {
            return self.send(command).await;
        };
        let mut pipeline = Pipeline::with_capacity(2);
        pipeline.cmd("ASKING").ignore().add_command(command.clone());
        let mut replies = connection.send_packed_commands(&pipeline, 0, 2).await?;
        Ok(replies.pop().unwrap_or(Value::Nil))
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Own(_) => "Own",
            Self::Given(_) => "Given",
        })
    }
}
