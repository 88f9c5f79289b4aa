//! The channel for commands: a connection of this crate, or connections of the user.

use core::fmt;
use core::pin::Pin;
use std::sync::Arc;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, Pipeline, Value};

use super::failure::Failure;

/// A connection that several callers may use at the same time.
#[derive(Clone)]
pub(crate) enum Channel {
    Own(MultiplexedConnection),
    Given(Arc<dyn UserConnection>),
}

/// Connections of the user, with a type that only the user knows.
pub(crate) trait UserConnection: Send + Sync {
    fn send(&self, command: Cmd) -> ReplyFuture;
}

type ReplyFuture = Pin<Box<dyn Future<Output = Result<Value, Failure>> + Send>>;

/// One connection for all calls.
pub(crate) struct SharedConnection<C>(pub(crate) C);

/// A pool: a function that returns a connection for one call.
pub(crate) struct ConnectionPool<F>(pub(crate) F);

impl<C: ConnectionLike + Clone + Send + Sync + 'static> UserConnection for SharedConnection<C> {
    fn send(&self, command: Cmd) -> ReplyFuture {
        let mut connection = self.0.clone();
        Box::pin(async move { Ok(connection.req_packed_command(&command).await?) })
    }
}

impl<F, G, C, E> UserConnection for ConnectionPool<F>
where
    F: Fn() -> G + Send + Sync,
    G: Future<Output = Result<C, E>> + Send + 'static,
    C: ConnectionLike + Send,
    E: fmt::Display,
{
    fn send(&self, command: Cmd) -> ReplyFuture {
        let getting = (self.0)();
        Box::pin(async move {
            let got = getting.await.map_err(|error| {
                Failure::unreachable(format!("the pool returned no connection: {error}"))
            });
            Ok(got?.req_packed_command(&command).await?)
        })
    }
}

impl Channel {
    /// Sends a command and waits for the reply, without a deadline.
    pub(super) async fn send(&mut self, command: &Cmd) -> Result<Value, Failure> {
        match self {
            Self::Own(connection) => Ok(connection.send_packed_command(command).await?),
            Self::Given(connection) => connection.send(command.clone()).await,
        }
    }

    /// Sends a command to a node that is importing the slot. Only the routing of this crate needs
    /// it.
    pub(super) async fn send_asking(&mut self, command: &Cmd) -> Result<Value, Failure> {
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
