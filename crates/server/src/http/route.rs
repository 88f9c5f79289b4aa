//! The routes: one table for the router and for the `OpenAPI` document.

use http::Method;

use super::error::ApiErrorKind::{
    self, Busy, Failed, Forbidden, Malformed, NotJson, Slow, StoreFailed, TooLarge, UnknownPolicy,
    UnknownTier, Unsupported,
};
use crate::access::Scope;

/// An operation and its path.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) method: &'static str,
    /// A last part in braces matches any text.
    pub(super) path: &'static str,
    pub(super) operation: Operation,
    pub(super) summary: &'static str,
    /// The schema of the body.
    pub(super) request: Option<&'static str>,
    pub(super) reply: ReplySchema,
    pub(super) errors: &'static [ApiErrorKind],
}

/// The operation of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Check,
    CheckQuery,
    CheckAll,
    Batch,
    Peek,
    Refund,
    Reserve,
    Settle,
    Usage,
    History,
    Reset,
    Policies,
    Policy,
    Auth,
    Document,
}

impl Operation {
    /// The scope that it needs; `None` for what every client may see.
    pub(super) fn scope(self) -> Option<Scope> {
        match self {
            Self::Check
            | Self::CheckQuery
            | Self::CheckAll
            | Self::Batch
            | Self::Reserve
            | Self::Policies
            | Self::Policy
            | Self::Auth => Some(Scope::Check),
            Self::Peek | Self::Usage | Self::History => Some(Scope::Look),
            Self::Refund | Self::Settle | Self::Reset => Some(Scope::Change),
            Self::Document => None,
        }
    }
}

/// The shape of a successful reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReplySchema {
    /// This schema, with rate limit fields. `?status=` selects 200 or 429 for a denial.
    Decision(&'static str),
    /// This schema.
    Plain(&'static str),
    /// Rate limit fields only. `?status=` selects 403 or 429 for a denial.
    Empty,
    /// Any object.
    Object,
}

/// The result of a route lookup.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RouteMatch<'a> {
    /// The operation, and the text at the braces.
    Found(Operation, &'a str),
    /// The path exists only for these methods.
    WrongMethod(String),
    UnknownPath,
}

/// Returns the route of a request.
pub(super) fn find<'a>(method: &Method, path: &'a str) -> RouteMatch<'a> {
    for route in ROUTES {
        if let Some(rest) = route.matches(path)
            && route.method == method.as_str()
        {
            return RouteMatch::Found(route.operation, rest);
        }
    }
    not_found(path)
}

#[cold]
fn not_found(path: &str) -> RouteMatch<'_> {
    let routes = ROUTES.iter().filter(|route| route.matches(path).is_some());
    let methods: Vec<&str> = routes.map(|route| route.method).collect();
    match &*methods {
        [] => RouteMatch::UnknownPath,
        methods => RouteMatch::WrongMethod(methods.join(", ")),
    }
}

impl Route {
    const fn get(path: &'static str, operation: Operation, summary: &'static str) -> Self {
        let (method, reply) = ("GET", ReplySchema::Object);
        let errors = &[Malformed, Failed];
        Self { method, path, operation, summary, request: None, reply, errors }
    }

    const fn post(path: &'static str, operation: Operation, summary: &'static str) -> Self {
        Self { method: "POST", errors: BODY_ERRORS, ..Self::get(path, operation, summary) }
    }

    const fn takes(mut self, schema: &'static str) -> Self {
        self.request = Some(schema);
        self
    }

    const fn replies(mut self, reply: ReplySchema) -> Self {
        self.reply = reply;
        self
    }

    const fn fails(mut self, errors: &'static [ApiErrorKind]) -> Self {
        self.errors = errors;
        self
    }

    /// Returns the text at the braces if the route matches this path.
    fn matches<'a>(&self, path: &'a str) -> Option<&'a str> {
        if self.path == path {
            return Some("");
        }
        let (before, _) = self.path.split_once('{')?;
        path.strip_prefix(before).filter(|rest| !rest.is_empty())
    }
}

macro_rules! body_errors {
    ($($more:ident),*) => {
        &[Malformed, Slow, TooLarge, NotJson, Failed, Busy $(, $more)*]
    };
}

const BODY_ERRORS: &[ApiErrorKind] = body_errors!();
const CHECK_ERRORS: &[ApiErrorKind] = body_errors!(UnknownPolicy, UnknownTier, StoreFailed);
const UNITS_ERRORS: &[ApiErrorKind] =
    body_errors!(UnknownPolicy, UnknownTier, Unsupported, StoreFailed);

/// All routes, the most frequent first. Envoy's `POST /json` and `GET /healthcheck` are in
/// `envoy.rs`.
pub(super) static ROUTES: &[Route] = &[
    Route::post(
        "/v1/check",
        Operation::Check,
        "Checks a request, and takes its units if it is allowed",
    )
    .takes("Ask")
    .replies(ReplySchema::Decision("Answer"))
    .fails(CHECK_ERRORS),
    Route::get("/v1/check", Operation::CheckQuery, "Checks a request with query parameters")
        .replies(ReplySchema::Decision("Answer"))
        .fails(&[Malformed, UnknownPolicy, UnknownTier, Failed, StoreFailed]),
    Route::get("/auth", Operation::Auth, "Checks a request of a proxy against the rules")
        .replies(ReplySchema::Empty)
        .fails(&[Malformed, Forbidden, Failed, StoreFailed]),
    Route::post("/v1/check_all", Operation::CheckAll, "Checks several policies, all or nothing")
        .takes("AsksTogether")
        .replies(ReplySchema::Decision("AnswerTogether"))
        .fails(CHECK_ERRORS),
    Route::post("/v1/batch", Operation::Batch, "Runs many independent checks")
        .takes("Asks")
        .replies(ReplySchema::Plain("Answers")),
    Route::post("/v1/peek", Operation::Peek, "Evaluates a check without taking units")
        .takes("Ask")
        .replies(ReplySchema::Decision("Answer"))
        .fails(CHECK_ERRORS),
    Route::post(
        "/v1/reserve",
        Operation::Reserve,
        "Takes an estimate, which is settled when the real cost is known",
    )
    .takes("Reservation")
    .replies(ReplySchema::Decision("Answer"))
    .fails(CHECK_ERRORS),
    Route::post("/v1/settle", Operation::Settle, "Corrects an estimate to the real cost")
        .takes("Settlement")
        .replies(ReplySchema::Plain("Settled"))
        .fails(UNITS_ERRORS),
    Route::post("/v1/refund", Operation::Refund, "Refunds exactly the units of a receipt")
        .takes("Refund")
        .replies(ReplySchema::Plain("Refunded"))
        .fails(UNITS_ERRORS),
    Route::post("/v1/usage", Operation::Usage, "Returns the units of a key that count now")
        .takes("Who")
        .replies(ReplySchema::Plain("Usage"))
        .fails(CHECK_ERRORS),
    Route::post(
        "/v1/history",
        Operation::History,
        "Lists the requests of a key that are still in the longest window",
    )
    .takes("Who")
    .replies(ReplySchema::Plain("History"))
    .fails(UNITS_ERRORS),
    Route::post("/v1/reset", Operation::Reset, "Removes a key, so that its usage is zero")
        .takes("Forget")
        .replies(ReplySchema::Plain("Forgotten"))
        .fails(body_errors!(UnknownPolicy, StoreFailed)),
    Route::get("/v1/policies", Operation::Policies, "Lists the current policies")
        .replies(ReplySchema::Plain("Policies")),
    Route::get("/v1/policies/{name}", Operation::Policy, "Shows one policy")
        .replies(ReplySchema::Plain("Policy"))
        .fails(&[Malformed, UnknownPolicy, Failed]),
    Route::get("/openapi.json", Operation::Document, "Describes the API"),
];

#[cfg(test)]
mod tests;
