//! A real server: starts, replies, stops, crashes, restarts and leaves nothing behind.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{env, fs, io, panic, thread};

use redis::Connection;
use slidegate_testkit::server::{Certificates, RedisServer, ServerError, poll};

fn ping(server: &RedisServer) -> Result<String, ServerError> {
    Ok(redis::cmd("PING").query(&mut server.connection()?)?)
}

fn set(connection: &mut Connection, value: &str) {
    redis::cmd("SET").arg("key").arg(value).exec(connection).unwrap();
}

fn get(connection: &mut Connection) -> Option<String> {
    redis::cmd("GET").arg("key").query(connection).unwrap()
}

/// Returns `true` if the process runs. An ended process without a wait is a zombie.
fn is_running(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().unwrap_or_default();
    !state.is_empty() && !state.starts_with(['Z', 'X'])
}

#[test]
fn a_plain_server_answers_and_goes_when_dropped() {
    let server = RedisServer::start().unwrap();
    assert_eq!(ping(&server).unwrap(), "PONG");
    let mut connection = server.connection().unwrap();
    set(&mut connection, "value");
    assert_eq!(get(&mut connection).as_deref(), Some("value"));
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

// This test starts itself in a second process, which holds a server until it is killed. Nothing is
// dropped then, and only the kernel can end the server.
#[test]
fn a_test_process_that_is_killed_leaves_nothing_running() {
    const NAME: &str = "redis_server::a_test_process_that_is_killed_leaves_nothing_running";
    if env::var_os("SLIDEGATE_HOLD_A_SERVER").is_some() {
        let server = RedisServer::start().unwrap();
        println!("\nserver {}", server.pid());
        let _ = io::stdin().read(&mut [0]);
        return;
    }
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", NAME, "--nocapture"]).env("SLIDEGATE_HOLD_A_SERVER", "1");
    let mut holder = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(holder.stdout.take().unwrap()).lines().map(Result::unwrap);
    let pid = lines.into_iter().find_map(|line| line.strip_prefix("server ")?.parse().ok());
    let pid: u32 = pid.expect("the second process says which server it holds");
    assert!(is_running(pid));
    holder.kill().unwrap();
    holder.wait().unwrap();
    poll("the server to be killed", || Ok((!is_running(pid)).then_some(()))).unwrap();

    // Its directory stays until another one is created.
    let folder = env::temp_dir().join(format!("slidegate-{}-0", holder.id()));
    drop(RedisServer::start().unwrap());
    assert!(!folder.exists());
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
    set(&mut server.connection().unwrap(), "kept nowhere");
    server.stop().unwrap();
    assert!(!server.is_running());
    assert!(ping(&server).is_err());
    server.restart().unwrap();
    assert_eq!(server.port(), port);
    assert_ne!(server.pid(), pid);
    assert_eq!(get(&mut server.connection().unwrap()), None);
}

#[test]
fn an_append_only_server_keeps_its_data_over_a_kill() {
    let mut server = RedisServer::builder().append_only().start().unwrap();
    set(&mut server.connection().unwrap(), "kept");
    server.kill().unwrap();
    assert!(ping(&server).is_err());
    server.restart().unwrap();
    assert_eq!(get(&mut server.connection().unwrap()).as_deref(), Some("kept"));
}

#[test]
fn a_suspended_server_is_silent_until_it_goes_on() {
    let mut server = RedisServer::start().unwrap();
    let mut connection = server.connection().unwrap();
    connection.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    server.suspend().unwrap();
    assert!(server.is_running());
    let silent = redis::cmd("PING").query::<String>(&mut connection).unwrap_err();
    assert!(silent.is_timeout(), "{silent}");
    server.resume().unwrap();
    assert_eq!(ping(&server).unwrap(), "PONG");
}

#[test]
fn a_suspended_server_can_be_stopped() {
    let mut server = RedisServer::start().unwrap();
    server.suspend().unwrap();
    server.stop().unwrap();
    assert!(!server.is_running());
}

#[test]
fn a_password_is_asked_for_and_is_in_the_address() {
    let server = RedisServer::builder().password(r#"a "b"/@?"#).start().unwrap();
    assert_eq!(ping(&server).unwrap(), "PONG");
    let without = format!("redis://127.0.0.1:{}/", server.port());
    let refused = redis::Client::open(without).unwrap().get_connection();
    let answer = refused.and_then(|mut open| redis::cmd("PING").query::<String>(&mut open));
    assert_eq!(answer.unwrap_err().code(), Some("NOAUTH"));
}

#[test]
fn a_user_may_do_what_its_line_says() {
    let users = "user alice on >secret ~mine:* +get +ping\n";
    let server = RedisServer::builder().users(users).start().unwrap();
    let url = server.url_as("alice", "secret");
    let mut alice = server.client_at(&url).unwrap().get_connection().unwrap();
    let get = |key: &str| redis::cmd("GET").arg(key).to_owned();
    assert_eq!(get("mine:1").query::<Option<String>>(&mut alice).unwrap(), None);
    let error = get("yours:1").query::<Option<String>>(&mut alice).unwrap_err();
    assert_eq!(error.code(), Some("NOPERM"));
    assert!(server.client_at(&server.url_as("alice", "wrong")).unwrap().get_connection().is_err());
}

#[test]
fn tls_is_spoken_and_its_authority_checked() {
    let certificates = Certificates::new().unwrap();
    let server = RedisServer::builder().tls(&certificates).start().unwrap();
    assert!(server.url().starts_with("rediss://"));
    assert_eq!(ping(&server).unwrap(), "PONG");

    let stranger = Certificates::new().unwrap();
    let client = redis::Client::build_with_tls(server.url(), stranger.trust()).unwrap();
    assert!(client.get_connection().is_err());
    // Nor does it reply without TLS.
    let clear = format!("redis://127.0.0.1:{}/", server.port());
    let client = redis::Client::open(clear).unwrap();
    let answer = client.get_connection_with_timeout(Duration::from_secs(5));
    assert!(answer.and_then(|mut open| redis::cmd("PING").exec(&mut open)).is_err());
}

#[test]
fn a_socket_answers_without_a_port() {
    let alone = RedisServer::builder().only_unix_socket().password("secret").start().unwrap();
    assert_eq!(ping(&alone).unwrap(), "PONG");
    let client = alone.client_at(&alone.unix_url()).unwrap();
    set(&mut client.get_connection().unwrap(), "by socket");
    assert_eq!(get(&mut alone.connection().unwrap()).as_deref(), Some("by socket"));
    assert!(alone.url().starts_with("redis+unix://"));
    assert!(std::net::TcpStream::connect(("127.0.0.1", alone.port())).is_err());
}

#[test]
fn settings_reach_the_server() {
    let builder = RedisServer::builder().max_memory(2_000_000, "allkeys-lru");
    let server = builder.config("databases 3").start().unwrap();
    assert_eq!(server.info("memory", "maxmemory").unwrap(), "2000000");
    assert_eq!(server.info("memory", "maxmemory_policy").unwrap(), "allkeys-lru");
    let select = redis::cmd("SELECT").arg(3).exec(&mut server.connection().unwrap());
    assert!(select.is_err());
}

#[test]
fn a_replica_follows_with_password_and_tls() {
    let certificates = Certificates::new().unwrap();
    let builder = RedisServer::builder().tls(&certificates).password("secret");
    let primary = builder.start().unwrap();
    let replica = RedisServer::builder().replica_of(&primary).start().unwrap();
    replica.wait_for_primary().unwrap();
    set(&mut primary.connection().unwrap(), "copied");
    let mut connection = replica.connection().unwrap();
    let copied = poll("the copy", || Ok(get(&mut connection))).unwrap();
    assert_eq!(copied, "copied");
}

#[test]
fn a_taken_port_is_an_error_that_names_it() {
    let server = RedisServer::start().unwrap();
    let error = RedisServer::builder().port(server.port()).start().unwrap_err();
    assert_eq!(error.to_string(), format!("port {} is taken: use another", server.port()));
}

#[test]
fn a_server_that_does_not_start_says_why() {
    let error = RedisServer::builder().config("no-such-setting 1").start().unwrap_err();
    assert!(error.to_string().contains("no-such-setting"), "{error}");
    let error = RedisServer::builder().program("/no/such/program").start().unwrap_err();
    assert!(error.to_string().contains("/no/such/program"), "{error}");
}
