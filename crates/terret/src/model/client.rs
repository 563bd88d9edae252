//! The HTTP client that comes along: reqwest, with rustls and the certificates of the system. It retries nothing and
//! installs nothing for the whole process.

use std::error::Error;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, ready};
use futures_util::{FutureExt, StreamExt, TryStreamExt};
use hyper_util::client::proxy::matcher::Matcher;

use super::transport::{Body, HttpClient, HttpError, HttpErrorKind, Request, Response, Uri};
use crate::limits::CONNECT_TIMEOUT_MS;

/// One server's client. Proxies from the environment are honoured, and never for loopback.
pub(super) struct DefaultClient {
    base: Uri,
    /// Built at the first request, so that a program that sends none pays nothing.
    built: OnceLock<reqwest::Client>,
}

impl DefaultClient {
    /// A client for the server at this URL.
    pub(super) fn new(base: Uri) -> Self {
        DefaultClient { base, built: OnceLock::new() }
    }

    fn built(&self) -> Result<&reqwest::Client, HttpError> {
        if let Some(client) = self.built.get() {
            return Ok(client);
        }
        let client = build(&self.base).map_err(|error| {
            let cause = format!("the HTTP client cannot be built: {}", root_cause(&*error));
            HttpError::new(HttpErrorKind::Client, cause)
        })?;
        Ok(self.built.get_or_init(|| client))
    }
}

impl HttpClient for DefaultClient {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<Body>, HttpError>> {
        match self.built() {
            Ok(client) => HttpClient::send(client, request),
            Err(error) => ready(Err(error)).boxed(),
        }
    }

    fn proxy(&self, url: &Uri) -> Option<String> {
        let proxy = proxy_of(url)?;
        Some(format!("{}://{}:{}", proxy.scheme_str()?, proxy.host()?, port(&proxy)?))
    }
}

/// A client the program built itself: its proxies, certificates and limits hold. It should follow no redirects and
/// retry nothing.
impl HttpClient for reqwest::Client {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<Body>, HttpError>> {
        let (head, body) = request.into_parts();
        let request = self.request(head.method, head.uri.to_string()).headers(head.headers).body(body);
        async {
            let response = request.send().await.map_err(|error| read(&error))?;
            let (status, headers) = (response.status(), response.headers().clone());
            let body = response.bytes_stream().map_err(|error| read(&error)).boxed();
            let mut response = Response::new(body);
            (*response.status_mut(), *response.headers_mut()) = (status, headers);
            Ok(response)
        }
        .boxed()
    }
}

fn build(base: &Uri) -> Result<reqwest::Client, Box<dyn Error + Send + Sync>> {
    let hops = [Some(base.clone()), proxy_of(base)];
    let encrypted = hops.iter().flatten().any(|hop| hop.scheme_str() == Some("https"));
    let mut builder = reqwest::Client::builder()
        .tls_backend_preconfigured(tls(encrypted)?)
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .connect_timeout(Duration::from_millis(CONNECT_TIMEOUT_MS))
        .user_agent(concat!("terret/", env!("CARGO_PKG_VERSION")));
    if is_loopback(base) {
        builder = builder.no_proxy();
    }
    Ok(builder.build()?)
}

/// TLS with a provider of its own: a library must not choose one for the whole process.
fn tls(needed: bool) -> Result<rustls::ClientConfig, rustls::Error> {
    use rustls_platform_verifier::BuilderVerifierExt as _;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    if !needed {
        // Reading the system's certificates costs more than a local request.
        return Ok(builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth());
    }
    let mut config = builder.with_platform_verifier()?.with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// The proxy the environment names for this URL, found as reqwest finds it.
fn proxy_of(url: &Uri) -> Option<Uri> {
    let proxies = (!is_loopback(url)).then(Matcher::from_system)?;
    proxies.intercept(url).map(|proxy| proxy.uri().clone())
}

fn is_loopback(url: &Uri) -> bool {
    let host = url.host().unwrap_or("").trim_matches(['[', ']']);
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

/// The port of a URL, or that of its scheme.
fn port(url: &Uri) -> Option<u16> {
    url.port_u16().or(match url.scheme_str() {
        Some("http") => Some(80),
        Some("https") => Some(443),
        Some(_) | None => None,
    })
}

/// What reqwest saw.
fn read(error: &reqwest::Error) -> HttpError {
    let cause = root_cause(error);
    let connecting = error.is_connect();
    if connecting && error.is_timeout() {
        return HttpError::new(HttpErrorKind::ConnectTimeout, cause);
    }
    let kind = match connecting {
        // The type of this error is nobody's to name.
        true if cause.contains("proxy authorization required") => HttpErrorKind::ProxyAuth,
        true => HttpErrorKind::Connect,
        false => HttpErrorKind::Broken,
    };
    match tls_trouble(error) {
        Some(rustls::Error::InvalidCertificate(_)) => HttpError::new(HttpErrorKind::Certificate, cause),
        Some(_) if connecting => HttpError::new(kind, format!("is it an https server? {cause}")),
        Some(_) | None => HttpError::new(kind, cause),
    }
}

/// What TLS had to say, if it was TLS that failed.
fn tls_trouble<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(tls) = error.downcast_ref::<rustls::Error>() {
            return Some(tls);
        }
        // An IO error hides its cause behind a box of its own.
        let boxed = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        if let Some(tls) = boxed.and_then(|e| e.downcast_ref::<rustls::Error>()) {
            return Some(tls);
        }
        next = error.source();
    }
    None
}

/// The last error of the chain: the one that says what happened.
fn root_cause(error: &dyn Error) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    last.to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::is_loopback;

    #[test]
    fn loopback_is_known_in_every_spelling() {
        let is = |url: &str| is_loopback(&url.parse().unwrap());
        for loopback in [
            "http://localhost:1/v1",
            "http://LocalHost",
            "http://127.0.0.1",
            "http://127.9.9.9",
            "http://[::1]:8",
        ] {
            assert!(is(loopback), "{loopback}");
        }
        for other in ["https://api.openai.com", "http://10.0.0.1", "http://localhost.example.com"] {
            assert!(!is(other), "{other}");
        }
    }
}
