//! Valkey, and a server whose clock jumps.

use slidegate_testkit::server::{RedisServer, ServerError};

/// The server's wall clock in seconds.
fn time(server: &RedisServer) -> Result<i64, ServerError> {
    let (seconds, _): (i64, i64) = redis::cmd("TIME").query(&mut server.connection()?)?;
    Ok(seconds)
}

#[test]
fn valkey_reports_its_version_and_stores_a_value() {
    let mut server = RedisServer::valkey().append_only().start().unwrap();
    assert_eq!(server.info("server", "valkey_version").unwrap(), "9.1.2");
    redis::cmd("SET").arg("key").arg("kept").exec(&mut server.connection().unwrap()).unwrap();
    server.kill().unwrap();
    server.restart().unwrap();
    let value: String =
        redis::cmd("GET").arg("key").query(&mut server.connection().unwrap()).unwrap();
    assert_eq!(value, "kept");
}

#[test]
fn a_clock_jumps_two_hours_both_ways() {
    const HOURS: i64 = 2 * 60 * 60;
    let faked = RedisServer::valkey().fake_clock().start().unwrap();
    let honest = RedisServer::start().unwrap();
    for offset in [0, HOURS, -HOURS, 0] {
        faked.set_clock(offset).unwrap();
        // Both servers read the same clock of the machine, one shortly after the other.
        let before = time(&honest).unwrap();
        let seen = time(&faked).unwrap() - offset;
        let after = time(&honest).unwrap();
        assert!((before - 1..=after + 1).contains(&seen), "{offset}: {before} {seen} {after}");
    }
}

#[test]
fn a_faked_clock_leaves_nothing_behind() {
    let mut server = RedisServer::valkey().fake_clock().start().unwrap();
    let pid = server.pid();
    let shared = format!("/dev/shm/faketime_shm_{pid}");
    server.kill().unwrap();
    assert!(!std::path::Path::new(&shared).exists(), "{shared}");
    // The clock stays where it was set.
    server.set_clock(3600).unwrap();
    server.restart().unwrap();
    let ahead = time(&server).unwrap() - time(&RedisServer::start().unwrap()).unwrap();
    assert!((3590..=3610).contains(&ahead), "{ahead}");
}

#[test]
fn a_real_clock_cannot_be_set() {
    let error = RedisServer::start().unwrap().set_clock(1).unwrap_err();
    assert!(error.to_string().contains("fake_clock()"), "{error}");
    let error = RedisServer::builder().fake_clock().start().unwrap_err();
    assert!(error.to_string().contains("RedisServer::valkey()"), "{error}");
}
