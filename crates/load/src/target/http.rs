//! The HTTP API of slidegate, and any URL behind a limiter.

use core::fmt;

use http::header::{CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::{Failure, Verdict};

/// The longest body of a response.
const BODY_MAX: usize = 1 << 20;
/// The part of a URL or header that is replaced by the key.
const KEY: &str = "{key}";

/// What is sent for every key.
#[derive(Debug, Clone)]
pub struct HttpRequest {
    /// Host and port.
    host: String,
    /// Path and query, with `{key}`.
    path: String,
    /// Names and values, with `{key}`.
    headers: Vec<(HeaderName, String)>,
    /// The policy, if the URL is that of slidegate's API.
    policy: Option<String>,
}

impl HttpRequest {
    /// A `GET` of a URL, which may contain `{key}` in path and query, with header fields such as
    /// `x-api-key: {key}`. With status 429 the request was denied, with 2xx and 3xx it was allowed.
    ///
    /// # Errors
    ///
    /// Returns what is wrong with the URL or a field.
    pub fn url(url: &str, headers: &[String]) -> Result<Self, String> {
        let rest = url.strip_prefix("http://").ok_or_else(|| {
            format!("URL {url:?} does not start with http://; https is not supported")
        })?;
        let slash = rest.find(['/', '?']).unwrap_or(rest.len());
        let (host, path) = rest.split_at(slash);
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let authority = host.parse::<http::uri::Authority>();
        let authority =
            authority.map_err(|error| format!("URL {url:?} has no usable host: {error}"))?;
        let host = match authority.port_u16() {
            Some(_) => host.to_owned(),
            None => format!("{host}:80"),
        };
        let parse = path.replace(KEY, "k").parse::<Uri>();
        parse.map_err(|error| format!("URL {url:?} has no usable path: {error}"))?;
        let headers = headers.iter().map(|field| header(field)).collect::<Result<_, _>>()?;
        Ok(Self { host, path, headers, policy: None })
    }

    /// A check with the HTTP API of slidegate at `http://host:port`.
    ///
    /// # Errors
    ///
    /// Returns what is wrong with the URL or a field.
    pub fn api(url: &str, policy: &str, headers: &[String]) -> Result<Self, String> {
        let mut request = Self::url(url, headers)?;
        if !matches!(request.path.as_str(), "/" | "/v1/check") {
            return Err(format!(
                "URL {url:?} has a path; with a policy, requests are sent to /v1/check. Leave the path or the \
                 policy out"
            ));
        }
        "/v1/check".clone_into(&mut request.path);
        request.policy = Some(policy.to_owned());
        Ok(request)
    }

    pub(super) fn has_key(&self) -> bool {
        self.policy.is_some()
            || self.path.contains(KEY)
            || self.headers.iter().any(|(_, value)| value.contains(KEY))
    }

    fn build(&self, key: &str) -> Result<Request<Full<Bytes>>, http::Error> {
        let (method, body) = match &self.policy {
            Some(policy) => (Method::POST, json!({ "policy": policy, "key": key }).to_string()),
            None => (Method::GET, String::new()),
        };
        let mut request = Request::builder()
            .method(method)
            .uri(self.path.replace(KEY, key))
            .header(HOST, &self.host);
        if self.policy.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        for (name, value) in &self.headers {
            request = request.header(name, value.replace(KEY, key));
        }
        request.body(Full::new(Bytes::from(body)))
    }
}

/// Parses `name: value`.
fn header(field: &str) -> Result<(HeaderName, String), String> {
    let refuse = || format!("header {field:?} is not of the form `name: value`");
    let (name, value) = field.split_once(':').ok_or_else(refuse)?;
    let name = name.trim().parse().map_err(|_| refuse())?;
    let value = value.trim();
    HeaderValue::from_str(value).map_err(|_| refuse())?;
    Ok((name, value.to_owned()))
}

impl fmt::Display for HttpRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.policy {
            Some(policy) => write!(f, "http://{}/v1/check, policy {policy}", self.host),
            None => write!(f, "http://{}{}", self.host, self.path),
        }
    }
}

#[derive(Debug)]
pub(crate) struct HttpConnection {
    request: HttpRequest,
    link: Option<Link>,
}

#[derive(Debug)]
struct Link {
    sender: SendRequest<Full<Bytes>>,
    driver: JoinHandle<()>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl HttpConnection {
    pub(super) fn new(request: HttpRequest) -> Self {
        Self { request, link: None }
    }

    pub(super) fn disconnect(&mut self) {
        self.link = None;
    }

    pub(super) async fn connect(&mut self) -> Result<(), Failure> {
        if self.link.as_ref().is_some_and(|link| !link.sender.is_closed()) {
            return Ok(());
        }
        let stream = TcpStream::connect(&self.request.host).await;
        let stream = stream.map_err(|error| Failure::connect(&error))?;
        stream.set_nodelay(true).map_err(|error| Failure::connect(&error))?;
        let linked = handshake(TokioIo::new(stream)).await;
        let (sender, connection) = linked.map_err(|error| Failure::connect(&error))?;
        let driver = tokio::spawn(async move {
            // The request that fails with the connection reports the error.
            let _ = connection.await;
        });
        self.link = Some(Link { sender, driver });
        Ok(())
    }

    pub(super) async fn check(&mut self, key: &str) -> Result<Verdict, Failure> {
        self.connect().await?;
        let Some(link) = &mut self.link else {
            return Err(Failure::new("connect", "there is no connection"));
        };
        let request = self.request.build(key);
        let request = request.map_err(|error| Failure::new("request", error.to_string()))?;
        let broken = |error: hyper::Error| Failure::new("broken connection", super::chain(&error));
        link.sender.ready().await.map_err(broken)?;
        let response = link.sender.send_request(request).await.map_err(broken)?;
        let status = response.status();
        // The body is read to its end, so that the connection can be used again.
        let body = Limited::new(response.into_body(), BODY_MAX).collect().await;
        let body = body.map_err(|error| Failure::new("body", error.to_string()))?.to_bytes();
        if self.request.policy.is_some() && status == StatusCode::OK {
            return decision(&body);
        }
        match status {
            StatusCode::TOO_MANY_REQUESTS => Ok(Verdict::Denied),
            status if status.is_success() || status.is_redirection() => Ok(Verdict::Allowed),
            status => {
                let text = String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned();
                Err(Failure::new(format!("status {}", status.as_u16()), text))
            }
        }
    }
}

/// Reads the decision of slidegate's API. One that its store did not take part in is a failure.
fn decision(body: &[u8]) -> Result<Verdict, Failure> {
    let reply: Value = serde_json::from_slice(body).unwrap_or_default();
    if reply["degraded"].as_str().is_some() || reply["degraded"] == true {
        return Err(Failure::new("degraded", "the store did not decide"));
    }
    match reply["allowed"].as_bool() {
        Some(true) => Ok(Verdict::Allowed),
        Some(false) => Ok(Verdict::Denied),
        None => Err(Failure::new("no decision", "the reply is not from slidegate's API")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_put_into_url_and_headers() {
        let headers = ["X-Api-Key: {key}".to_owned()];
        let request = HttpRequest::url("http://localhost/a?user={key}", &headers).unwrap();
        assert!(request.has_key());
        let built = request.build("k7").unwrap();
        assert_eq!(built.uri(), "/a?user=k7");
        assert_eq!(built.headers()["x-api-key"], "k7");
        assert_eq!(built.headers()["host"], "localhost:80");
        assert!(!HttpRequest::url("http://localhost:8080", &[]).unwrap().has_key());
    }

    #[test]
    fn what_cannot_be_sent_is_refused_with_the_reason() {
        let refused = |url: &str| HttpRequest::url(url, &[]).unwrap_err();
        assert!(refused("https://example.com/").contains("https is not supported"));
        assert!(refused("http:///path").contains("no usable host"));
        assert!(refused("http://host/a b").contains("no usable path"));
        assert!(HttpRequest::url("http://host", &["no colon".to_owned()]).is_err());
        assert!(
            HttpRequest::api("http://host/path", "api", &[]).unwrap_err().contains("/v1/check")
        );
    }

    #[test]
    fn a_reply_without_a_decision_is_a_failure() {
        assert_eq!(decision(br#"{"allowed":true}"#), Ok(Verdict::Allowed));
        assert_eq!(decision(br#"{"allowed":false}"#), Ok(Verdict::Denied));
        assert_eq!(decision(b"hello").unwrap_err().kind, "no decision");
    }
}
