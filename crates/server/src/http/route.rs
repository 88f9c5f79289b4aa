//! Everything that can be asked: one table, for the router and for the documentation.

use http::Method;

use super::problem::RefusalKind::{
    self, Failed, Forbidden, Malformed, NotJson, Slow, StoreFailed, TooLarge, UnknownPolicy,
    UnknownTier, Unsupported,
};

/// One thing that can be asked.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) method: Method,
    /// A last part in braces stands for anything.
    pub(super) path: &'static str,
    pub(super) operation: Operation,
    pub(super) summary: &'static str,
    /// Names of schemas.
    pub(super) request: Option<&'static str>,
    pub(super) reply: Reply,
    /// Whether `?status=` chooses how a denial is told.
    pub(super) denial: Denial,
    pub(super) refusals: &'static [RefusalKind],
}

/// What is done.
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

/// What is answered when all is well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply {
    /// A schema, with the fields of what was judged.
    Judged(&'static str),
    /// A schema.
    Plain(&'static str),
    /// Nothing but fields.
    Empty,
    /// Any object.
    Object,
}

/// How a denial is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Denial {
    /// There is none.
    None,
    /// By 200, or by 429 when asked for.
    Answer,
    /// By 429, or by 403 when asked for.
    Refusal,
}

/// What asking for a path came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found<'a> {
    /// With what stands in the place of the braces.
    Route(Operation, &'a str),
    /// There is the path, for other methods.
    WrongMethod(String),
    Nothing,
}

/// The route of a request.
#[inline]
pub(super) fn find<'a>(method: &Method, path: &'a str) -> Found<'a> {
    for route in ROUTES {
        if let Some(rest) = route.holds(path)
            && route.method == *method
        {
            return Found::Route(route.operation, rest);
        }
    }
    missed(path)
}

#[cold]
fn missed(path: &str) -> Found<'_> {
    let here = ROUTES.iter().filter(|route| route.holds(path).is_some());
    let methods: Vec<&str> = here.map(|route| route.method.as_str()).collect();
    if methods.is_empty() { Found::Nothing } else { Found::WrongMethod(methods.join(", ")) }
}

impl Route {
    /// What stands in the place of the braces, if this is the path.
    #[inline]
    fn holds<'a>(&self, path: &'a str) -> Option<&'a str> {
        if self.path == path {
            return Some("");
        }
        let (before, _) = self.path.split_once('{')?;
        path.strip_prefix(before).filter(|rest| !rest.is_empty())
    }
}

/// What any request with a body may meet.
macro_rules! body_refusals {
    ($($more:ident),*) => {
        &[Malformed, Slow, TooLarge, NotJson, Failed $(, $more)*]
    };
}

const GET: Method = Method::GET;
const POST: Method = Method::POST;

/// The usual first. Envoy's `POST /json` and `GET /healthcheck` belong here too, with the domains.
pub(super) static ROUTES: &[Route] = &[
    Route {
        method: POST,
        path: "/v1/check",
        operation: Operation::Check,
        summary: "Asks whether a request may go on, and takes its units if so",
        request: Some("Ask"),
        reply: Reply::Judged("Answer"),
        denial: Denial::Answer,
        refusals: body_refusals!(UnknownPolicy, UnknownTier, StoreFailed),
    },
    Route {
        method: GET,
        path: "/v1/check",
        operation: Operation::CheckQuery,
        summary: "The same, asked by a query",
        request: None,
        reply: Reply::Judged("Answer"),
        denial: Denial::Answer,
        refusals: &[Malformed, UnknownPolicy, UnknownTier, Failed, StoreFailed],
    },
    Route {
        method: GET,
        path: "/auth",
        operation: Operation::Auth,
        summary: "Judges a request that a proxy has received, by the rules",
        request: None,
        reply: Reply::Empty,
        denial: Denial::Refusal,
        refusals: &[Malformed, Forbidden, Failed, StoreFailed],
    },
    Route {
        method: POST,
        path: "/v1/check_all",
        operation: Operation::CheckAll,
        summary: "Asks several policies, all or nothing",
        request: Some("AsksTogether"),
        reply: Reply::Judged("AnswerTogether"),
        denial: Denial::Answer,
        refusals: body_refusals!(UnknownPolicy, UnknownTier, StoreFailed),
    },
    Route {
        method: POST,
        path: "/v1/batch",
        operation: Operation::Batch,
        summary: "Asks many times at once, each by itself",
        request: Some("Asks"),
        reply: Reply::Plain("Answers"),
        denial: Denial::None,
        refusals: body_refusals!(),
    },
    Route {
        method: POST,
        path: "/v1/peek",
        operation: Operation::Peek,
        summary: "Looks what a check would answer, and takes nothing",
        request: Some("Ask"),
        reply: Reply::Judged("Answer"),
        denial: Denial::Answer,
        refusals: body_refusals!(UnknownPolicy, UnknownTier, StoreFailed),
    },
    Route {
        method: POST,
        path: "/v1/reserve",
        operation: Operation::Reserve,
        summary: "Takes an estimate, to be settled when the real cost is known",
        request: Some("Reservation"),
        reply: Reply::Judged("Answer"),
        denial: Denial::Answer,
        refusals: body_refusals!(UnknownPolicy, UnknownTier, StoreFailed),
    },
    Route {
        method: POST,
        path: "/v1/settle",
        operation: Operation::Settle,
        summary: "Corrects an estimate to the real cost",
        request: Some("Settlement"),
        reply: Reply::Plain("Settled"),
        denial: Denial::None,
        refusals: body_refusals!(UnknownPolicy, UnknownTier, Unsupported, StoreFailed),
    },
    Route {
        method: POST,
        path: "/v1/refund",
        operation: Operation::Refund,
        summary: "Gives back the very units that a receipt names",
        request: Some("Refund"),
        reply: Reply::Plain("Refunded"),
        denial: Denial::None,
        refusals: body_refusals!(UnknownPolicy, UnknownTier, Unsupported, StoreFailed),
    },
    Route {
        method: POST,
        path: "/v1/usage",
        operation: Operation::Usage,
        summary: "Tells how many units of a key count now",
        request: Some("Who"),
        reply: Reply::Plain("Usage"),
        denial: Denial::None,
        refusals: body_refusals!(UnknownPolicy, UnknownTier, StoreFailed),
    },
    Route {
        method: POST,
        path: "/v1/history",
        operation: Operation::History,
        summary: "Lists the requests of a key that are still in the longest window",
        request: Some("Who"),
        reply: Reply::Plain("History"),
        denial: Denial::None,
        refusals: body_refusals!(UnknownPolicy, UnknownTier, Unsupported, StoreFailed),
    },
    Route {
        method: POST,
        path: "/v1/reset",
        operation: Operation::Reset,
        summary: "Forgets a key",
        request: Some("Forget"),
        reply: Reply::Plain("Forgotten"),
        denial: Denial::None,
        refusals: body_refusals!(UnknownPolicy, StoreFailed),
    },
    Route {
        method: GET,
        path: "/v1/policies",
        operation: Operation::Policies,
        summary: "Lists the policies in force",
        request: None,
        reply: Reply::Plain("Policies"),
        denial: Denial::None,
        refusals: &[Malformed, Failed],
    },
    Route {
        method: GET,
        path: "/v1/policies/{name}",
        operation: Operation::Policy,
        summary: "Shows one policy",
        request: None,
        reply: Reply::Plain("Policy"),
        denial: Denial::None,
        refusals: &[Malformed, UnknownPolicy, Failed],
    },
    Route {
        method: GET,
        path: "/openapi.json",
        operation: Operation::Document,
        summary: "Describes all of this",
        request: None,
        reply: Reply::Object,
        denial: Denial::None,
        refusals: &[Malformed, Failed],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_is_found_by_what_the_table_says() {
        for route in ROUTES {
            let path = route.path.replace("{name}", "api/x");
            let rest = if path == route.path { "" } else { "api/x" };
            assert_eq!(find(&route.method, &path), Found::Route(route.operation, rest));
        }
    }

    #[test]
    fn what_is_not_in_the_table_is_told_apart() {
        assert_eq!(find(&Method::PUT, "/v1/check"), Found::WrongMethod("POST, GET".to_owned()));
        assert_eq!(find(&Method::POST, "/auth"), Found::WrongMethod("GET".to_owned()));
        for path in ["/", "/v1/chec", "/v1/check/", "/v1/policies/", "/V1/check", "*", ""] {
            assert_eq!(find(&Method::GET, path), Found::Nothing, "{path}");
        }
    }
}
