//! What the model says: scenarios, and their answers as bytes ready for the socket.

use std::str::FromStr;

/// Text of every delta: about the size of a token.
const WORD: &str = "word ";

/// Text deltas before each tool call, and in a final answer.
const WORDS_PER_ANSWER: u32 = 4;

/// A burst is written in blocks of this size, as a fast server's kernel would coalesce it.
const BURST_BLOCK_BYTES: usize = 64 * 1024;

/// Usage is the same each time, so that no client sees a reason to compact.
const USAGE: &str = r#"{"prompt_tokens":1000,"completion_tokens":10,"total_tokens":1010}"#;

/// A script that answers any number of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scenario {
    /// One short answer.
    Text,
    /// So many steps of text and one tool call, then a short answer.
    Loop(u32),
    /// The same, each call printing 2 KB.
    History(u32),
    /// One answer of so many text deltas.
    Burst(u32),
}

impl Scenario {
    /// The shell command each step asks for.
    pub(crate) fn command(self) -> &'static str {
        match self {
            // A builtin: the 2 KB must not cost a second process.
            Scenario::History(_) => "printf %02048d 0",
            Scenario::Text | Scenario::Loop(_) | Scenario::Burst(_) => "true",
        }
    }

    /// Whether the answer at this step calls no tool.
    pub(super) fn ends_at(self, step: u32) -> bool {
        match self {
            Scenario::Text | Scenario::Burst(_) => true,
            Scenario::Loop(steps) | Scenario::History(steps) => step >= steps,
        }
    }

    /// The answer at this step: one element for each write to the socket, framed as HTTP chunks. The last one
    /// holds everything from the finish on, so that "the last byte" is one moment.
    pub(super) fn reply(self, step: u32) -> Vec<Vec<u8>> {
        let words = if let Scenario::Burst(words) = self { words } else { WORDS_PER_ANSWER };
        let block_bytes = if let Scenario::Burst(_) = self { BURST_BLOCK_BYTES } else { 0 };
        let mut reply = Reply { step, block_bytes, ..Reply::default() };
        reply.choice(r#"{"role":"assistant","content":""}"#, "null");
        let word = format!(r#"{{"content":"{WORD}"}}"#);
        for _ in 0..words {
            reply.choice(&word, "null");
        }
        if self.ends_at(step) {
            return reply.finish("stop");
        }
        // Name and arguments come apart, as they do from real servers.
        reply.choice(
            &format!(
                r#"{{"tool_calls":[{{"index":0,"id":"call_{step}","type":"function","function":{{"name":"shell","arguments":""}}}}]}}"#
            ),
            "null",
        );
        reply.choice(
            &format!(
                r#"{{"tool_calls":[{{"index":0,"function":{{"arguments":"{{\"command\":\"{}\"}}"}}}}]}}"#,
                self.command()
            ),
            "null",
        );
        reply.finish("tool_calls")
    }
}

impl FromStr for Scenario {
    type Err = String;

    fn from_str(text: &str) -> Result<Scenario, String> {
        let unknown = || format!("no scenario `{text}`");
        let Some((kind, count)) = text.split_once(':') else {
            return if text == "text" { Ok(Scenario::Text) } else { Err(unknown()) };
        };
        let count = count.parse().map_err(|_| unknown())?;
        match kind {
            "loop" => Ok(Scenario::Loop(count)),
            "history" => Ok(Scenario::History(count)),
            "burst" => Ok(Scenario::Burst(count)),
            _ => Err(unknown()),
        }
    }
}

/// How many assistant messages a request holds, which is the step it asks for. Searched, not parsed: inside a
/// JSON string the quotes would be escaped, so text cannot be mistaken for a message.
pub(super) fn assistant_messages(body: &[u8]) -> u32 {
    let text = String::from_utf8_lossy(body);
    let count =
        text.matches(r#""role":"assistant""#).count() + text.matches(r#""role": "assistant""#).count();
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Collects events into writes.
#[derive(Default)]
struct Reply {
    step: u32,
    /// Events are gathered until they reach this size; 0: one write an event.
    block_bytes: usize,
    open: Vec<u8>,
    writes: Vec<Vec<u8>>,
}

impl Reply {
    fn choice(&mut self, delta: &str, finish: &str) {
        self.event(&format!(r#"[{{"index":0,"delta":{delta},"finish_reason":{finish}}}]"#), "null");
        if self.open.len() > self.block_bytes {
            self.flush();
        }
    }

    fn event(&mut self, choices: &str, usage: &str) {
        let step = self.step;
        self.open.extend_from_slice(
            format!(
                r#"data: {{"id":"chatcmpl-{step}","object":"chat.completion.chunk","created":1790000000,"model":"test","choices":{choices},"usage":{usage}}}"#
            )
            .as_bytes(),
        );
        self.open.extend_from_slice(b"\n\n");
    }

    fn flush(&mut self) {
        let mut write = format!("{:x}\r\n", self.open.len()).into_bytes();
        write.append(&mut self.open);
        write.extend_from_slice(b"\r\n");
        self.writes.push(write);
    }

    fn finish(mut self, reason: &str) -> Vec<Vec<u8>> {
        // Held back from `choice`, which might flush it on its own.
        self.event(&format!(r#"[{{"index":0,"delta":{{}},"finish_reason":"{reason}"}}]"#), "null");
        self.event("[]", USAGE);
        self.open.extend_from_slice(b"data: [DONE]\n\n");
        self.flush();
        if let Some(last) = self.writes.last_mut() {
            last.extend_from_slice(b"0\r\n\r\n");
        }
        self.writes
    }
}
