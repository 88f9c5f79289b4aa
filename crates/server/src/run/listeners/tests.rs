//! Tests of `listeners`.

use slidegate::Quota;
use slidegate_gate::{Observation, Observer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::*;
use crate::gates::NoRestore;
use crate::net::Stopper;
use crate::spec::{PolicySpec, Spec};

/// Panics in every check.
#[derive(Debug)]
struct Panics;

impl Observer for Panics {
    fn decided(&self, _: &Observation<'_>) {}

    fn can_record(&self) -> bool {
        panic!("on purpose")
    }
}

#[tokio::test]
async fn a_panic_of_a_redis_command_is_counted_and_ends_its_connection_only() {
    let policies = vec![PolicySpec::new("api", vec![Quota::per_hour(1)])];
    let spec = Spec { policies, ..Spec::default() };
    let engine = Engine::with_observer(&spec, Some(Arc::new(Panics)), &mut NoRestore).unwrap();
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let listener = Listener { socket, tls: None, address, verifies_clients: false };
    let protocol = Protocol::Resp(Arc::new(engine), Access::open(), RespLimits::default());
    let (connections, stopper) = (Connections::new("resp", 2), Stopper::default());
    let serving = serve_protocol(listener, protocol, Arc::clone(&connections), stopper.stop());
    let serving = tokio::spawn(serving);
    let mut other = TcpStream::connect(address).await.unwrap();
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(b"SG.CHECK api alice\r\n").await.unwrap();
    let mut reply = Vec::new();
    client.read_to_end(&mut reply).await.unwrap();
    assert_eq!((reply.as_slice(), connections.panics.get()), (&b""[..], 1));
    other.write_all(b"PING\r\nQUIT\r\n").await.unwrap();
    other.read_to_end(&mut reply).await.unwrap();
    assert_eq!(reply, b"+PONG\r\n+OK\r\n");
    stopper.end();
    serving.await.unwrap();
}
