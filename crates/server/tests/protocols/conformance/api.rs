//! Through the HTTP API.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use slidegate::ManualClock;
use slidegate_server::http::{Connections, HttpSettings, HttpState, ServeLimits, Server};
use slidegate_testkit::{Answer, QuotaStatus, Subject, SubjectError};
use tokio::net::TcpListener;

use super::{engine, play, traces};

struct HttpSubject<'a> {
    stream: BufReader<TcpStream>,
    policy: &'a str,
    clock: &'a ManualClock,
}

/// A receipt with the key it belongs to.
type KeyAndReceipt = (String, String);

impl HttpSubject<'_> {
    /// The answer to one call.
    fn call(&mut self, path: &str, mut body: Value) -> Result<Value, SubjectError> {
        body["policy"] = json!(self.policy);
        // The daemon takes no empty keys, and a trace has one.
        body["key"] = json!(format!("key {}", body["key"].as_str().unwrap()));
        let body = body.to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        );
        self.stream.get_mut().write_all((head + &body).as_bytes()).unwrap();
        let (mut status, mut length, mut line) = (String::new(), 0, String::new());
        loop {
            line.clear();
            self.stream.read_line(&mut line).unwrap();
            if status.is_empty() {
                line[9..12].clone_into(&mut status);
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).unwrap();
        let answer: Value = serde_json::from_slice(&body).unwrap();
        if status == "200" {
            Ok(answer)
        } else {
            Err(SubjectError::Failed(format!("{status} {answer}")))
        }
    }

    fn decide(
        &mut self,
        path: &str,
        body: Value,
    ) -> Result<(Answer, Option<String>), SubjectError> {
        let answer = self.call(path, body)?;
        let quotas = answer["quotas"].as_array().unwrap().iter().map(standing).collect();
        let allowed = answer["allowed"].as_bool().unwrap();
        let shadow_denied = answer["shadow_denied"].as_bool().unwrap_or(false);
        let receipt = answer["receipt"].as_str().map(str::to_owned);
        Ok((Answer { allowed, shadow_denied, quotas }, receipt))
    }
}

/// Seconds with three decimals at most.
fn millis(value: &Value) -> Duration {
    let text = value.to_string();
    let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
    let part: u64 = format!("{part:0<3}").parse().unwrap();
    Duration::from_millis(whole.parse::<u64>().unwrap() * 1000 + part)
}

fn standing(quota: &Value) -> QuotaStatus {
    let retry = quota.get("retry_after");
    QuotaStatus {
        limit: quota["limit"].as_u64().unwrap(),
        remaining: quota["remaining"].as_u64().unwrap(),
        retry_after: match retry {
            Some(Value::Null) => None,
            Some(value) => Some(millis(value)),
            None => Some(Duration::ZERO),
        },
        reset_after: millis(&quota["reset_after"]),
    }
}

impl Subject for HttpSubject<'_> {
    type Receipt = KeyAndReceipt;

    fn set_time(&mut self, now: Duration) -> Result<(), SubjectError> {
        self.clock.set(now);
        Ok(())
    }

    fn check(
        &mut self,
        key: &str,
        tier: Option<&str>,
        cost: u64,
    ) -> Result<(Answer, Option<KeyAndReceipt>), SubjectError> {
        let mut body = json!({ "key": key, "cost": cost });
        if let Some(tier) = tier {
            body["tier"] = json!(tier);
        }
        let (answer, receipt) = self.decide("/v1/check", body)?;
        Ok((answer, receipt.map(|receipt| (key.to_owned(), receipt))))
    }

    fn reserve(
        &mut self,
        key: &str,
        cost: u64,
    ) -> Result<(Answer, Option<KeyAndReceipt>), SubjectError> {
        let (answer, receipt) = self.decide("/v1/reserve", json!({ "key": key, "cost": cost }))?;
        Ok((answer, receipt.map(|receipt| (key.to_owned(), receipt))))
    }

    fn peek(&mut self, key: &str, cost: u64) -> Result<Answer, SubjectError> {
        Ok(self.decide("/v1/peek", json!({ "key": key, "cost": cost }))?.0)
    }

    fn refund(&mut self, (key, receipt): KeyAndReceipt) -> Result<u64, SubjectError> {
        let answer = self.call("/v1/refund", json!({ "key": key, "receipt": receipt }))?;
        Ok(answer["refunded"].as_u64().unwrap_or_else(|| panic!("{answer}")))
    }

    fn settle(&mut self, (key, receipt): KeyAndReceipt, actual: u64) -> Result<u64, SubjectError> {
        let body = json!({ "key": key, "receipt": receipt, "actual": actual });
        let answer = self.call("/v1/settle", body)?;
        Ok(answer["charged"].as_u64().unwrap_or_else(|| panic!("{answer}")))
    }

    fn reset(&mut self, key: &str) -> Result<bool, SubjectError> {
        let answer = self.call("/v1/reset", json!({ "key": key }))?;
        Ok(answer["reset"].as_bool().unwrap_or_else(|| panic!("{answer}")))
    }

    fn history(&mut self, key: &str) -> Result<Vec<(Duration, u64)>, SubjectError> {
        let answer = self.call("/v1/history", json!({ "key": key }))?;
        let events = answer["events"].as_array().unwrap_or_else(|| panic!("{answer}"));
        let event = |event: &Value| (millis(&event["at"]), event["units"].as_u64().unwrap());
        Ok(events.iter().map(event).collect())
    }

    fn usage(&mut self, key: &str) -> Result<Vec<u64>, SubjectError> {
        let answer = self.call("/v1/usage", json!({ "key": key }))?;
        let quotas = answer["quotas"].as_array().unwrap_or_else(|| panic!("{answer}"));
        Ok(quotas.iter().map(|quota| quota["used"].as_u64().unwrap()).collect())
    }
}

#[test]
fn traces_through_http() {
    let traces = traces();
    let (engine, clock) = engine(&traces);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let address = runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Server {
            listener,
            handler: Arc::new(HttpState::new(engine, HttpSettings::default())),
            limits: ServeLimits::default(),
            connections: Connections::new("http", 100),
            tls: None,
        };
        tokio::spawn(server.serve(std::future::pending()));
        address
    });
    for trace in &traces {
        play(trace, &mut subject(address, &trace.name, &clock));
    }
}

fn subject<'a>(address: SocketAddr, policy: &'a str, clock: &'a ManualClock) -> HttpSubject<'a> {
    let stream = BufReader::new(TcpStream::connect(address).unwrap());
    HttpSubject { stream, policy, clock }
}
