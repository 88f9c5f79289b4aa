//! The longer texts of the help.

pub(super) const ABOUT: &str = "A sliding-window rate limiter as a service: Envoy's rate limit \
protocol, an HTTP API, forward auth for nginx and Caddy, and the Redis protocol.";

/// Printed by `--version`; `-V` prints the first word only.
pub(super) const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    env!("BUILD_COMMIT"),
    "\nfeatures: ",
    env!("BUILD_FEATURES"),
    "\n",
    env!("BUILD_RUSTC"),
    "\n",
    env!("BUILD_TARGET"),
);

pub(super) const EXAMPLES: &str = "\
Examples:
  slidegate                                   serve an example policy on loopback
  slidegate serve --config limits.yaml        serve your policies
  slidegate serve --config /srv/ratelimit     serve a directory of envoyproxy/ratelimit
  slidegate config check limits.yaml          report all errors in a file
  slidegate check api alice --cost 5          check a request with a running daemon
  slidegate simulate access.log --quota 10/minute --key client
                                              see what a limit would have denied
  slidegate bench http://127.0.0.1:8080 --policy api --quota 100/minute --rate 1000
                                              measure a limiter, and count its wrong decisions
  slidegate plan --keys 10M --rate 1k/min --store redis
                                              compute the memory and the nodes that a limit needs
";

pub(super) const SERVE_EXAMPLES: &str = "\
Examples:
  slidegate serve
  slidegate serve --config limits.yaml --listen-http 0.0.0.0:8080
  slidegate serve --config limits.yaml --set snapshot.path=/var/lib/slidegate
  SLIDEGATE_MEMORY_LIMIT_MB=1024 slidegate serve --config limits.yaml --print-config

Signals: SIGHUP reloads the configuration. SIGTERM and SIGINT finish requests in flight, write the
snapshot and exit.
";

pub(super) const CONFIG_EXAMPLES: &str = "\
Examples:
  slidegate config check limits.yaml
  slidegate config check /srv/ratelimit/config --deny-warnings
  slidegate config explain shop user=alice --config shop.yaml
  slidegate config explain POST /login address=203.0.113.9 --config limits.yaml
  slidegate config test limits.test.yaml --config limits.yaml
  slidegate config schema > slidegate.schema.json
";

pub(super) const CHECK_EXAMPLES: &str = "\
Examples:
  slidegate check api alice
  slidegate check api alice --cost 5 --json
  slidegate check api alice --peek || echo too many
";

pub(super) const REDIS_EXAMPLES: &str = "\
Examples:
  slidegate redis sweep --config limits.yaml
  slidegate redis sweep --config limits.yaml --store shared --keys-per-second 2000
  slidegate redis sweep --config limits.yaml --json
";

/// The examples of `top --help`.
pub(super) const TOP_EXAMPLES: &str = "\
Examples:
  slidegate top
  slidegate top --address 127.0.0.1:9090 --filter login
  slidegate top --once
  slidegate top --json | jq '.totals'
";

pub(super) const SIMULATE_EXAMPLES: &str = "\
Examples:
  slidegate simulate access.log --quota 10/minute --key client
  slidegate simulate 'logs/access.log*' --quota 100/hour --key user --status 2xx --json
  zcat old.gz | slidegate simulate - --quota 5/minute --path /login --key '{client} {route}'
  slidegate simulate app.log --quota 20/10s --pattern '^(?<time>\\S+) user=(?<key>\\S+)'
  slidegate simulate access.log --quota 10/minute --what-if 20/minute,50/minute
  slidegate simulate --traffic boundary --quota 100/minute
  slidegate simulate --traffic poisson:requests=10000000,keys=1000 --quota 100/minute

Patterns of --traffic: boundary, steady, poisson, zipf, bursts, diurnal, flash-crowd, one-off, brute-force.
";

pub(super) const PLAN_EXAMPLES: &str = "\
Examples:
  slidegate plan --keys 1M --rate 100/minute
  slidegate plan --keys 10M --rate 1k/min --store redis
  slidegate plan --keys 10M --rate 1k/min --store redis --denied 30 --node-memory 128
  slidegate plan --keys 50k --rate 20/s --algorithm counter --json

The output shows the arithmetic, and the measured numbers with the documents that contain them.
";

pub(super) const BENCH_EXAMPLES: &str = "\
Examples:
  slidegate bench http://127.0.0.1:8080 --policy example --quota 10/10s --rate 1000 --for 30s
  slidegate bench grpc://127.0.0.1:8081 --domain shop --entry user --quota 100/minute
  slidegate bench resp://127.0.0.1:6380 --policy example --quota 10/10s --distribution zipf
  slidegate bench redis://127.0.0.1:6379 --quota 100/second --algorithm gcra --rate 2000 --denials 30
  slidegate bench 'http://127.0.0.1:3000/api?user={key}' --quota 5/second --rate 100 --html report.html
  slidegate bench http://127.0.0.1:3000/ --header 'x-api-key: {key}' --distribution hot --json

Ctrl-C ends the run and prints what was measured so far. The exit code is 1 if a decision was wrong or missing, or
a request was due and not sent.
";

pub(super) const EXIT_CODES: &str = "\
Exit codes:
  0   success; `check`: allowed
  1   failure; `check`: denied
  2   invalid command line
  69  the daemon or the store could not be reached
  78  invalid configuration
";
