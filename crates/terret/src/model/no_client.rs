//! In place of the HTTP client that comes along, where it was left out: says so.

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};

use super::transport::{Body, HttpClient, HttpError, HttpErrorKind, Request, Response, Uri};

/// Sends nothing.
pub(super) struct DefaultClient;

impl DefaultClient {
    pub(super) fn new(_: Uri) -> Self {
        DefaultClient
    }
}

impl HttpClient for DefaultClient {
    fn send(&self, _: Request<Bytes>) -> BoxFuture<'_, Result<Response<Body>, HttpError>> {
        let cause = "there is no HTTP client: give `Providers` one, or build terret with its feature `http`";
        ready(Err(HttpError::new(HttpErrorKind::Client, cause))).boxed()
    }
}
