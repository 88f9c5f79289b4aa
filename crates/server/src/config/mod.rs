//! Reads files, the environment and flags into [`Settings`] and a [`Spec`](crate::spec::Spec).

mod loaded;
pub mod report;
mod settings;

pub use loaded::Loaded;
pub use settings::{
    AdminSettings, AuditDecisions, AuditSettings, EnvoySettings, LimitSettings, ListenSettings,
    LogFormat, LogLevel, LogSettings, OverloadSettings, Settings, SnapshotSettings, TlsSettings,
};
