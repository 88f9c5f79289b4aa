//! Spans of decisions, configured as in `docs/daemon.md`.
//!
//! What could go wrong: a span that belongs to no trace, one that contains a key, or a collector
//! that is down and takes the daemon with it.

#[cfg(feature = "otlp")]
mod sent {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};

    use slidegate_testkit::server::poll;

    use crate::collector::{Collector, Span};
    use crate::process::{Daemon, Folder, command};

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const PARENT: &str = "00f067aa0ba902b7";

    fn config(folder: &Folder, collector: SocketAddr, more: &str) -> std::path::PathBuf {
        let text = format!(
            "tracing: {{endpoint: \"http://{collector}\"{more}}}\n\
             policies: [{{name: api, quotas: [2/h]}}]\n"
        );
        folder.write("limits.yaml", &text)
    }

    /// A check over HTTP, with a field more.
    fn check(daemon: &Daemon, key: &str, field: &str) {
        let mut stream = TcpStream::connect(daemon.http).unwrap();
        let head = format!(
            "GET /v1/check?policy=api&key={key} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{field}\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    fn bytes(hex: &str) -> Vec<u8> {
        let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        (0..hex.len()).step_by(2).map(byte).collect()
    }

    fn attributes(span: &Span) -> [&str; 3] {
        ["listener", "policy", "outcome"].map(|name| {
            span.text(&format!("slidegate.{name}")).unwrap_or_else(|| panic!("{span:?}"))
        })
    }

    #[test]
    fn decision_is_a_child_of_the_callers_span_and_contains_no_key() {
        let (folder, collector) = (Folder::new("spans"), Collector::start());
        let daemon = Daemon::with_config(&config(&folder, collector.address, ""));
        let traced = format!("traceparent: 00-{TRACE}-{PARENT}-01\r\n");
        for _ in 0..3 {
            check(&daemon, "alice-and-no-other", &traced);
        }
        // A request that is not sampled gets no span.
        check(&daemon, "bob", &format!("traceparent: 00-{TRACE}-{PARENT}-00\r\n"));
        check(&daemon, "bob", "");
        let mut resp = TcpStream::connect(daemon.resp).unwrap();
        resp.write_all(b"SG.CHECK api carol\r\n").unwrap();
        resp.read_exact(&mut [0; 1]).unwrap();
        let (ended, said) = daemon.terminate();
        assert!(ended.success(), "{said}");

        let spans = collector.came.spans();
        let outcomes: Vec<_> = spans.iter().map(attributes).collect();
        let expected = [
            ["http", "api", "allowed"],
            ["http", "api", "allowed"],
            ["http", "api", "denied"],
            ["http", "api", "allowed"],
            ["resp", "api", "allowed"],
        ];
        assert_eq!(outcomes, expected, "{said}");
        for span in &spans[..3] {
            assert_eq!((&span.trace_id, &span.parent_id), (&bytes(TRACE), &bytes(PARENT)));
        }
        for span in &spans[3..] {
            assert!(span.parent_id.is_empty() && span.trace_id != bytes(TRACE), "{span:?}");
        }
        for span in &spans {
            assert!(span.name == "rate_limit" && span.began > 0 && span.began <= span.ended);
        }
        let exports = format!("{:?}", collector.came.exports());
        assert!(exports.contains("slidegate") && !exports.contains("alice"), "{exports}");
    }

    #[test]
    fn the_standard_variable_names_the_collector_and_the_ratio_is_kept() {
        let (folder, collector) = (Folder::new("spans_variable"), Collector::start());
        let text = "tracing: {sample_ratio: 0}\npolicies: [{name: api, quotas: [2/h]}]\n";
        let path = folder.write("limits.yaml", text);
        let free = ["serve", "--listen-http", "127.0.0.1:0", "--listen-grpc", "127.0.0.1:0"];
        let more = ["--listen-resp", "127.0.0.1:0", "--listen-admin", "127.0.0.1:0", "--config"];
        let mut command = command(&[&free[..], &more[..], &[path.to_str().unwrap()]].concat());
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", collector.address));
        command.env("OTEL_BSP_SCHEDULE_DELAY", "10");
        let daemon = Daemon::with(command);
        for _ in 0..100 {
            check(&daemon, "bob", "");
        }
        check(&daemon, "bob", &format!("traceparent: 00-{TRACE}-{PARENT}-01\r\n"));
        let sent = || daemon.metric("slidegate_spans_total{result=\"sent\"}");
        poll("a span", || Ok((sent() == Some(1.0)).then_some(()))).unwrap();
        assert_eq!(collector.came.spans().len(), 1);
    }

    #[test]
    fn a_collector_that_is_down_or_hangs_costs_spans_and_nothing_else() {
        let hanging = TcpListener::bind("127.0.0.1:0").unwrap();
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        for (name, address) in [("down", closed), ("hanging", hanging.local_addr().unwrap())] {
            let folder = Folder::new(&format!("spans_{name}"));
            let daemon = Daemon::with_config(&config(&folder, address, ", queue_max: 4"));
            // Far more than there is room for.
            for number in 0..100 {
                check(&daemon, &format!("key-{number}"), "");
            }
            assert_eq!(daemon.metric("slidegate_spans_total{result=\"made\"}"), Some(100.0));
            assert_eq!(daemon.metric("slidegate_spans_total{result=\"sent\"}"), Some(0.0));
            assert_eq!(daemon.admin("GET", "/readyz").0, 200);
            let (ended, said) = daemon.terminate();
            assert!(ended.success(), "{name}: {said}");
        }
    }
}

#[cfg(not(feature = "otlp"))]
#[test]
fn program_without_tracing_rejects_the_setting() {
    let folder = crate::process::Folder::new("spans_none");
    let text = "policies: [{name: api, quotas: [2/h]}]\n";
    let path = folder.write("limits.yaml", text);
    let arguments = ["serve", "--config", path.to_str().unwrap()];
    let mut command = crate::process::command(&arguments);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317");
    let refused = command.output().unwrap();
    assert_eq!(refused.status.code(), Some(78));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("--features otlp") && said.contains("http://127.0.0.1:4317"), "{said}");
}
