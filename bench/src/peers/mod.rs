//! Other limiters, each used as its documentation recommends.

mod governor;
mod pingora;
mod throttlecrab;
mod trypema;

pub(crate) use self::governor::Governor;
pub(crate) use self::pingora::Pingora;
pub(crate) use self::throttlecrab::Throttlecrab;
pub(crate) use self::trypema::Trypema;
