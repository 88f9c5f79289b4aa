//! Receipts of allowed checks.

use core::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use pyo3::types::PyType;
use slidegate_bindings::PlainReceipt;

use crate::key::{Key, Units};

/// The arguments that rebuild a receipt.
type Parts<'a> = (Py<PyAny>, u64, u64, u16, Option<&'a str>);

/// The receipt of an allowed check, to refund or settle it once.
///
/// It can be stored and rebuilt from its parts, for a refund by another process.
#[pyclass(frozen, module = "slidegate")]
#[derive(Debug)]
pub(crate) struct Receipt {
    key: Key,
    tier: Option<String>,
    parts: PlainReceipt,
    is_used: AtomicBool,
}

#[pymethods]
impl Receipt {
    #[new]
    #[pyo3(signature = (key, units, tick, epoch, tier = None))]
    fn new(key: Key, units: Units, tick: u64, epoch: u16, tier: Option<String>) -> Self {
        Self::of(key, tier, PlainReceipt { units: units.0, tick, epoch })
    }

    /// The units taken.
    #[getter]
    fn units(&self) -> u64 {
        self.parts.units
    }

    /// The tick at which they are recorded.
    #[getter]
    fn tick(&self) -> u64 {
        self.parts.tick
    }

    /// The epoch of the key's state.
    #[getter]
    fn epoch(&self) -> u16 {
        self.parts.epoch
    }

    /// The key.
    #[getter]
    fn key(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match &self.key {
            Key::Text(text) => Ok(text.clone_ref(py).into_pyobject(py)?.into_any().unbind()),
            Key::Bytes(bytes) => Ok(bytes.clone_ref(py).into_pyobject(py)?.into_any().unbind()),
        }
    }

    /// The tier of the request.
    #[getter]
    fn tier(&self) -> Option<&str> {
        self.tier.as_deref()
    }

    /// Whether it was refunded or settled.
    #[getter]
    fn used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    fn __repr__(&self) -> String {
        // The key may be a secret.
        format!("Receipt(units={}, tick={})", self.parts.units, self.parts.tick)
    }

    /// Pickles the parts. A copy does not know that the original is used.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyType>, Parts<'_>)> {
        let PlainReceipt { units, tick, epoch } = self.parts;
        let parts = (self.key(py)?, units, tick, epoch, self.tier());
        Ok((py.get_type::<Self>(), parts))
    }
}

impl Receipt {
    pub(crate) fn of(key: Key, tier: Option<String>, parts: PlainReceipt) -> Self {
        Self { key, tier, parts, is_used: AtomicBool::new(false) }
    }

    /// Returns the key and the tier.
    pub(crate) fn subject(&self, py: Python<'_>) -> (Key, Option<&str>) {
        (self.key.clone_ref(py), self.tier.as_deref())
    }

    /// Marks the receipt as used and returns its parts. Returns `None` if it was used already.
    pub(crate) fn consume(&self) -> Option<PlainReceipt> {
        // Only this flag is shared, so no ordering with other memory is needed.
        (!self.is_used.swap(true, Ordering::Relaxed)).then_some(self.parts)
    }
}
