//! The HTTP client under the adapters: one connection kept alive, nothing retried, nothing installed for the
//! whole process.

use std::error::Error;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use reqwest::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
};
use reqwest::{Client, Response, Url};
use terret_core::chunk::{Failure, code};
use tokio::task::JoinHandle;

use super::failure::{Secret, without_userinfo};
use super::retry_hint::Headers;
use super::wire::Auth;
use crate::limits::{CONNECT_TIMEOUT_MS, DRAIN_TIMEOUT_MS, RECLAIM_MS, RECLAIM_TURNS};

/// Sends to one server.
#[derive(Clone)]
pub struct Http(Arc<Inner>);

struct Inner {
    base: Url,
    /// Built at the first request, so that a program that sends none pays nothing.
    client: OnceLock<Client>,
    headers: HeaderMap,
    /// What is masked in failures, one a line.
    secrets: String,
    /// Reads the rest of the last body.
    finishing: Mutex<Option<JoinHandle<()>>>,
}

impl Http {
    /// A client for the server at this base URL, with a key and how it goes out.
    pub fn new(
        base_url: &str,
        key: Option<(Auth, String)>,
        headers: &[(String, String)],
    ) -> Result<Self, Failure> {
        let invalid = |what: String| Failure::new(code::INVALID_REQUEST, what);
        let base = Url::parse(base_url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let base = base.ok_or_else(|| {
            invalid(format!("`{}` is not an http or https URL", without_userinfo(base_url)))
        })?;
        let mut map = HeaderMap::new();
        map.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        map.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        // A compressed stream comes in the blocks of the compressor, not as the model speaks.
        map.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if let Some((auth, key)) = &key {
            let (name, value) = match auth {
                Auth::Bearer => (AUTHORIZATION, format!("Bearer {}", key.trim())),
                Auth::Header(name) => {
                    let name = HeaderName::from_bytes(name.as_bytes())
                        .map_err(|_| invalid(format!("`{name}` is not a header that can be sent")))?;
                    (name, key.trim().to_owned())
                }
            };
            let value = HeaderValue::from_str(&value);
            let mut value =
                value.map_err(|_| invalid("the API key has characters no header takes".to_owned()))?;
            value.set_sensitive(true);
            map.insert(name, value);
        }
        for (name, value) in headers {
            let pair = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value));
            let (Ok(name), Ok(mut value)) = pair else {
                return Err(invalid(format!("`{name}` is not a header that can be sent")));
            };
            // Custom headers carry keys as often as not.
            value.set_sensitive(true);
            map.insert(name, value);
        }
        let secrets = secrets(&base, key.as_ref().map(|(_, key)| key.as_str()), headers);
        Ok(Http(Arc::new(Inner {
            base,
            client: OnceLock::new(),
            headers: map,
            secrets,
            finishing: Mutex::default(),
        })))
    }

    /// The same with a client the program built itself: its proxies, certificates and limits hold.
    pub fn with_client(self, client: Client) -> Self {
        let Inner { base, headers, secrets, .. } = &*self.0;
        let (base, headers, secrets) = (base.clone(), headers.clone(), secrets.clone());
        Http(Arc::new(Inner {
            base,
            client: OnceLock::from(client),
            headers,
            secrets,
            finishing: Mutex::default(),
        }))
    }

    /// Sends a body and waits for the head of the answer, `idle_timeout` at most.
    pub async fn post(&self, path: &str, body: Bytes, idle_timeout: Duration) -> Result<Response, Failure> {
        let url = format!("{}{path}", self.0.base.as_str().trim_end_matches('/'));
        self.reclaim().await;
        let request = self.client()?.post(url).headers(self.0.headers.clone()).body(body);
        match tokio::time::timeout(idle_timeout, request.send()).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(self.failure(error)),
            Err(_) => Err(self.silence(idle_timeout)),
        }
    }

    /// Reads a body to its end: only then is its connection free for the next request. What is there already
    /// is read at once, the rest in the background and not for long.
    pub fn finish(&self, mut response: Response) {
        loop {
            match response.chunk().now_or_never() {
                Some(Ok(Some(_))) => {}
                Some(Ok(None) | Err(_)) => return,
                None => break,
            }
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let task = runtime.spawn(async move {
                let rest = async { while let Ok(Some(_)) = response.chunk().await {} };
                // Out of time: dropping the body closes the connection.
                let _ = tokio::time::timeout(Duration::from_millis(DRAIN_TIMEOUT_MS), rest).await;
            });
            *self.0.finishing.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
        }
    }

    /// Gives the last connection a moment to come back: a new one costs more than the wait.
    async fn reclaim(&self) {
        let last = self.0.finishing.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(last) = last {
            let _ = tokio::time::timeout(Duration::from_millis(RECLAIM_MS), last).await;
        }
        // The client puts a connection back by tasks of its own.
        for _ in 0..RECLAIM_TURNS {
            tokio::task::yield_now().await;
        }
    }

    /// The failure of a connection that could not be made or broke.
    pub fn failure(&self, error: reqwest::Error) -> Failure {
        let address = self.address();
        let cause = root_cause(&error);
        if error.is_connect() && error.is_timeout() {
            let message = format!("no connection to {address} within {CONNECT_TIMEOUT_MS} ms");
            return Failure::new(code::TIMEOUT, message);
        }
        let what = if error.is_connect() { "cannot connect to" } else { "the connection broke with" };
        let (class, why) = match tls_trouble(&error) {
            // The same certificate would be shown again.
            Some(rustls::Error::InvalidCertificate(_)) => (code::TLS, "its certificate is not trusted: "),
            Some(_) if error.is_connect() => (code::TRANSPORT, "is it an https server? "),
            Some(_) | None => (code::TRANSPORT, ""),
        };
        let message = format!("{what} {address}: {why}{cause}");
        Failure::new(class, self.secret().mask(&message))
    }

    /// The failure of a server that says nothing.
    pub fn silence(&self, idle_timeout: Duration) -> Failure {
        let message = format!("nothing came from {} for {} ms", self.address(), idle_timeout.as_millis());
        Failure::new(code::TIMEOUT, message)
    }

    /// What must not be written down.
    pub fn secret(&self) -> Secret<'_> {
        Secret(Some(&self.0.secrets))
    }

    /// Host and port.
    pub fn address(&self) -> String {
        let host = self.0.base.host_str().unwrap_or("");
        match self.0.base.port_or_known_default() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        }
    }

    fn client(&self) -> Result<&Client, Failure> {
        if let Some(client) = self.0.client.get() {
            return Ok(client);
        }
        let client = build(&self.0.base).map_err(|error| {
            Failure::new(code::UNKNOWN, format!("the HTTP client cannot be built: {}", root_cause(&*error)))
        })?;
        Ok(self.0.client.get_or_init(|| client))
    }
}

/// The key, the values of configured headers (whole, and without the scheme before a token), the password of
/// the URL. The longest come first: what is part of another must not break it up.
fn secrets(base: &Url, key: Option<&str>, headers: &[(String, String)]) -> String {
    let values = headers.iter().map(|(_, value)| value.trim());
    let tokens = values.clone().filter_map(|value| value.split_once(' ')).map(|(_, token)| token.trim());
    let mut secrets: Vec<&str> =
        key.map(str::trim).into_iter().chain(base.password()).chain(values).chain(tokens).collect();
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    secrets.join("\n")
}

fn build(base: &Url) -> Result<Client, Box<dyn Error + Send + Sync>> {
    let mut builder = Client::builder()
        .tls_backend_preconfigured(tls(base.scheme() == "https")?)
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

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or("").trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The last error of the chain: the one that says what happened.
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

fn root_cause(error: &dyn Error) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    last.to_string()
}

/// Hands the headers of a response to a reader.
pub fn with_headers<T>(response: &HeaderMap, read: impl FnOnce(Headers<'_>) -> T) -> T {
    let get = |name: &str| response.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    read(Headers(&get))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{Auth, Http, is_loopback};

    #[test]
    fn loopback_is_known_in_every_spelling() {
        let is = |url: &str| is_loopback(&url.parse().unwrap());
        assert!(
            is("http://localhost:1/v1")
                && is("http://127.0.0.1")
                && is("http://127.9.9.9")
                && is("http://[::1]:8")
        );
        assert!(
            !is("https://api.openai.com") && !is("http://10.0.0.1") && !is("http://localhost.example.com")
        );
    }

    #[test]
    fn what_cannot_be_sent_is_refused_before_it_is_tried() {
        let failed = |url: &str, key: Option<&str>, name: &str| {
            let headers = [(name.to_owned(), "v".to_owned())];
            Http::new(url, key.map(|key| (Auth::Bearer, key.to_owned())), &headers)
                .err()
                .map(|failure| failure.message)
        };
        assert_eq!(failed("http://a", Some("k"), "x-a"), None);
        assert!(failed("ftp://a", None, "x-a").unwrap().contains("ftp://a"));
        assert!(
            failed("http://a", Some("secret\nkey"), "x-a").is_some_and(|message| !message.contains("secret"))
        );
        assert!(failed("http://a", None, "x a").unwrap().contains("x a"));
    }
}
