//! One trait for every place where a policy's state can live.

use core::future::Future;

use crate::cost::Cost;
use crate::decision::Decision;
use crate::error::Error;
use crate::policy::Policy;
use crate::receipt::Receipt;

/// Where the state of one policy lives: in this process or behind a network.
///
/// A [`Limiter`](crate::Limiter) in memory has all of this without `async` and without errors; it
/// implements the trait so that code can be written for any store. Keys are bytes here, since
/// that is what travels.
///
/// `Err` means that the store failed, never that a request was denied; then the policy's
/// [`FailureMode`](crate::FailureMode) says what to answer.
pub trait Store: Send + Sync {
    /// The policy whose state this is.
    fn policy(&self) -> &Policy;

    /// Decides, and takes if allowed.
    fn check(&self, key: &[u8], cost: Cost)
    -> impl Future<Output = Result<Decision, Error>> + Send;

    /// Decides as if asked, and takes nothing.
    fn peek(&self, key: &[u8], cost: Cost) -> impl Future<Output = Result<Decision, Error>> + Send;

    /// Gives back the very units that a receipt names; how many there were to give.
    fn refund(
        &self,
        key: &[u8],
        receipt: Receipt,
    ) -> impl Future<Output = Result<u64, Error>> + Send;

    /// Forgets a key; whether there was anything to forget.
    fn reset(&self, key: &[u8]) -> impl Future<Output = Result<bool, Error>> + Send;
}
