//! Requests of one server: its URL, its headers, the client that carries them, and the words for what goes wrong.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE};
use terret_core::chunk::{Failure, code};
use tokio::task::JoinHandle;

use super::client::DefaultClient;
use super::failure::{Secret, without_userinfo};
use super::retry_hint::Headers;
use super::transport::{
    Body, HeaderMap, HeaderName, HeaderValue, HttpClient, HttpError, HttpErrorKind, Method, Request,
    Response, Uri,
};
use super::wire::Auth;
use crate::limits::{DRAIN_TIMEOUT_MS, MAX_DRAIN_BYTES, RECLAIM_MS, RECLAIM_TURNS};

/// Sends to one server.
#[derive(Clone)]
pub struct Http(Arc<Inner>);

struct Inner {
    base: Uri,
    client: Arc<dyn HttpClient>,
    headers: HeaderMap,
    /// What is masked in failures, one a line.
    secrets: String,
    /// Reads the rest of the last body.
    finishing: Mutex<Option<JoinHandle<()>>>,
}

impl Http {
    /// For the server at this base URL, with a key and how it goes out. Of two headers of one name the later one is
    /// sent. Without a client of the program's own it is the one that comes along.
    pub fn new(
        base_url: &str,
        key: Option<(Auth, String)>,
        headers: &[(String, String)],
        client: Option<Arc<dyn HttpClient>>,
    ) -> Result<Self, Failure> {
        let base: Uri = base_url
            .parse()
            .ok()
            .filter(|url: &Uri| matches!(url.scheme_str(), Some("http" | "https")))
            .ok_or_else(|| {
                invalid(format!("`{}` is not an http or https URL", without_userinfo(base_url)))
            })?;
        let secrets = secrets(&base, key.as_ref().map(|(_, key)| key.as_str()), headers);
        let client = client.unwrap_or_else(|| Arc::new(DefaultClient::new(base.clone())));
        let headers = header_map(key, headers)?;
        Ok(Http(Arc::new(Inner { base, client, headers, secrets, finishing: Mutex::default() })))
    }

    /// Where requests of this path go.
    pub fn url(&self, path: &str) -> String {
        let base = self.0.base.to_string();
        // What follows the path of the base follows that of the request.
        let (front, query) = base.split_once('?').unwrap_or((&base, ""));
        let mark = if query.is_empty() { "" } else { "?" };
        format!("{}{path}{mark}{query}", front.trim_end_matches('/'))
    }

    /// Sends a body and waits for the head of the answer, `idle_timeout` at most.
    pub async fn post(
        &self,
        path: &str,
        body: Bytes,
        idle_timeout: Duration,
    ) -> Result<Response<Body>, Failure> {
        self.reclaim().await;
        let mut request = Request::new(body);
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.url(path).parse().map_err(|error| {
            invalid(format!("`{}` cannot be asked: {error}", without_userinfo(&self.url(path))))
        })?;
        *request.headers_mut() = self.0.headers.clone();
        match tokio::time::timeout(idle_timeout, self.0.client.send(request)).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(self.failure(&error)),
            Err(_) => Err(self.silence(idle_timeout)),
        }
    }

    /// Reads a body to its end: only then is its connection free for the next request. What is there already
    /// is read at once, the rest in the background, and not for long.
    pub fn finish(&self, body: Body) {
        let mut rest = Box::pin(drain(body));
        if rest.as_mut().now_or_never().is_some() {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            // Out of time: dropping the body closes the connection.
            let task = runtime.spawn(async move {
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
    pub fn failure(&self, error: &HttpError) -> Failure {
        let (class, what, why) = match error.kind {
            HttpErrorKind::Connect => (code::TRANSPORT, "cannot connect to", ""),
            HttpErrorKind::ConnectTimeout => (code::TIMEOUT, "no connection to", ""),
            HttpErrorKind::Certificate => {
                (code::TLS, "cannot connect to", "its certificate is not trusted: ")
            }
            HttpErrorKind::ProxyAuth => {
                (code::AUTH, "the proxy lets nobody through without a password to", "")
            }
            HttpErrorKind::Broken => (code::TRANSPORT, "the connection broke with", ""),
            HttpErrorKind::Client => (code::UNKNOWN, "nothing was sent to", ""),
        };
        let message = format!("{what} {}: {why}{}", self.address(), error.cause);
        Failure::new(class, self.secret().mask(&message))
    }

    /// The failure of a server that says nothing.
    pub fn silence(&self, idle_timeout: Duration) -> Failure {
        let message = format!("nothing came from {} for {} ms", self.address(), idle_timeout.as_millis());
        Failure::new(code::TIMEOUT, message)
    }

    /// The failure, naming the proxy if there is one on the way: it may be the proxy that speaks.
    pub fn named(&self, mut failure: Failure) -> Failure {
        if let Some(proxy) = self.0.client.proxy(&self.0.base) {
            failure.message.push_str(&format!(" (through the proxy {})", without_userinfo(&proxy)));
        }
        failure
    }

    /// What must not be written down.
    pub fn secret(&self) -> Secret<'_> {
        Secret(Some(&self.0.secrets))
    }

    /// Host and port.
    pub fn address(&self) -> String {
        let base = &self.0.base;
        let port = base.port_u16().unwrap_or(if base.scheme_str() == Some("https") { 443 } else { 80 });
        format!("{}:{port}", base.host().unwrap_or(""))
    }
}

fn invalid(what: String) -> Failure {
    Failure::new(code::INVALID_REQUEST, what)
}

fn header_map(key: Option<(Auth, String)>, headers: &[(String, String)]) -> Result<HeaderMap, Failure> {
    let mut map = HeaderMap::new();
    map.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    map.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    // A compressed stream comes in the blocks of the compressor, not as the model speaks.
    map.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    if let Some((auth, key)) = key {
        let (name, value) = match auth {
            Auth::Bearer => (AUTHORIZATION, format!("Bearer {}", key.trim())),
            Auth::Header(name) => {
                let name = HeaderName::from_bytes(name.as_bytes())
                    .map_err(|_| invalid(format!("`{name}` is not a header that can be sent")))?;
                (name, key.trim().to_owned())
            }
        };
        let mut value = HeaderValue::try_from(value)
            .map_err(|_| invalid("the API key has characters no header takes".to_owned()))?;
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
    Ok(map)
}

/// The key, the values of configured headers (whole, and without the scheme before a token), the password of
/// the URL. The longest come first: what is part of another must not break it up.
fn secrets(base: &Uri, key: Option<&str>, headers: &[(String, String)]) -> String {
    let user = base.authority().and_then(|authority| authority.as_str().rsplit_once('@'));
    let password = user.map(|(user, _)| user.split_once(':').map_or(user, |(_, password)| password));
    let values =
        headers.iter().filter(|(name, _)| !PLAIN.contains(&name.as_str())).map(|(_, value)| value.trim());
    let tokens = values.clone().filter_map(|value| value.split_once(' ')).map(|(_, token)| token.trim());
    let mut secrets: Vec<&str> =
        key.map(str::trim).into_iter().chain(password).chain(values).chain(tokens).collect();
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    secrets.join("\n")
}

/// Headers whose values are no secrets.
const PLAIN: [&str; 1] = ["anthropic-version"];

/// Reads what is left of a body, if it is not much.
async fn drain(mut body: Body) {
    let mut read = 0;
    while let Some(Ok(bytes)) = body.next().await {
        read += bytes.len().max(1);
        if read > MAX_DRAIN_BYTES {
            return;
        }
    }
}

/// Hands the headers of a response to a reader.
pub fn with_headers<T>(response: &HeaderMap, read: impl FnOnce(Headers<'_>) -> T) -> T {
    let get = |name: &str| response.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    read(Headers(&get))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{Auth, Http};

    #[test]
    fn what_cannot_be_sent_is_refused_before_it_is_tried() {
        let failed = |url: &str, key: Option<&str>, name: &str| {
            let headers = [(name.to_owned(), "v".to_owned())];
            Http::new(url, key.map(|key| (Auth::Bearer, key.to_owned())), &headers, None)
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

    #[test]
    fn the_password_of_the_url_is_a_secret_and_no_part_of_the_address() {
        let http = Http::new("https://me:pa55:word@host/v1/", None, &[], None).unwrap();
        assert_eq!(http.secret().mask("it was pa55:word"), "it was ***");
        assert_eq!(http.address(), "host:443");
        assert!(http.url("/chat").ends_with("@host/v1/chat"));
    }
}
