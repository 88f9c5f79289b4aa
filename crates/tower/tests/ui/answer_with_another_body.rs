//! A function whose responses have another body type than those of the service.

use axum::{Router, routing::get};
use http::Response;
use slidegate::{Limiter, Policy, Quota};
use slidegate_tower::{RateLimitLayer, Rule};

fn main() {
    let policy = Policy::new("api", Quota::per_second(50)).unwrap();
    let layer = RateLimitLayer::builder()
        .rule(Rule::new(Limiter::new(policy).unwrap()))
        .answer(|denial| Response::new(denial.message()))
        .build()
        .unwrap();
    let _app: Router = Router::new().route("/", get(|| async { "hello" })).layer(layer);
}
