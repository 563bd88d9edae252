//! An HTTP client of the program's own: what it is given, and what becomes of its answers.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::future::{BoxFuture, ready};
use futures_util::{FutureExt, StreamExt, stream};
use terret::core::chunk::code;
use terret::model::transport::{
    Body, HeaderMap, HttpClient, HttpError, HttpErrorKind, Request, Response, StatusCode, Uri,
};
use terret::model::{Adapter, Models, ProviderSettings, Providers};

use crate::ask::{ask, summary};

/// Keeps what it is asked, and gives a canned answer.
#[derive(Clone)]
struct Canned {
    asked: Arc<Mutex<Vec<Request<Bytes>>>>,
    status: StatusCode,
    body: Result<&'static str, HttpError>,
    proxy: Option<&'static str>,
}

impl HttpClient for Canned {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<Body>, HttpError>> {
        self.asked.lock().unwrap().push(request);
        let answer = self.body.clone().map(|body| {
            // In pieces of three bytes, as a network might.
            let pieces: Vec<_> =
                body.as_bytes().chunks(3).map(|piece| Ok(Bytes::from_static(piece))).collect();
            let mut response = Response::new(stream::iter(pieces).boxed());
            *response.status_mut() = self.status;
            response.headers_mut().insert("x-request-id", "req-7".parse().unwrap());
            response
        });
        ready(answer).boxed()
    }

    fn proxy(&self, _: &Uri) -> Option<String> {
        self.proxy.map(str::to_owned)
    }
}

const ANSWER: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hello\"}}]}\n\n\
    data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

fn canned(body: Result<&'static str, HttpError>) -> Canned {
    Canned { asked: Arc::default(), status: StatusCode::OK, body, proxy: None }
}

/// The adapter of a server under this client, with a header for all providers and one for this.
fn adapter(client: Canned) -> Arc<dyn Adapter> {
    let settings = ProviderSettings {
        base_url: Some("https://me:word-of-me@model.test:8443/v1/".to_owned()),
        api_key_env: Some("KEY".to_owned()),
        headers: [("x-two".to_owned(), "from-the-settings".to_owned())].into(),
        ..ProviderSettings::default()
    };
    let providers = Providers::new(Box::new(|_| Some("key-12345678".to_owned())))
        .with("mine", settings)
        .with_client(client)
        .with_header("x-one", "Token from-the-program")
        .with_header("x-two", "lost");
    providers.adapter("mine").unwrap()
}

#[tokio::test]
async fn it_is_given_url_headers_and_body_and_its_answer_is_read() {
    let client = canned(Ok(ANSWER));
    let adapter = adapter(client.clone());
    assert_eq!(summary(ask(&*adapter, 1_000).await), ("hello".to_owned(), None));
    let asked = client.asked.lock().unwrap();
    let [request] = &asked[..] else { panic!("{} requests", asked.len()) };
    assert_eq!((request.method().as_str(), request.uri().path()), ("POST", "/v1/chat/completions"));
    assert_eq!(request.uri().port_u16(), Some(8443));
    assert!(request.body().ends_with(br#""messages":[{"role":"user","content":"hi"}]}"#));
    let sent = |headers: &HeaderMap, name| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    for (name, value) in [
        ("authorization", "Bearer key-12345678"),
        ("content-type", "application/json"),
        ("accept", "text/event-stream"),
        ("accept-encoding", "identity"),
        ("x-one", "Token from-the-program"),
        ("x-two", "from-the-settings"),
    ] {
        assert_eq!(sent(request.headers(), name).as_deref(), Some(value), "{name}");
    }
    // Whoever prints a request prints no key.
    let shown = format!("{:?}", request.headers());
    assert!(!shown.contains("12345678") && !shown.contains("from-the"), "{shown}");
}

#[tokio::test]
async fn what_it_sends_is_shown_in_no_failure() {
    let echo = r#"{"error":{"message":"me:word-of-me, key-12345678, from-the-program, from-the-settings"}}"#;
    let client = Canned { status: StatusCode::UNAUTHORIZED, ..canned(Ok(echo)) };
    let failure = summary(ask(&*adapter(client), 1_000).await).1.unwrap();
    assert_eq!((failure.code.as_str(), failure.request_id.as_deref()), (code::AUTH, Some("req-7")));
    assert_eq!(failure.message, "me:***, ***, ***, *** (HTTP 401)");
}

#[tokio::test]
async fn each_kind_of_error_has_its_class_and_the_proxy_is_named() {
    for (kind, class, words) in [
        (HttpErrorKind::Connect, code::TRANSPORT, "cannot connect to model.test:8443: why"),
        (HttpErrorKind::ConnectTimeout, code::TIMEOUT, "no connection to model.test:8443: why"),
        (HttpErrorKind::Certificate, code::TLS, "its certificate is not trusted: why"),
        (
            HttpErrorKind::ProxyAuth,
            code::AUTH,
            "the proxy lets nobody through without a password to model.test:8443: why",
        ),
        (HttpErrorKind::Broken, code::TRANSPORT, "the connection broke with model.test:8443: why"),
        (HttpErrorKind::Client, code::UNKNOWN, "nothing was sent to model.test:8443: why"),
    ] {
        let client = canned(Err(HttpError::new(kind, "why, key-12345678")));
        let failure = summary(ask(&*adapter(client.clone()), 1_000).await).1.unwrap();
        assert_eq!(failure.code, class, "{kind:?}");
        assert!(failure.message.contains(words), "{}", failure.message);
        assert!(!failure.message.contains("12345678") && !failure.message.contains("proxy http"));
        let client = Canned { proxy: Some("http://u:pass@proxy:3128"), ..client };
        let failure = summary(ask(&*adapter(client), 1_000).await).1.unwrap();
        assert!(failure.message.ends_with(" (through the proxy http://proxy:3128)"), "{}", failure.message);
    }
}

/// A client that has always something ready, and never anything in it.
#[derive(Clone)]
struct Empty;

impl HttpClient for Empty {
    fn send(&self, _: Request<Bytes>) -> BoxFuture<'_, Result<Response<Body>, HttpError>> {
        let head = stream::once(ready(Ok(Bytes::from_static(ANSWER.as_bytes()))));
        let rest = stream::repeat_with(|| Ok(Bytes::new()));
        ready(Ok(Response::new(head.chain(rest).boxed()))).boxed()
    }
}

#[tokio::test]
async fn a_body_without_end_ends_with_the_answer() {
    let providers = Providers::new(Box::new(|_| None)).with_client(Empty);
    let adapter = providers.adapter("ollama").unwrap();
    assert_eq!(summary(ask(&*adapter, 1_000).await), ("hello".to_owned(), None));
}
