//! One request on the network: sent, read, and drained so that its connection serves the next one.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, stream};
use terret_core::chunk::{Chunk, Failure, code};

use super::failure::{from_http, without_userinfo};
use super::http::{Http, with_headers};
use super::response::{Progress, Response};
use super::transport::{self, Body, HeaderMap, HttpError};
use super::wire::Wire;
use super::{ChunkStream, Outgoing};
use crate::limits::{MAX_GATHER_BYTES, MAX_PLAIN_BODY_BYTES};

/// Sends the body and reports what comes.
pub(super) fn stream(wire: &'static Wire, http: Http, request: Outgoing) -> ChunkStream {
    let idle_timeout = request.idle_timeout();
    let sender = Sender { wire, http, idle_timeout };
    stream::unfold(State::Send(sender, request.body().clone()), State::next).boxed()
}

enum State {
    Send(Sender, Bytes),
    Read(Sender, Box<Reading>),
    Fail(Failure),
    Over,
}

struct Sender {
    wire: &'static Wire,
    http: Http,
    idle_timeout: Duration,
}

struct Reading {
    headers: HeaderMap,
    body: Body,
    response: Response,
}

type Item = Result<Vec<Chunk>, Failure>;

impl State {
    async fn next(mut self) -> Option<(Item, State)> {
        loop {
            self = match self {
                State::Send(sender, body) => match sender.send(body).await {
                    Ok(reading) => State::Read(sender, Box::new(reading)),
                    Err(failure) => State::Fail(sender.http.named(failure)),
                },
                State::Read(sender, mut reading) => {
                    let mut chunks = Vec::new();
                    let after = match reading.read(&sender, &mut chunks).await {
                        Ok(Progress::Open) => State::Read(sender, reading),
                        Ok(Progress::Finished) => {
                            sender.http.finish(reading.body);
                            State::Over
                        }
                        Err(failure) => State::Fail(sender.http.named(failure)),
                    };
                    if !chunks.is_empty() {
                        return Some((Ok(chunks), after));
                    }
                    after
                }
                State::Fail(failure) => return Some((Err(failure), State::Over)),
                State::Over => return None,
            }
        }
    }
}

impl Sender {
    async fn send(&self, body: Bytes) -> Result<Reading, Failure> {
        let answer = self.http.post(self.wire.path, body, self.idle_timeout).await?;
        if answer.status().is_success() {
            let secret = self.http.secret().0.map(str::to_owned);
            let (head, body) = answer.into_parts();
            return Ok(Reading { headers: head.headers, body, response: Response::new(self.wire, secret) });
        }
        Err(self.refused(answer).await)
    }

    /// Reads the body of a bad response as far as it comes: whatever is there helps to name the failure.
    async fn refused(&self, answer: transport::Response<Body>) -> Failure {
        let (head, mut rest) = answer.into_parts();
        let mut body = Vec::new();
        let whole = async {
            while let (true, Some(Ok(bytes))) = (body.len() < MAX_PLAIN_BODY_BYTES, rest.next().await) {
                body.extend_from_slice(&bytes);
            }
        };
        let _ = tokio::time::timeout(self.idle_timeout, whole).await;
        let now =
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |now| now.as_secs_f64());
        let secret = self.http.secret();
        let mut failure = with_headers(&head.headers, |headers| {
            from_http(head.status.as_u16(), headers, &body, now, secret)
        });
        if failure.code == code::NOT_FOUND {
            // A base URL that is not quite right is the usual reason.
            let url = self.http.url(self.wire.path);
            let asked = format!("{} (asked for: {})", failure.message, without_userinfo(&url));
            failure.message = secret.mask(&asked);
        }
        failure
    }
}

impl Reading {
    /// Waits for bytes, then takes what else is there already: one read of the network, one batch of chunks.
    async fn read(&mut self, sender: &Sender, chunks: &mut Vec<Chunk>) -> Result<Progress, Failure> {
        let mut frame = match tokio::time::timeout(sender.idle_timeout, self.body.next()).await {
            Ok(frame) => frame,
            Err(_) => return Err(self.broken(sender.http.silence(sender.idle_timeout), chunks)),
        };
        let mut gathered_bytes = 0;
        loop {
            match frame {
                Some(Ok(bytes)) => {
                    gathered_bytes += bytes.len().max(1);
                    let progress =
                        self.response.push(&bytes, chunks).map_err(|failure| self.named(failure))?;
                    if progress == Progress::Finished || gathered_bytes >= MAX_GATHER_BYTES {
                        return Ok(progress);
                    }
                }
                None => {
                    let finished = self.response.finish(chunks).map(|()| Progress::Finished);
                    return finished.map_err(|failure| self.named(failure));
                }
                Some(Err(error)) => return Err(self.broken(sender.http.failure(&error), chunks)),
            }
            match self.ready_frame().await {
                Some(ready) => frame = ready,
                None => return Ok(Progress::Open),
            }
        }
    }

    /// The next frame, if it is there already.
    async fn ready_frame(&mut self) -> Option<Option<Result<Bytes, HttpError>>> {
        if let Some(frame) = self.body.next().now_or_never() {
            return Some(frame);
        }
        // The connection is a task of its own that hands over one frame at a time: let it run once.
        tokio::task::yield_now().await;
        self.body.next().now_or_never()
    }

    fn broken(&mut self, failure: Failure, chunks: &mut Vec<Chunk>) -> Failure {
        let failure = self.response.broken(failure, chunks);
        self.named(failure)
    }

    /// With the provider's id of the request, which is what its support asks for first.
    fn named(&self, mut failure: Failure) -> Failure {
        let of_head = with_headers(&self.headers, |headers| headers.request_id());
        failure.request_id = of_head.or(failure.request_id);
        failure
    }
}
