//! What only a socket can do: bytes that drip, connections that go away between requests or in the middle, readers that
//! are slow, and readers that leave.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use terret::core::chunk::code;
use terret::model::failure::retryable;

use crate::ask::{ask, outgoing, summary};
use crate::server::{Do, client, delta, end, failure, frame, head, outcome, server, stop};

/// Longest wait for what happens at once on a machine that is not busy.
const SOON: Duration = Duration::from_secs(10);

async fn soon(count: &AtomicUsize, least: usize) {
    let start = Instant::now();
    while count.load(Ordering::SeqCst) < least {
        assert!(start.elapsed() < SOON, "{count:?} after {SOON:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn half_a_head_is_silence_and_no_head_is_a_broken_connection() {
    let half = || Do::Write("HTTP/1.1 200 OK\r\ncontent-ty".to_owned());
    let silent = outcome(vec![half(), Do::Wait(2_000)], 200).await.1.unwrap();
    assert_eq!(silent.code, code::TIMEOUT);
    for script in [vec![Do::Close], vec![half(), Do::Close], vec![half(), Do::Reset]] {
        let broken = failure(script).await;
        assert_eq!(broken.code, code::TRANSPORT, "{broken:?}");
        assert!(broken.message.contains("the connection broke with 127.0.0.1:"), "{}", broken.message);
    }
}

#[tokio::test]
async fn a_body_that_drips_byte_by_byte_is_the_same_body() {
    let mut script = vec![head()];
    for step in [delta("grüße"), stop()] {
        let Do::Write(frame) = step else { unreachable!() };
        let text = frame.split_once("\r\n").unwrap().1;
        for byte in text.trim_end_matches("\r\n").bytes() {
            // Half a character is a frame of its own.
            let byte: &'static [u8] = Vec::leak(vec![byte]);
            script.extend([Do::Write("1\r\n".to_owned()), Do::Bytes(byte), Do::Write("\r\n".to_owned())]);
        }
    }
    script.extend([frame("\n\n"), end()]);
    assert_eq!(outcome(script, 2_000).await, ("grüße".to_owned(), None));
}

/// Comments are bytes: whoever sends them is alive, for as long as they come and not longer.
#[tokio::test]
async fn a_stream_of_comments_lives_and_dies_with_them() {
    let mut script = vec![head()];
    script.extend((0..20).flat_map(|_| [Do::Wait(50), frame(": still here\n\n")]));
    let last = script.len();
    script.extend([delta("a"), stop(), end()]);
    assert_eq!(outcome(script.clone(), 400).await, ("a".to_owned(), None));
    script.truncate(last);
    script.push(Do::Wait(60_000));
    let start = Instant::now();
    let silent = outcome(script, 400).await.1.unwrap();
    assert_eq!(silent.code, code::TIMEOUT);
    let lived = start.elapsed();
    assert!((Duration::from_millis(1_400)..SOON).contains(&lived), "{lived:?}");
}

#[tokio::test]
async fn a_reset_inside_an_event_keeps_what_came_before_it() {
    let half = frame("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"never");
    let (text, reset) = outcome(vec![head(), delta("a"), half, Do::Reset], 2_000).await;
    assert_eq!((text.as_str(), reset.unwrap().code.as_str()), ("a", code::TRANSPORT));
}

/// Nobody reads: the server can write as much as the kernel keeps for both, and no more until somebody does.
#[tokio::test]
async fn a_reader_that_is_slow_holds_the_server_back() {
    const KEPT: usize = 24 << 20;
    let server = server(vec![head(), Do::Flood]).await;
    let client = client(&server.url);
    let mut stream = client.stream(outgoing(&*client, 5_000));
    assert!(stream.next().await.unwrap().is_ok());
    let (start, mut before) = (Instant::now(), usize::MAX);
    let held = loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let written = server.written.load(Ordering::SeqCst);
        if written == before {
            break written;
        }
        assert!(written < KEPT && start.elapsed() < SOON, "{written} bytes were taken, and read by nobody");
        before = written;
    };
    let mut read = 0;
    while server.written.load(Ordering::SeqCst) < held + (1 << 20) {
        read += stream.next().await.unwrap().unwrap().len();
        assert!(start.elapsed() < 4 * SOON, "{read} chunks were read, and nothing is written");
    }
    drop(stream);
}

#[tokio::test]
async fn whoever_leaves_closes_the_connection_at_once() {
    for before in [vec![], vec![head()], vec![head(), delta("a")]] {
        let in_body = before.len() == 2;
        let server = server([before, vec![Do::UntilGone]].concat()).await;
        let client = client(&server.url);
        let mut stream = client.stream(outgoing(&*client, 60_000));
        if in_body {
            assert!(stream.next().await.unwrap().is_ok());
        }
        // In the middle of a wait for a head or for more of the body.
        assert!(tokio::time::timeout(Duration::from_millis(100), stream.next()).await.is_err());
        assert_eq!((server.requests.lock().await.len(), server.gone.load(Ordering::SeqCst)), (1, 0));
        drop(stream);
        soon(&server.gone, 1).await;
    }
}

#[tokio::test]
async fn a_connection_that_ended_between_two_requests_fails_neither() {
    let server = server(vec![head(), delta("a"), stop(), end(), Do::Close]).await;
    let client = client(&server.url);
    for _ in 0..20 {
        assert_eq!(summary(ask(&*client, 2_000).await), ("a".to_owned(), None));
    }
    assert_eq!(server.connections.load(Ordering::SeqCst), 20);
}

/// Nobody knows whether the server began to work on it: the policy of retries decides, and the log has both attempts.
#[tokio::test]
async fn a_connection_that_ends_under_its_second_request_is_a_failure_that_is_retried() {
    let server = server(vec![Do::CloseIfUsed, head(), delta("a"), stop(), end()]).await;
    let client = client(&server.url);
    let ask = async || summary(ask(&*client, 2_000).await);
    assert_eq!(ask().await, ("a".to_owned(), None));
    let (text, failure) = ask().await;
    let failure = failure.unwrap();
    assert_eq!((text.as_str(), failure.code.as_str()), ("", code::TRANSPORT));
    assert!(retryable(&failure.code));
    assert_eq!(ask().await, ("a".to_owned(), None));
    assert_eq!(server.connections.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn what_comes_ahead_of_the_answer_is_not_the_answer() {
    let ahead = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n";
    let script = vec![Do::Write(ahead.to_owned()), head(), delta("a"), stop(), end()];
    assert_eq!(outcome(script, 2_000).await, ("a".to_owned(), None));
}

#[tokio::test]
async fn a_compressed_body_that_nobody_asked_for_is_named() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\n\
        content-length: 24\r\n\r\n";
    let gzip = b"\x1f\x8b\x08\0\0\0\0\0\0\x03KI,I\xb4R\x88vq\xf5\xf3w";
    let got =
        failure(vec![Do::Write(head.to_owned()), Do::Bytes(gzip), Do::Bytes(b"\x8b\xe5"), Do::Close]).await;
    assert_eq!(got.code, code::MALFORMED_RESPONSE, "{got:?}");
    assert!(got.message.contains("a compressed body instead of a stream"), "{}", got.message);
}
