//! Reads files, the environment and flags into [`Settings`] and a [`Spec`](crate::spec::Spec).

mod access;
mod check;
mod domain_json;
mod environment;
mod envoy;
mod files;
mod format;
mod headers;
mod leaf;
mod lint;
mod load;
mod native;
mod print;
mod reference;
pub mod report;
pub mod scenario;
mod schema;
mod secrets;
mod settings;
mod sliding;
mod source;
mod statsd;
pub(crate) mod table;
pub(crate) mod yaml;

pub use access::AccessSettings;
pub use environment::Environment;
pub(crate) use envoy::list_directory;
pub(crate) use files::{open_file, read_file};
pub use format::Format;
pub use headers::{DenialBody, HeaderSettings, PartitionSecret, RateLimitForm, ResetForm};
pub use load::{InvalidConfig, Loaded, Request, load};
pub use print::{policy_origins, print_config, print_config_json, yaml_to_json};
pub use reference::reference;
pub use schema::schema;
pub use settings::{
    AdminSettings, AuditDecisions, AuditSettings, EnvoySettings, LimitSettings, ListenSettings,
    LogFormat, LogLevel, LogSettings, OverloadSettings, Settings, SnapshotSettings, TlsSettings,
    TracingSettings,
};
pub use source::Origin;
pub use statsd::{StatsdDialect, StatsdProtocol, StatsdSettings};
