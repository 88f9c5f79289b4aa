//! Calls that there is no room for.

use core::time::Duration;

use http::{Request, Response};
use http_body::Body as HttpBody;
use slidegate_tower::OverloadGuard;
use tonic::body::Body;
use tonic::codegen::StdError;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use super::rls::Rls;
use crate::overload::admit;

/// Answers a call when there is room. Its message is not read before.
pub(super) async fn call_behind<B>(
    guard: OverloadGuard,
    rls: Rls,
    request: Request<B>,
) -> Response<Body>
where
    B: HttpBody + Send + 'static,
    B::Error: Into<StdError> + Send,
{
    match admit(&guard).await {
        Ok(pass) => {
            let response = rls.call(request).await;
            drop(pass);
            response
        }
        Err(after) => shed(after).into_http(),
    }
}

/// As the gRPC clients of all languages understand it: another server may have room, this one not
/// before that time.
fn shed(after: Duration) -> Status {
    let details = ErrorDetails::with_retry_info(Some(after));
    Status::with_error_details(Code::Unavailable, "there is more to do than can be done", details)
}
