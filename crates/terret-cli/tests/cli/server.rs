//! A chat-completions server in the test process: a closure says what each request is answered.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

/// What a request is answered.
pub(crate) enum Reply {
    /// A whole stream, its end marker included, in one write.
    Stream(Vec<Value>),
    /// The same, with a pause before each event.
    Slow(Vec<Value>, Duration),
    /// These events, then the connection is cut.
    Cut(Vec<Value>),
    /// These events, then silence until the client goes away.
    Stall(Vec<Value>),
    /// A response that is no stream.
    Plain { status: u16, headers: Vec<(&'static str, String)>, body: String },
}

/// One request, as it came.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// Content of its last message.
    pub(crate) fn last(&self) -> Value {
        self.json()["messages"].as_array().unwrap().last().unwrap()["content"].clone()
    }

    /// The last thing the person said.
    pub(crate) fn prompt(&self) -> String {
        let json = self.json();
        let messages = json["messages"].as_array().unwrap();
        let last = messages.iter().rev().find(|message| message["role"] == "user").unwrap();
        last["content"].as_str().unwrap().to_owned()
    }
}

type Script = dyn Fn(usize, &Request) -> Reply + Send + Sync;

/// A running server. It ends with the test process.
pub(crate) struct Server {
    port: u16,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    requests: Vec<Request>,
    connections: usize,
}

impl Server {
    /// Starts one; `script` gets the number of the request, from 0.
    pub(crate) fn start(script: impl Fn(usize, &Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (script, shared): (Arc<Script>, _) = (Arc::new(script), seen.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                shared.lock().unwrap().connections += 1;
                let (script, seen) = (script.clone(), shared.clone());
                // A client that goes away ends its thread, and is no failure.
                std::thread::spawn(move || serve(&stream, &*script, &seen));
            }
        });
        Server { port, seen }
    }

    /// Where it listens, on loopback.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.seen.lock().unwrap().requests.clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.seen.lock().unwrap().connections
    }

    /// Its address.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// `run`, the words that make this server the model, and more arguments.
    pub(crate) fn run(&self, more: &[&str]) -> Vec<String> {
        provider(self.port, more)
    }
}

/// `run` with the model on a port of this machine.
pub(crate) fn provider(port: u16, more: &[&str]) -> Vec<String> {
    let base = format!("providers.test.base_url=http://127.0.0.1:{port}/v1");
    let words = ["run", "-m", "test/model", "--set", "providers.test.wire=openai-chat", "--set", &base];
    words.iter().chain(more).map(|word| (*word).to_owned()).collect()
}

fn serve(stream: &TcpStream, script: &Script, seen: &Mutex<Seen>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    while let Some(request) = read_request(&mut reader)? {
        let number = {
            let mut seen = seen.lock().unwrap();
            seen.requests.push(request.clone());
            seen.requests.len() - 1
        };
        if !answer(stream, script(number, &request))? {
            return stream.shutdown(std::net::Shutdown::Both);
        }
    }
    Ok(())
}

fn read_request(reader: &mut impl BufRead) -> std::io::Result<Option<Request>> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let start = head.len();
        if reader.read_line(&mut head)? == 0 {
            return Ok(None);
        }
        let line = head[start..].trim().to_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Some(Request { head, body }))
}

/// Sends a reply; `false` if the connection is of no further use.
fn answer(mut stream: &TcpStream, reply: Reply) -> std::io::Result<bool> {
    const HEAD: &str =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let (events, pause, whole) = match reply {
        Reply::Plain { status, headers, body } => {
            let mut text = format!("HTTP/1.1 {status} Whatever\r\ncontent-length: {}\r\n", body.len());
            for (name, value) in headers {
                text.push_str(&format!("{name}: {value}\r\n"));
            }
            stream.write_all(format!("{text}\r\n{body}").as_bytes())?;
            return Ok(true);
        }
        Reply::Stream(events) => {
            let body: String = events.iter().map(event).chain([END.to_owned()]).collect();
            stream.write_all(format!("{HEAD}{}0\r\n\r\n", chunk(&body)).as_bytes())?;
            return Ok(true);
        }
        Reply::Slow(events, pause) => (events, pause, true),
        Reply::Cut(events) => (events, Duration::ZERO, false),
        Reply::Stall(events) => {
            stream.write_all(HEAD.as_bytes())?;
            stream.write_all(events.iter().map(|e| chunk(&event(e))).collect::<String>().as_bytes())?;
            // Nothing comes any more; this returns when the client closes.
            let _ = stream.read(&mut [0])?;
            return Ok(false);
        }
    };
    stream.write_all(HEAD.as_bytes())?;
    for one in &events {
        std::thread::sleep(pause);
        stream.write_all(chunk(&event(one)).as_bytes())?;
    }
    if whole {
        stream.write_all(format!("{}0\r\n\r\n", chunk(END)).as_bytes())?;
    }
    Ok(whole)
}

const END: &str = "data: [DONE]\n\n";

fn event(value: &Value) -> String {
    format!("data: {value}\n\n")
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

fn delta(delta: Value, finish: Value) -> Value {
    json!({"id": "r", "object": "chat.completion.chunk", "created": 1, "model": "model",
           "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
}

/// A piece of text.
pub(crate) fn text(piece: &str) -> Value {
    delta(json!({"content": piece}), Value::Null)
}

/// The end of an answer, with its token counts.
pub(crate) fn finish(reason: &str) -> Vec<Value> {
    let usage = json!({"id": "r", "object": "chat.completion.chunk", "created": 1, "model": "model", "choices": [],
                       "usage": {"completion_tokens": 10, "prompt_tokens": 100, "total_tokens": 110}});
    vec![delta(json!({}), json!(reason)), usage]
}

/// An answer of text, a word in each piece.
pub(crate) fn says(words: &str) -> Vec<Value> {
    words.split_inclusive(' ').map(text).chain(finish("stop")).collect()
}

/// A call of one tool, its arguments as they are, in pieces.
pub(crate) fn calls(name: &str, arguments: &str) -> Vec<Value> {
    let call = |call: Value| delta(json!({"tool_calls": [call]}), Value::Null);
    let mut events = vec![call(
        json!({"index": 0, "id": "call_1", "type": "function", "function": {"name": name, "arguments": ""}}),
    )];
    let pieces: Vec<char> = arguments.chars().collect();
    for piece in pieces.chunks(12) {
        let piece: String = piece.iter().collect();
        events.push(call(json!({"index": 0, "function": {"arguments": piece}})));
    }
    events.extend(finish("tool_calls"));
    events
}

/// A response with a status and a body.
pub(crate) fn plain(status: u16, kind: &str, body: &str) -> Reply {
    Reply::Plain { status, headers: vec![("content-type", kind.to_owned())], body: body.to_owned() }
}
