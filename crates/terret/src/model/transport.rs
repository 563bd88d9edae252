//! What carries requests: the program's own HTTP client, or the one that comes along.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;

/// The words of HTTP a client is spoken to in, from the crate `http`.
pub use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri};

/// The body of a response, as it arrives.
pub type Body = BoxStream<'static, Result<Bytes, HttpError>>;

/// Sends requests. Proxies, certificates, connections and further headers are its own affair; what a response means
/// is the adapter's.
pub trait HttpClient: Send + Sync {
    /// Sends a request once and answers when the head of the response is there.
    ///
    /// Its URL, headers and body go out as they are: the log has the digest of the body. Every status is an answer,
    /// also one that redirects. The body is given on as it arrives, neither collected nor inflated. Nothing is tried
    /// again, since retries are policy and stand in the log. Waits are limited by the caller, who drops the future
    /// or the body: that ends the request. A body that was read to its end leaves its connection to the next request.
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<Body>, HttpError>>;

    /// The proxy that a request to this URL goes through, for failures to name: scheme, host and port, no password.
    fn proxy(&self, _url: &Uri) -> Option<String> {
        None
    }
}

/// Why there is no response, or no more of one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{cause}")]
pub struct HttpError {
    /// What it is.
    pub kind: HttpErrorKind,
    /// What happened, in the words of whoever saw it.
    pub cause: String,
}

/// What can go wrong below HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpErrorKind {
    /// There is no connection.
    Connect,
    /// There was no connection in time.
    ConnectTimeout,
    /// The server's certificate is not trusted; the same one would be shown again.
    Certificate,
    /// The proxy lets nobody through without a user and a password.
    ProxyAuth,
    /// The connection broke.
    Broken,
    /// The client itself does not work.
    Client,
}

impl HttpError {
    /// An error of this kind.
    pub fn new(kind: HttpErrorKind, cause: impl Into<String>) -> Self {
        HttpError { kind, cause: cause.into() }
    }
}
