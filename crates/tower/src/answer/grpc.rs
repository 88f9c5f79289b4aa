//! Denials as gRPC statuses.

use http::Response;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use super::{Answer, Denial, DenialKind};

/// Responds with a gRPC status: `RESOURCE_EXHAUSTED` for a used-up quota, `UNAVAILABLE` for an
/// overload or a failed store, each with a `RetryInfo` if the wait is known.
///
/// A denial by a quota also names the policies in a `QuotaFailure`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Grpc;

impl<R: Default> Answer<R> for Grpc {
    fn answer(&self, denial: &Denial) -> Response<R> {
        let code = match denial.kind() {
            DenialKind::QuotaExceeded => Code::ResourceExhausted,
            DenialKind::StoreFailed | DenialKind::Overloaded => Code::Unavailable,
            DenialKind::NoKey => Code::PermissionDenied,
            DenialKind::NoPeer => Code::Internal,
        };
        let mut details = ErrorDetails::new();
        if let Some(after) = denial.retry_after() {
            details.set_retry_info(Some(after));
        }
        for policy in denial.violated_policies() {
            details.add_quota_failure_violation(policy, "used up");
        }
        let status = Status::with_error_details(code, denial.message(), details);
        status.into_http()
    }
}
