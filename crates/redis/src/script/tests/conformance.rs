//! Every trace of the `conformance` folder.

use std::cell::RefCell;
use std::rc::Rc;

use slidegate_testkit::{load_all, run};

use super::subject::Caller;
use super::{RedisSubject, Server};

#[test]
fn redis_passes_every_trace() {
    let server = Server::start();
    let caller = Rc::new(RefCell::new(Caller::new(server.connect())));
    let mut failures = Vec::new();
    for trace in load_all().unwrap() {
        let mut subject = RedisSubject::new(&caller, &trace).unwrap();
        match run(&trace, &mut subject) {
            Ok(report) if report.skipped == 0 => {}
            Ok(report) => failures.push(format!("{} was cut short: {report:?}", trace.name)),
            Err(mismatch) => failures.push(mismatch.to_string()),
        }
    }
    assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures.join("\n"));
}
