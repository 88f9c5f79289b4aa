//! Reading what others wrote: lines, structured fields, numbers and dates.

pub(crate) mod date;
pub(crate) mod lines;
pub(crate) mod number;
pub(crate) mod structured;
