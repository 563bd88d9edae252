//! A real server on a real socket: reuse, silence, resets, refusals.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use terret::core::chunk::{Failure, code};
use terret::model::Adapter;
use terret::model::provider::{Own, ProviderSettings, adapter};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::ask::{ask, summary};

/// What the server does with a request, in order.
#[derive(Clone)]
pub(crate) enum Do {
    /// Writes this text.
    Write(String),
    /// Writes these bytes.
    Bytes(&'static [u8]),
    /// Writes events without end, as fast as they are taken, and counts the bytes that were.
    Flood,
    /// Waits.
    Wait(u64),
    /// Waits until the client goes away, and counts it.
    UntilGone,
    /// Cuts the connection with a reset.
    Reset,
    /// Ends the connection.
    Close,
    /// Ends the connection if it served a request before.
    CloseIfUsed,
}

#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) url: String,
    pub(crate) connections: Arc<AtomicUsize>,
    pub(crate) requests: Arc<tokio::sync::Mutex<Vec<String>>>,
    /// Clients that were seen going away.
    pub(crate) gone: Arc<AtomicUsize>,
    /// Bytes of floods.
    pub(crate) written: Arc<AtomicUsize>,
}

/// A server that does the same for every request.
pub(crate) async fn server(script: Vec<Do>) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let [connections, gone, written] = [(); 3].map(|()| Arc::new(AtomicUsize::new(0)));
    let server = Server { url, connections, requests: Arc::default(), gone, written };
    let shared = server.clone();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            shared.connections.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(serve(socket, script.clone(), shared.clone()));
        }
    });
    server
}

async fn serve(mut socket: TcpStream, script: Vec<Do>, server: Server) {
    let mut used = false;
    while let Some(request) = read_request(&mut socket).await {
        server.requests.lock().await.push(request);
        for step in &script {
            match step {
                Do::Write(text) => socket.write_all(text.as_bytes()).await.unwrap_or(()),
                Do::Bytes(bytes) => socket.write_all(bytes).await.unwrap_or(()),
                Do::Flood => flood(&mut socket, &server.written).await,
                Do::Wait(ms) => tokio::time::sleep(Duration::from_millis(*ms)).await,
                Do::UntilGone => {
                    while matches!(socket.read(&mut [0; 64]).await, Ok(1..)) {}
                    server.gone.fetch_add(1, Ordering::SeqCst);
                    return;
                }
                Do::Reset => {
                    // The client must have read what came before: a reset throws unread bytes away.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    return socket.set_zero_linger().unwrap();
                }
                Do::Close => return,
                Do::CloseIfUsed if used => return,
                Do::CloseIfUsed => {}
            }
        }
        used = true;
    }
}

async fn flood(socket: &mut TcpStream, written: &AtomicUsize) {
    let event =
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a flood of words\"}}]}\n\n".repeat(100);
    let frame = format!("{:x}\r\n{event}\r\n", event.len());
    while socket.write_all(frame.as_bytes()).await.is_ok() {
        written.fetch_add(frame.len(), Ordering::SeqCst);
    }
}

async fn read_request(socket: &mut TcpStream) -> Option<String> {
    let mut got = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&got).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .to_lowercase()
                .lines()
                .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return Some(text);
            }
        }
        let mut buffer = [0; 4096];
        match socket.read(&mut buffer).await {
            Ok(0) | Err(_) => return None,
            Ok(read) => got.extend_from_slice(&buffer[..read]),
        }
    }
}

pub(crate) const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

pub(crate) fn head() -> Do {
    Do::Write(HEAD.to_owned())
}

/// One frame of a chunked body.
pub(crate) fn frame(text: &str) -> Do {
    Do::Write(format!("{:x}\r\n{text}\r\n", text.len()))
}

pub(crate) fn end() -> Do {
    Do::Write("0\r\n\r\n".to_owned())
}

pub(crate) fn delta(text: &str) -> Do {
    frame(&format!(
        "data: {{\"id\":\"r\",\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n"
    ))
}

pub(crate) fn stop() -> Do {
    frame("data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
}

pub(crate) fn status(line: &str, headers: &str, body: &str) -> Vec<Do> {
    vec![Do::Write(format!("HTTP/1.1 {line}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len()))]
}

pub(crate) fn client(url: &str) -> Box<dyn Adapter> {
    let settings = ProviderSettings {
        base_url: Some(url.to_owned()),
        api_key_env: Some("KEY".to_owned()),
        headers: [("x-own".to_owned(), "1".to_owned())].into(),
        ..ProviderSettings::default()
    };
    adapter("mine", Some(&settings), &|_| Some("key-12345678".to_owned()), Own::default()).unwrap()
}

pub(crate) async fn outcome(script: Vec<Do>, idle_ms: u64) -> (String, Option<Failure>) {
    let server = server(script).await;
    summary(ask(&*client(&server.url), idle_ms).await)
}

pub(crate) async fn failure(script: Vec<Do>) -> Failure {
    outcome(script, 2_000).await.1.unwrap()
}

#[tokio::test]
async fn one_connection_serves_many_requests() {
    let server = server(vec![head(), delta("a"), stop(), end()]).await;
    let client = client(&server.url);
    for _ in 0..5 {
        let (text, failure) = summary(ask(&*client, 2_000).await);
        assert_eq!((text.as_str(), failure), ("a", None));
        // The connection goes back to its pool in a task of its own.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(server.connections.load(Ordering::SeqCst), 1);
    let requests = server.requests.lock().await;
    assert_eq!(requests.len(), 5);
    let request = requests[0].to_lowercase();
    for line in [
        "post /v1/chat/completions http/1.1",
        "authorization: bearer key-12345678",
        "accept: text/event-stream",
        "accept-encoding: identity",
        "content-type: application/json",
        "x-own: 1",
    ] {
        assert!(request.lines().any(|got| got == line), "{line} is missing in\n{request}");
    }
    assert!(request.ends_with(r#""messages":[{"role":"user","content":"hi"}]}"#), "{request}");
}

#[tokio::test]
async fn a_body_that_ends_late_is_drained_in_the_background() {
    let server = server(vec![head(), delta("a"), stop(), Do::Wait(100), end()]).await;
    let client = client(&server.url);
    let start = Instant::now();
    assert!(summary(ask(&*client, 2_000).await).1.is_none());
    assert!(start.elapsed() < Duration::from_millis(90), "the answer waited for the end of its body");
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(summary(ask(&*client, 2_000).await).1.is_none());
    assert_eq!(server.connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn frames_that_are_there_already_come_as_one_batch() {
    let mut frames = vec![head()];
    frames.extend((0..100).map(|_| delta("a")));
    frames.extend([stop(), end()]);
    let all: String =
        frames.iter().map(|step| if let Do::Write(text) = step { text.as_str() } else { "" }).collect();
    let server = server(vec![Do::Write(all)]).await;
    let items = ask(&*client(&server.url), 2_000).await;
    assert!(items.len() <= 3, "{} batches for one write", items.len());
    assert_eq!(summary(items).0.len(), 100);
}

#[tokio::test]
async fn silence_is_a_timeout_wherever_it_falls() {
    let (_, before_head) = outcome(vec![Do::Wait(1_000)], 100).await;
    let before_head = before_head.unwrap();
    assert_eq!(before_head.code, code::TIMEOUT);
    assert!(before_head.message.contains("127.0.0.1:") && before_head.message.contains("100 ms"));
    let (text, between) = outcome(vec![head(), delta("a"), Do::Wait(1_000)], 100).await;
    assert_eq!((text.as_str(), between.unwrap().code.as_str()), ("a", code::TIMEOUT));
}

#[tokio::test]
async fn comments_keep_a_stream_alive() {
    let mut script = vec![head(), delta("a")];
    for _ in 0..6 {
        script.extend([Do::Wait(60), frame(": keep-alive\n\n")]);
    }
    script.extend([delta("b"), stop(), end()]);
    assert_eq!(outcome(script, 150).await, ("ab".to_owned(), None));
}

#[tokio::test]
async fn a_cut_and_an_early_end_are_told_apart() {
    let (text, reset) = outcome(vec![head(), delta("a"), Do::Reset], 2_000).await;
    let reset = reset.unwrap();
    assert_eq!((text.as_str(), reset.code.as_str()), ("a", code::TRANSPORT));
    assert!(reset.message.contains("127.0.0.1:"), "{}", reset.message);
    let (_, unfinished_frame) = outcome(vec![head(), delta("a"), Do::Close], 2_000).await;
    assert_eq!(unfinished_frame.unwrap().code, code::TRANSPORT);
    let (text, early) = outcome(vec![head(), delta("a"), end()], 2_000).await;
    assert_eq!((text.as_str(), early.unwrap().code.as_str()), ("a", code::STREAM_CLOSED));
}

#[tokio::test]
async fn bad_statuses_have_their_class_whatever_the_body() {
    for (line, class) in [
        ("401 Unauthorized", code::AUTH),
        ("404 Not Found", code::NOT_FOUND),
        ("429 Too Many Requests", code::RATE_LIMIT),
        ("500 Internal Server Error", code::SERVER),
    ] {
        for body in ["", "<html><title>oops</title></html>", r#"{"error":{"message":"no, key-12345678"}}"#] {
            let got = failure(status(line, "retry-after: 3\r\nx-request-id: req-7\r\n", body)).await;
            assert_eq!(got.code, class, "{line} {body}");
            assert_eq!(got.status.map(|status| status.to_string()).as_deref(), line.split(' ').next());
            assert_eq!(got.request_id.as_deref(), Some("req-7"));
            assert!(!format!("{got:?}").contains("12345678"), "{got:?}");
            if class == code::RATE_LIMIT {
                assert_eq!(got.retry_after_ms, Some(3_000));
            }
        }
    }
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let got = failure(status("302 Found", "location: http://127.0.0.1:9/\r\n", "")).await;
    assert_eq!(got.code, code::PROVIDER_ERROR);
    assert!(got.message.contains("redirect"), "{}", got.message);
}

#[tokio::test]
async fn a_refused_connection_names_the_address() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let (_, failure) = summary(ask(&*client(&format!("http://{address}/v1")), 2_000).await);
    let failure = failure.unwrap();
    assert_eq!(failure.code, code::TRANSPORT);
    assert!(failure.message.contains(&address.to_string()), "{}", failure.message);
}

#[tokio::test]
async fn tls_needs_nothing_installed_for_the_whole_process() {
    let server = server(vec![]).await;
    let url = server.url.replace("http://", "https://");
    let (_, failure) = summary(ask(&*client(&url), 300).await);
    let failure = failure.unwrap();
    assert!([code::TRANSPORT, code::TIMEOUT].contains(&failure.code.as_str()), "{failure:?}");
    assert_eq!(server.connections.load(Ordering::SeqCst), 1, "{failure:?}");
    assert!(rustls::crypto::CryptoProvider::get_default().is_none());
}
