//! The layer between the gate and the packages for other languages.
//!
//! A package passes options as JSON, or a configuration file of the daemon as YAML, and gets
//! [gates](slidegate_gate::Gate). It turns the results into its own types by way of
//! [`PlainDecision`] and [`HttpAnswer`], and errors by their [`code`].
//!
//! | task | see |
//! |---|---|
//! | a gate from options | [`PolicyOptions::from_json`], [`PolicyOptions::gate`] |
//! | gates from a file of the daemon | [`Config::from_yaml`], [`Config::gates`] |
//! | a connection to Redis | [`StoreOptions::from_json`], [`StoreOptions::connect`] |
//! | call a gate in memory without a runtime | [`run_now`] |
//! | header fields and the body of a denial | [`HttpOptions`], [`HttpAnswer`] |
//! | wait on a manual clock or on real time | [`sleep`] |
//! | the key of a client's address | [`address_key`], [`client_key`] |
//! | the key in a header field | [`KeyHeader`] |

#![forbid(unsafe_code)]

mod address;
mod config;
mod decision;
mod error;
mod http_answer;
mod key_header;
mod memory;
mod now;
mod policy;
mod quota;
mod sleep;
mod store;

pub use address::{AddressOptions, address_key, client_key};
pub use config::Config;
pub use decision::{PlainDecision, PlainQuota, PlainReceipt};
pub use error::{CODES, code};
pub use http_answer::{HttpAnswer, HttpOptions, HttpPart};
pub use key_header::KeyHeader;
pub use memory::MemoryOptions;
pub use now::run_now;
pub use policy::{CandidateOptions, Place, PolicyOptions};
pub use quota::QuotaList;
pub use sleep::sleep;
pub use store::{SentinelOptions, StoreOptions, Warn};
