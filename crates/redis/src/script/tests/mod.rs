//! The scripts in a real server.

mod conformance;
mod random;
mod server;
mod subject;

use server::Server;
use subject::RedisSubject;
