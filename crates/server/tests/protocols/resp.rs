//! The Redis protocol over real sockets, by real clients.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use slidegate::{Algorithm, ManualClock, Quota};
use slidegate_server::access::{Access, Exposure};
use slidegate_server::engine::Engine;
use slidegate_server::gates::NoRestore;
use slidegate_server::resp::{self, RespLimits};
use slidegate_server::spec::{PolicySpec, Spec};
use slidegate_testkit::server::PythonTool;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::frozen_time::FrozenTime;

struct Server {
    port: u16,
    clock: ManualClock,
    engine: Arc<Engine>,
}

impl Server {
    async fn start() -> Self {
        Self::with_limits(RespLimits::default()).await
    }

    async fn with_limits(limits: RespLimits) -> Self {
        Self::with(limits, Access::open()).await
    }

    async fn with(limits: RespLimits, access: Access) -> Self {
        let mut api = PolicySpec::new("api", vec![Quota::per_minute(3)]);
        api.tiers.insert("gold".to_owned(), vec![Quota::per_minute(5)]);
        api.tiers.insert("bulk".to_owned(), vec![Quota::per_minute(20_000)]);
        let both = vec![Quota::per_second(2), Quota::per_hour(9)];
        let gcra = PolicySpec {
            algorithm: Algorithm::Gcra,
            ..PolicySpec::new("gcra", vec![Quota::per_minute(6)])
        };
        let policies = vec![api, PolicySpec::new("both", both), gcra];
        let spec = Spec { policies, ..Spec::default() };
        let clock = ManualClock::new(Duration::from_secs(1_700_000_000));
        let engine = Engine::with_clock(&spec, Some(clock.clone()), &mut NoRestore).unwrap();
        let engine = Arc::new(engine);
        let shared = Arc::clone(&engine);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (engine, access, limits) =
                    (Arc::clone(&engine), access.clone(), limits.clone());
                let (activity, never) = (Arc::default(), std::future::pending());
                tokio::spawn(resp::serve(stream, engine, access, limits, activity, never));
            }
        });
        Self { port, clock, engine: shared }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port)).await.unwrap()
    }

    /// What the server answers to these bytes before it closes, or until nothing more is expected.
    async fn ask(&self, input: &[u8], expected: &str) {
        let mut stream = self.connect().await;
        stream.write_all(input).await.unwrap();
        let mut answer = vec![0; expected.len()];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&answer), expected);
    }

    fn cli(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("redis-cli");
        command.args(["-p", &self.port.to_string()]).args(arguments);
        let output = command.output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().replace('\n', " ")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_cli_asks() {
    let server = Server::start().await;
    for version in ["-2", "-3"] {
        let key = format!("user{version}");
        let check =
            |extra: &[&str]| server.cli(&[&[version, "SG.CHECK", "api", &key][..], extra].concat());
        assert_eq!(check(&[]), "1 3 2 0 60000");
        assert_eq!(check(&["COST", "2"]), "1 3 0 0 60000");
        assert_eq!(check(&[]), "0 3 0 60000 60000");
        assert_eq!(check(&["tier", "gold", "cost", "2"]), "1 5 0 0 60000");
    }
    server.clock.advance(Duration::from_secs(60));
    assert_eq!(server.cli(&["SG.PEEK", "api", "user-2"]), "1 3 3 0 0");
    assert_eq!(server.cli(&["PING"]), "PONG");
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_py_asks() {
    let server = Server::start().await;
    let requirements = include_str!("resp_files/requirements.txt");
    let asking = tokio::task::spawn_blocking(move || {
        let tool = PythonTool::install("redis-py-8.1.0", requirements).unwrap();
        let mut command = tool.command(include_str!("resp_files/ask.py"));
        command.arg(server.port.to_string()).output().unwrap()
    });
    let output = asking.await.unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "asked\n", "{errors}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_slidegate_command() {
    let server = Server::start().await;
    let reserved = server.cli(&["SG.RESERVE", "api", "k", "COST", "3"]);
    let (five, receipt) = reserved.rsplit_once(' ').unwrap();
    assert_eq!(five, "1 3 0 0 60000");
    assert_eq!(server.cli(&["SG.USAGE", "api", "k"]), "3");
    assert_eq!(server.cli(&["SG.SETTLE", "api", "k", receipt, "1"]), "1");
    assert_eq!(server.cli(&["SG.USAGE", "api", "k"]), "1");
    assert_eq!(server.cli(&["SG.HISTORY", "api", "k"]), "1700000000000 1");
    assert_eq!(server.cli(&["SG.REFUND", "api", "k", receipt]), "1");
    assert_eq!(server.cli(&["SG.USAGE", "api", "k"]), "0");
    assert_eq!(server.cli(&["SG.CHECK", "api", "k"]), "1 3 2 0 60000");
    assert_eq!(server.cli(&["SG.RESET", "api", "k"]), "1");
    assert_eq!(server.cli(&["SG.RESET", "api", "k"]), "0");
    assert_eq!(
        server.cli(&["SG.ALL", "api", "k", "1", "both", "k", "2"]),
        "1 3 2 0 60000 1 2 0 0 1000"
    );
    let denied = server.cli(&["SG.ALL", "api", "k", "1", "both", "k", "1"]);
    assert!(denied.starts_with("0 3 "), "{denied}");
    assert_eq!(server.cli(&["SG.USAGE", "api", "k"]), "1");
    assert_eq!(server.cli(&["SG.POLICIES"]), "api 3 60000 both 2 1000 9 3600000 gcra 6 60000");
}

// The example of redis-cell: a burst of 15 beyond the first, refilled at 30 a minute.
#[tokio::test(flavor = "multi_thread")]
async fn throttle_as_redis_cell() {
    let server = Server::start().await;
    // What cannot be decided takes no memory.
    let wrong = server.cli(&["CL.THROTTLE", "user", "15", "0", "60"]);
    assert!(wrong.contains("above zero") && server.engine.plan().throttle().is_none(), "{wrong}");
    let ask =
        |extra: &[&str]| server.cli(&[&["CL.THROTTLE", "user", "15", "30", "60"], extra].concat());
    assert_eq!(ask(&[]), "0 16 15 -1 2");
    assert!(server.engine.plan().throttle().is_some());
    assert_eq!(ask(&["15"]), "0 16 0 -1 32");
    assert_eq!(ask(&[]), "1 16 0 2 32");
    assert_eq!(ask(&["0"]), "0 16 0 -1 32");
    server.clock.advance(Duration::from_secs(2));
    assert_eq!(ask(&[]), "0 16 0 -1 32");
    server.clock.advance(Duration::from_secs(60));
    assert_eq!(ask(&[]), "0 16 15 -1 2");
    assert!(ask(&["17"]).starts_with("1 16 15 -1"), "never fits");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_contains_the_latest_10_000_requests() {
    let server = Server::start().await;
    let client = redis::Client::open(format!("redis://127.0.0.1:{}", server.port)).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let mut check = redis::cmd("SG.CHECK");
    check.arg("api").arg("k").arg("TIER").arg("bulk");
    for _ in 0..10_003 {
        server.clock.advance(Duration::from_millis(5));
        let _: Vec<i64> = check.query_async(&mut connection).await.unwrap();
    }
    let mut history = redis::cmd("SG.HISTORY");
    history.arg("api").arg("k").arg("TIER").arg("bulk");
    let history: Vec<(u64, u64)> = history.query_async(&mut connection).await.unwrap();
    assert_eq!(history.len(), 10_000);
    assert_eq!(history.first(), Some(&(1_700_000_000_020, 1)));
    assert_eq!(history.last(), Some(&(1_700_000_050_015, 1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_library_in_pipelines() {
    let server = Server::start().await;
    let client = redis::Client::open(format!("redis://127.0.0.1:{}", server.port)).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let mut pipeline = redis::pipe();
    for number in 0..1000 {
        pipeline.cmd("SG.CHECK").arg("api").arg(format!("key{}", number % 100));
    }
    let answers: Vec<Vec<i64>> = pipeline.query_async(&mut connection).await.unwrap();
    assert_eq!(answers.len(), 1000);
    assert_eq!(answers.iter().filter(|answer| answer[0] == 1).count(), 300);
}

#[tokio::test]
async fn errors_name_what_is_wrong() {
    let server = Server::start().await;
    for (command, expected) in [
        ("SG.CHECK aip k", "-ERR no policy 'aip': did you mean 'api'?\r\n"),
        ("SG.CHECK zzz k", "-ERR no policy 'zzz': SG.POLICIES lists the policies\r\n"),
        ("SG.CHEK api k", "-ERR unknown command 'SG.CHEK': did you mean 'sg.check'?\r\n"),
        ("SET k 1", "-ERR unknown command 'SET'\r\n"),
        (
            "SG.CHECK api",
            "-ERR wrong number of arguments for 'sg.check': use policy key [COST n] [TIER name] \
             [WAIT milliseconds]\r\n",
        ),
        (
            "SG.CHECK api k COST x",
            "-ERR argument 4 is not a number from 0 to 18446744073709551615\r\n",
        ),
        (
            "SG.CHECK api k hunter2 1",
            "-ERR argument 3 is not an option: use COST, TIER or WAIT\r\n",
        ),
        ("SG.CHECK api k TIER tin", "-ERR policy 'api' has no tier 'tin'\r\n"),
        ("SG.CHECK api k FOO 1", "-ERR argument 3 is not an option: use COST, TIER or WAIT\r\n"),
        ("SG.PEEK api k WAIT 1", "-ERR argument 3 is not an option: use COST or TIER\r\n"),
        (
            "SG.CHECK api k WAIT 30001",
            "-ERR WAIT is out of range: use 0 to 30000 milliseconds (`limits.wait_max`)\r\n",
        ),
        (
            "WATCH k",
            "-ERR WATCH is not supported: there are no keys to watch; SG.ALL checks all or nothing\r\n",
        ),
        ("SG.REFUND api k 1.2", "-ERR argument 3 is not a receipt of SG.RESERVE\r\n"),
        ("CL.THROTTLE k 1 0 1", "-ERR count and period must be above zero\r\n"),
        ("SELECT 1", "-ERR there is one database, 0\r\n"),
        ("HELLO 4", "-NOPROTO use 2 or 3\r\n"),
    ] {
        server.ask(format!("{command}\r\n").as_bytes(), expected).await;
    }
    server.ask(b"SG.CHECK api k COST 0\r\n", "-ERR cost 0 is out of range").await;
    let long = format!("SG.CHECK api {}\r\n", "k".repeat(1025));
    server
        .ask(long.as_bytes(), "-ERR a key of 1025 bytes is out of range: use 1 to 1024\r\n")
        .await;
}

// What redis-py sends for a pipeline by default.
#[tokio::test]
async fn a_transaction_runs_its_commands_at_exec() {
    let server = Server::start().await;
    let queued = "SG.CHECK api k\r\nSG.CHECK api k COST 9\r\nSG.CHECK none k\r\nPING\r\n";
    server
        .ask(
            format!("MULTI\r\n{queued}EXEC\r\nSG.USAGE api k\r\n").as_bytes(),
            "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*4\r\n\
             *5\r\n:1\r\n:3\r\n:2\r\n:0\r\n:60000\r\n\
             *5\r\n:0\r\n:3\r\n:2\r\n:-1\r\n:60000\r\n\
             -ERR no policy 'none': SG.POLICIES lists the policies\r\n+PONG\r\n\
             *1\r\n:1\r\n",
        )
        .await;
    // No command of these runs.
    server
        .ask(
            b"MULTI\r\nSG.CHECK api k\r\nGET k\r\nEXEC\r\n\
              MULTI\r\nSG.CHECK api k\r\nDISCARD\r\nSG.USAGE api k\r\n",
            "+OK\r\n+QUEUED\r\n-ERR unknown command 'GET'\r\n\
             -EXECABORT Transaction discarded because of previous errors.\r\n\
             +OK\r\n+QUEUED\r\n+OK\r\n*1\r\n:1\r\n",
        )
        .await;
    server
        .ask(
            b"EXEC\r\nDISCARD\r\nMULTI\r\nMULTI\r\nEXEC\r\nUNWATCH\r\n",
            "-ERR EXEC without MULTI\r\n-ERR DISCARD without MULTI\r\n+OK\r\n\
             -ERR MULTI calls can not be nested\r\n*0\r\n+OK\r\n",
        )
        .await;
    // Empty commands have no reply.
    server
        .ask(b"\r\nMULTI\r\n\r\n*0\r\nPING\r\n\r\nEXEC\r\n", "+OK\r\n+QUEUED\r\n*1\r\n+PONG\r\n")
        .await;
}

#[tokio::test]
async fn a_transaction_has_a_largest_size() {
    let server = Server::start().await;
    let command = format!("ECHO {}\r\n", "x".repeat(60_000));
    let fit = 1024 * 1024 / command.len();
    let input = format!("MULTI\r\n{}EXEC\r\nPING\r\n", command.repeat(fit + 1));
    let expected = format!(
        "+OK\r\n{}-ERR a transaction has at most 1048576 bytes\r\n\
         -EXECABORT Transaction discarded because of previous errors.\r\n+PONG\r\n",
        "+QUEUED\r\n".repeat(fit)
    );
    server.ask(input.as_bytes(), &expected).await;
}

#[tokio::test]
async fn what_is_no_protocol_ends_the_connection_and_nothing_else() {
    let server = Server::start().await;
    for (input, expected) in [
        (&b"*1\r\n:5\r\n"[..], "-ERR Protocol error: expected '$'\r\n"),
        (b"*9999\r\n", "-ERR Protocol error: a command has at most 256 arguments\r\n"),
        (b"*1\r\n$99999999\r\n", "-ERR Protocol error: an argument has at most 65536 bytes\r\n"),
    ] {
        let mut stream = server.connect().await;
        stream.write_all(input).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, expected);
    }
    server.ask(b"PING\r\n", "+PONG\r\n").await;
}

#[tokio::test]
async fn a_connection_that_says_nothing_is_closed() {
    let time = FrozenTime::new();
    let limits = RespLimits::default();
    let server = Server::with_limits(limits.clone()).await;
    let mut stream = server.connect().await;
    let mut rest = Vec::new();
    let closed = stream.read_to_end(&mut rest);
    time.until(limits.idle_max, "the connection to be closed", closed).await.unwrap();
    assert!(rest.is_empty());
}

#[tokio::test]
async fn an_incomplete_command_has_a_deadline() {
    let time = FrozenTime::new();
    let limits = RespLimits::default();
    let server = Server::with_limits(limits.clone()).await;
    let mut stream = server.connect().await;
    stream.write_all(b"PING\r\n*1\r\n$4\r\nPI").await.unwrap();
    let mut rest = Vec::new();
    let closed = stream.read_to_end(&mut rest);
    time.until(limits.command_max, "the connection to be closed", closed).await.unwrap();
    assert_eq!(rest, b"+PONG\r\n");
}

// A page can make a browser send these to any port of its visitor's machine.
#[tokio::test(flavor = "multi_thread")]
async fn http_is_refused_before_commands_in_its_body_run() {
    let server = Server::start().await;
    server.cli(&["SG.CHECK", "api", "k", "COST", "3"]);
    let refused = "-ERR this is the Redis protocol, not HTTP: connection closed\r\n";
    let command = "SG.RESET api k\r\n";
    let methods = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];
    let heads = methods.map(|method| format!("{method} /x HTTP/1.1\r\nHost: a\r\n\r\n"));
    let others = ["Host: a\r\n", "host: a\r\n", "PRI * HTTP/2.0\r\n", "*1\r\n$4\r\npost\r\n"];
    for head in heads.iter().map(String::as_str).chain(others) {
        let mut stream = server.connect().await;
        stream.write_all(format!("{head}{command}").as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // Closing with input that was not read may reset the connection.
        let _ = stream.read_to_end(&mut answer).await;
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.is_empty() || answer == refused, "{head}: {answer}");
    }
    assert_eq!(server.cli(&["SG.USAGE", "api", "k"]), "3");
    // Clients of Redis may try GET.
    server.ask(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\nPING\r\n", "-ERR unknown command 'GET'").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_allow_their_scopes() {
    let rules = crate::access::rules(None);
    let access = Access::new(Arc::clone(&rules), Exposure::Network);
    let server = Server::with(RespLimits::default(), access).await;
    let reset = ["SG.RESET", "api", "k"];
    assert_eq!(server.cli(&["SG.CHECK", "api", "k"]), "1 3 2 0 60000");
    assert!(server.cli(&["SG.PEEK", "api", "k"]).starts_with("NOAUTH "));
    assert!(server.cli(&reset).starts_with("NOAUTH "));
    let with = |token: &str, arguments: &[&str]| {
        let token = ["--no-auth-warning", "-a", token];
        server.cli(&[&token[..], arguments].concat())
    };
    assert!(with("token-of-the-app-01", &reset).starts_with("NOPERM "));
    assert_eq!(with("token-of-the-eye-02", &["SG.USAGE", "api", "k"]), "1");
    assert!(with("token-of-the-eye-02", &reset).starts_with("NOPERM "));
    assert_eq!(with("token-of-the-ops-03", &reset), "1");
    server.ask(b"AUTH token-of-no-client\r\n", "-WRONGPASS this token is not known\r\n").await;
    let ops = ["--user", "ops", "--no-auth-warning", "-a", "token-of-the-ops-03", "-3"];
    assert_eq!(server.cli(&[&ops[..], &reset].concat()), "0");

    let hello = b"HELLO 3 AUTH u token-of-the-ops-03 SETNAME me\r\nSG.RESET api k\r\n";
    let mut stream = server.connect().await;
    stream.write_all(hello).await.unwrap();
    let mut answer = vec![0; 1024];
    let mut read = 0;
    while !answer[..read].ends_with(b":0\r\n") {
        read += stream.read(&mut answer[read..]).await.unwrap();
    }
    // A token that is replaced is refused on open connections too.
    rules.store(Arc::default());
    stream.write_all(b"SG.RESET api k\r\n").await.unwrap();
    let read = stream.read(&mut answer).await.unwrap();
    assert!(answer[..read].starts_with(b"-NOPERM "), "{:?}", answer.get(..read));
    server.ask(b"AUTH some-token\r\n", "-ERR AUTH without any token configured").await;
}

// A check of a huge cost takes nothing, so it would be a peek without the scope.
#[tokio::test(flavor = "multi_thread")]
async fn denials_show_what_remains_only_to_clients_that_may_look() {
    let access = Access::new(crate::access::rules(None), Exposure::Network);
    let server = Server::with(RespLimits::default(), access).await;
    let first = server.cli(&["SG.CHECK", "api", "k"]);
    let remaining = |reply: &str| reply.split(' ').nth(2).unwrap().to_owned();
    let left = remaining(&first);
    assert_ne!(left, "0", "{first}");
    let denials: [&[&str]; 3] = [
        &["SG.CHECK", "api", "k", "COST", "9007199254740991"],
        &["SG.RESERVE", "api", "k", "COST", "9007199254740991"],
        &["SG.ALL", "api", "k", "9007199254740991"],
    ];
    for denial in denials {
        let hidden = server.cli(denial);
        assert!(hidden.starts_with("0 "), "{hidden}");
        assert_eq!(remaining(&hidden), "0", "{hidden}");
        let shown =
            server.cli(&[&["-a", "token-of-the-eye-02", "--no-auth-warning"], denial].concat());
        assert_eq!(remaining(&shown), left, "{shown}");
    }
    let throttle = ["CL.THROTTLE", "k", "4", "10", "60", "0"];
    assert!(server.cli(&throttle).starts_with("NOAUTH "));
}
