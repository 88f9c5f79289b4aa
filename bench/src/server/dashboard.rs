//! What an open dashboard costs requests, in instructions of the daemon's process.
//!
//! While a page is open, gates report decisions to an observer, which counts the most frequent keys. Its
//! instructions are counted alone, so that nothing else of the daemon disturbs them. A document per second
//! is what the page costs whether there are requests or not; it is counted separately.

use core::time::Duration;
use std::net::Ipv4Addr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::count::number_after;
use super::load_client::LoadClient;
use super::process::{Server, Wrapper};
use super::program::Programs;
use super::subject::ServerKind;
use super::workload::{Protocol, WORKLOADS};
use crate::Failure;
use crate::json::JsonLine;
use crate::options::Options;
use crate::progress;
use crate::rounding::to_float;
use crate::table::Table;

/// The observer of the dashboard.
const OBSERVER: &str = "*HotKeys*decided*";
/// Requests per second, few enough that each of them is recorded.
const SLOW_RATE: f64 = 200.0;
/// Requests of the shorter run. The longer one has twice as many.
const REQUESTS: u64 = 1600;
/// The number of requests after which the page is read again, so that it stays open.
const READ_EVERY: u64 = 320;
/// The number of attempts until gates report to the observer, one per second.
const ATTEMPTS: u32 = 60;
/// The documents of the shorter run.
const DOCUMENTS: u64 = 10;

/// Prints the instructions per request with the page closed, and what is added when it is open.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run_all(options))
}

async fn run_all(options: &Options) -> Result<(), Failure> {
    let programs = Programs::for_daemon()?;
    let columns = ["workload", "closed", "observer, closed", "recorded", "observer, open", "more"];
    let mut table = Table::new(&columns);
    for workload in &WORKLOADS {
        progress::say(&format!("dashboard: {}", workload.name));
        let protocol = workload.protocol;
        let closed = closed(protocol, &programs, Wrapper::Callgrind).await?;
        let nothing = closed_observer(protocol, &programs).await?;
        for rate in [Some(SLOW_RATE), None] {
            let Observed { instructions, one_in } = observer(protocol, &programs, rate).await?;
            let recorded = match one_in {
                1 => "each request".to_owned(),
                one_in => format!("one of {one_in}"),
            };
            table.row(vec![
                workload.name.to_owned(),
                format!("{closed:.0}"),
                format!("{nothing:.0}"),
                recorded,
                format!("{instructions:.1}"),
                format!("{:.2} %", instructions / closed * 100.0),
            ]);
            if options.json {
                JsonLine::new("dashboard")
                    .text("workload", workload.name)
                    .whole("recorded_one_in", one_in)
                    .number("closed", Some(closed), 0)
                    .number("observer_closed", Some(nothing), 0)
                    .number("observer_open", Some(instructions), 1)
                    .print();
            }
        }
    }
    let document = document(&programs).await?;
    if options.json {
        JsonLine::new("dashboard").number("document", Some(document), 0).print();
    } else {
        println!("\ninstructions per request\n");
        table.print();
        println!("\ninstructions per document, of which a page gets one per second: {document:.0}");
    }
    Ok(())
}

/// Instructions per request while no page is open.
async fn closed(protocol: Protocol, programs: &Programs, wrapper: Wrapper) -> Result<f64, Failure> {
    let mut counts = [0.0; 2];
    for (count, requests) in counts.iter_mut().zip([REQUESTS, 2 * REQUESTS]) {
        let server = ServerKind::Slidegate.start(programs, 1, wrapper).await?;
        let mut client = LoadClient::open_one(ServerKind::Slidegate, protocol, &server).await?;
        for _ in 0..requests {
            client.ask().await?;
        }
        drop(client);
        *count = number_after(&server.end()?, "Collected :")?;
    }
    Ok((counts[1] - counts[0]) / to_float(REQUESTS * protocol.batch()))
}

/// The same of the observer alone: none, unless a closed page costs something.
async fn closed_observer(protocol: Protocol, programs: &Programs) -> Result<f64, Failure> {
    closed(protocol, programs, Wrapper::CallgrindWithin(OBSERVER)).await
}

/// Instructions of the observer per request, and the requests of which one is recorded.
struct Observed {
    instructions: f64,
    one_in: u64,
}

/// Counts the observer while a page is open. Without a rate, requests follow each other at once.
async fn observer(
    protocol: Protocol,
    programs: &Programs,
    rate: Option<f64>,
) -> Result<Observed, Failure> {
    let (mut counts, mut one_in) = ([0.0; 2], 1);
    for (count, requests) in counts.iter_mut().zip([REQUESTS, 2 * REQUESTS]) {
        let within = Wrapper::CallgrindWithin(OBSERVER);
        let server = ServerKind::Slidegate.start(programs, 1, within).await?;
        let mut client = LoadClient::open_one(ServerKind::Slidegate, protocol, &server).await?;
        open_page(&server, &mut client).await?;
        // Without a rate, as many pipelines as a rate has requests.
        let asks = if rate.is_some() { requests / protocol.batch() } else { requests };
        let period = rate.map(|rate| Duration::from_secs_f64(to_float(protocol.batch()) / rate));
        let mut turns = period.map(interval);
        for ask in 1..=asks {
            if let Some(turns) = &mut turns {
                turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
                turns.tick().await;
            }
            client.ask().await?;
            if ask % (READ_EVERY / protocol.batch()).max(1) == 0 {
                let state = read_state(&server).await?;
                let recorded = state["keys"]["recorded_one_in"].as_u64();
                one_in = recorded.ok_or("the state has no recorded_one_in")?;
            }
        }
        drop(client);
        *count = number_after(&server.end()?, "Collected :")?;
    }
    let batch = if rate.is_some() { 1 } else { protocol.batch() };
    Ok(Observed { instructions: (counts[1] - counts[0]) / to_float(REQUESTS * batch), one_in })
}

/// Reads the page until gates report decisions.
async fn open_page(server: &Server, client: &mut LoadClient) -> Result<(), Failure> {
    for _ in 0..ATTEMPTS {
        client.ask().await?;
        let state = read_state(server).await?;
        if state["keys"]["hottest"].as_array().is_some_and(|keys| !keys.is_empty()) {
            return Ok(());
        }
        sleep(Duration::from_secs(1)).await;
    }
    Err("the daemon does not count keys although its dashboard is open".into())
}

/// Counts the instructions per document, by reading it more often.
async fn document(programs: &Programs) -> Result<f64, Failure> {
    let mut counts = [0.0; 2];
    for (count, documents) in counts.iter_mut().zip([DOCUMENTS, 2 * DOCUMENTS]) {
        let kind = ServerKind::Slidegate;
        let server = kind.start(programs, 1, Wrapper::Callgrind).await?;
        let mut client = LoadClient::open_one(kind, Protocol::Http, &server).await?;
        open_page(&server, &mut client).await?;
        for _ in 0..REQUESTS {
            client.ask().await?;
        }
        for _ in 0..documents {
            read_state(&server).await?;
        }
        drop(client);
        *count = number_after(&server.end()?, "Collected :")?;
    }
    Ok((counts[1] - counts[0]) / to_float(DOCUMENTS))
}

/// Reads what the page reads once per second, with its charts.
async fn read_state(server: &Server) -> Result<serde_json::Value, Failure> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, server.ports.admin)).await?;
    let question = "GET /dashboard/state?charts=700,460 HTTP/1.1\r\nhost: localhost\r\n\
                    connection: close\r\n\r\n";
    stream.write_all(question.as_bytes()).await?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await?;
    let (_, body) = reply.split_once("\r\n\r\n").ok_or("the state has no body")?;
    Ok(serde_json::from_str(body)?)
}
