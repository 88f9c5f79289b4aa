//! A real server: starts, answers, stops, dies, comes back and leaves nothing behind.

use std::path::Path;
use std::{panic, thread};

use slidegate_testkit::server::{RedisServer, ServerError, poll};

fn ping(server: &RedisServer) -> Result<String, ServerError> {
    Ok(redis::cmd("PING").query(&mut server.connection()?)?)
}

fn is_running(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

#[test]
fn a_plain_server_answers_and_goes_when_dropped() {
    let server = RedisServer::start().unwrap();
    assert_eq!(ping(&server).unwrap(), "PONG");
    let mut connection = server.connection().unwrap();
    redis::cmd("SET").arg("key").arg("value").exec(&mut connection).unwrap();
    let value: String = redis::cmd("GET").arg("key").query(&mut connection).unwrap();
    assert_eq!(value, "value");
    let pid = server.pid();
    assert!(is_running(pid));
    drop(server);
    assert!(!is_running(pid));
}

#[test]
fn a_test_that_panics_leaves_nothing_running() {
    let panicked = thread::spawn(|| {
        let server = RedisServer::start().unwrap();
        panic::panic_any(server.pid());
    });
    let pid = *panicked.join().unwrap_err().downcast::<u32>().unwrap();
    assert!(!is_running(pid));
}

// The kernel watches the thread that started a server, not the process.
#[test]
fn a_server_outlives_the_thread_that_started_it() {
    let server = thread::spawn(|| RedisServer::start().unwrap()).join().unwrap();
    for _ in 0..20 {
        assert_eq!(ping(&server).unwrap(), "PONG");
    }
}

#[test]
fn a_stopped_server_is_gone_and_comes_back_on_the_same_port() {
    let mut server = RedisServer::start().unwrap();
    let (port, pid) = (server.port(), server.pid());
    server.stop().unwrap();
    assert!(ping(&server).is_err());
    server.restart().unwrap();
    assert_eq!(server.port(), port);
    assert_ne!(server.pid(), pid);
    assert_eq!(ping(&server).unwrap(), "PONG");
}

#[test]
fn a_suspended_server_is_silent_until_it_goes_on() {
    let mut server = RedisServer::start().unwrap();
    let mut connection = server.connection().unwrap();
    connection.set_read_timeout(Some(core::time::Duration::from_millis(50))).unwrap();
    server.suspend().unwrap();
    let silent = redis::cmd("PING").query::<String>(&mut connection).unwrap_err();
    assert!(silent.is_timeout(), "{silent}");
    server.resume().unwrap();
    assert_eq!(poll("an answer", || Ok(ping(&server).ok())).unwrap(), "PONG");
}
