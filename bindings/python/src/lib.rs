//! The native part of the Python package `slidegate`.
//!
//! It exposes gates and the client's state machine, and nothing else. The package's Python makes a
//! convenient interface of them and translates the frameworks.
//!
//! A call whose state is in memory runs immediately. Any other call releases the GIL, or runs in a
//! tokio runtime (`task.rs`) that passes the result to an event loop (`delivery.rs`).

mod address;
mod clock;
mod decision;
mod delivery;
mod error;
mod http_answer;
mod key;
mod key_header;
mod limiter;
mod operation;
mod pacing;
mod receipt;
mod runtime;
mod several;
mod store;
mod task;
mod time;

use pyo3::prelude::*;

/// The module `slidegate._native`.
#[pymodule(gil_used = false)]
mod _native {
    #[pymodule_export]
    use super::address::AddressRules;
    #[pymodule_export]
    use super::clock::ManualClock;
    #[pymodule_export]
    use super::decision::{Decision, Quota};
    #[pymodule_export]
    use super::http_answer::{HttpOptions, http_answer};
    #[pymodule_export]
    use super::key_header::KeyHeader;
    #[pymodule_export]
    use super::limiter::{Gate, Limiter, metrics};
    #[pymodule_export]
    use super::pacing::{Pacing, Ticket};
    #[pymodule_export]
    use super::receipt::Receipt;
    #[pymodule_export]
    use super::several::check_all;
    #[pymodule_export]
    use super::store::Store;
    #[pymodule_export]
    use super::task::Pending;

    use super::{Bound, PyAnyMethods, PyModule, PyModuleMethods, PyResult, delivery};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let close = pyo3::wrap_pyfunction!(delivery::close, module)?;
        module.py().import("atexit")?.call_method1("register", (close,))?;
        module.add("CODES", slidegate_bindings::CODES)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
