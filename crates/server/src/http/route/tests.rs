//! Tests of `route`.

use super::*;

#[test]
fn every_route_is_found_under_its_path() {
    for route in ROUTES {
        let path = route.path.replace("{name}", "api/x");
        let rest = if path == route.path { "" } else { "api/x" };
        let method = route.method.parse().unwrap();
        assert_eq!(find(&method, &path), RouteMatch::Found(route.operation, rest));
    }
}

#[test]
fn wrong_methods_and_unknown_paths_differ() {
    let wrong = |methods: &str| RouteMatch::WrongMethod(methods.to_owned());
    assert_eq!(find(&Method::PUT, "/v1/check"), wrong("POST, GET"));
    assert_eq!(find(&Method::POST, "/auth"), wrong("GET"));
    for path in ["/", "/v1/chec", "/v1/check/", "/v1/policies/", "/V1/check", "*", ""] {
        assert_eq!(find(&Method::GET, path), RouteMatch::UnknownPath, "{path}");
    }
}
