//! The body of one response: whatever it turns out to be, in the order it comes, out come chunks.

use terret_core::chunk::{Chunk, Failure, code};

use super::failure::{self, Secret, cut};
use super::payload::ErrorWords;
use super::sse::{BodyKind, Flow, SseReader, sniff};
use super::wire::{Decoder, End, Wire};
use crate::limits::{MAX_PLAIN_BODY_BYTES, MAX_RESPONSE_BYTES};

/// Reads a body with status 200. The content type is not asked: proxies lie.
pub struct Response {
    secret: Option<String>,
    kind: Option<BodyKind>,
    taken_bytes: usize,
    /// Whether anything came of it so far.
    understood: bool,
    /// Bytes whose kind is not known yet, or a plain body as far as it came.
    plain: Vec<u8>,
    reader: SseReader,
    decoder: Box<dyn Decoder>,
}

/// How far a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More may come.
    Open,
    /// The answer is whole; what is left of the body says nothing.
    Finished,
}

impl Response {
    /// A body at its start. The secret is masked in failures.
    pub fn new(wire: &Wire, secret: Option<String>) -> Self {
        Response {
            decoder: (wire.decoder)(secret.clone()),
            secret,
            kind: None,
            taken_bytes: 0,
            understood: false,
            plain: Vec::new(),
            reader: SseReader::new(),
        }
    }

    /// The same with a smaller limit on events, for tests of what happens there.
    pub fn with_max_event(self, max_event_bytes: usize) -> Self {
        Response { reader: SseReader::with_max_event(max_event_bytes), ..self }
    }

    /// Takes bytes in. After a failure or the finish nothing more may be pushed.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<Chunk>) -> Result<Progress, Failure> {
        self.taken_bytes += bytes.len();
        if self.taken_bytes > MAX_RESPONSE_BYTES {
            let message = format!("the response is longer than {} MiB", MAX_RESPONSE_BYTES >> 20);
            return Err(self.broken(Failure::new(code::MALFORMED_RESPONSE, message), out));
        }
        match self.kind {
            Some(BodyKind::Events) => self.events(bytes, out),
            Some(_) => self.keep(bytes),
            None => {
                self.plain.extend_from_slice(bytes);
                self.kind = sniff(&self.plain);
                match self.kind {
                    Some(BodyKind::Events) => {
                        let held = std::mem::take(&mut self.plain);
                        self.events(&held, out)
                    }
                    Some(_) | None => self.keep(&[]),
                }
            }
        }
    }

    /// The body ended cleanly.
    pub fn finish(&mut self, out: &mut Vec<Chunk>) -> Result<(), Failure> {
        match self.kind {
            Some(BodyKind::Events) | None => {}
            Some(kind) => return Err(self.not_a_stream(kind)),
        }
        let (reader, decoder) = (&mut self.reader, &mut self.decoder);
        match reader.finish(|event| decoder.event(event, out)) {
            Ok(flow) => {
                let result = self.after(flow, true, out);
                result.map(|_| ()).map_err(|failure| self.strange(failure, out))
            }
            Err(error) => Err(self.broken(Failure::new(code::MALFORMED_RESPONSE, error.to_string()), out)),
        }
    }

    /// The failure of a stream in which nothing was understood, with what it usually comes from.
    fn strange(&self, mut failure: Failure, out: &[Chunk]) -> Failure {
        if failure.code == code::STREAM_CLOSED && !self.understood && out.is_empty() {
            failure
                .message
                .push_str(": nothing of this protocol was in it (is it the right `wire` and `base_url`?)");
        }
        failure
    }

    /// The body broke off with this failure: gives out what was held back, and hands the failure on.
    pub fn broken(&mut self, failure: Failure, out: &mut Vec<Chunk>) -> Failure {
        self.decoder.flush(out);
        failure
    }

    fn events(&mut self, bytes: &[u8], out: &mut Vec<Chunk>) -> Result<Progress, Failure> {
        let (reader, decoder, before) = (&mut self.reader, &mut self.decoder, out.len());
        let flow = reader.push(bytes, |event| decoder.event(event, out));
        self.understood |= out.len() > before;
        match flow {
            Ok(flow) => self.after(flow, false, out),
            Err(error) => Err(self.broken(Failure::new(code::MALFORMED_RESPONSE, error.to_string()), out)),
        }
    }

    fn after(&mut self, flow: Flow<End>, at_end: bool, out: &mut Vec<Chunk>) -> Result<Progress, Failure> {
        match flow {
            Flow::Continue(()) if at_end => self.decoder.end(false, out).map(|()| Progress::Finished),
            Flow::Continue(()) => Ok(Progress::Open),
            Flow::Break(End::Done) => self.decoder.end(true, out).map(|()| Progress::Finished),
            Flow::Break(End::Failed(failure)) => Err(self.broken(failure, out)),
        }
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<Progress, Failure> {
        self.plain.extend_from_slice(bytes);
        if self.plain.len() > MAX_PLAIN_BODY_BYTES {
            return Err(self.not_a_stream(self.kind.unwrap_or(BodyKind::Html)));
        }
        Ok(Progress::Open)
    }

    fn not_a_stream(&self, kind: BodyKind) -> Failure {
        let secret = Secret(self.secret.as_deref());
        let text = String::from_utf8_lossy(&self.plain);
        let text = text.trim_start_matches('\u{FEFF}').trim();
        let value: Option<serde_json::Value> = serde_json::from_str(text).ok();
        if let Some(words) = value.as_ref().and_then(ErrorWords::from_envelope) {
            return failure::from_words(&words, text, secret);
        }
        let what = match kind {
            BodyKind::Html => "a web page",
            BodyKind::Compressed => "a compressed body",
            BodyKind::Json | BodyKind::Events => "a single JSON value",
        };
        let message = format!("the server answered with {what} instead of a stream: {}", cut(text, 200));
        let failure = Failure::new(code::MALFORMED_RESPONSE, message);
        failure::with_raw(failure, text, secret)
    }
}
