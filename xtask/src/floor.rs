//! `xtask floor`: an agent with nothing in it but what no agent can leave out.
//!
//! Each step sends the whole history (kept serialised) over one kept-alive connection, reads the reply to its
//! end, makes the call durable, runs the command, and makes the result durable. It understands no JSON: the
//! reply is searched for the one word that says a tool is wanted.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use serde_json::json;

use crate::args::Args;
use crate::{Outcome, proc};

/// The end of a chunked reply; the mock server's events hold no CR.
const REPLY_END: &[u8] = b"\r\n0\r\n\r\n";

/// A reply that ends in this finish wants a tool.
const WANTS_TOOL: &str = r#""finish_reason":"tool_calls""#;

/// How much of a reply is kept in memory: longer ones are read past, as only their end matters.
const KEEP_BYTES: usize = 64 * 1024;

/// `xtask floor`: runs to the final answer and prints its own cost, children excluded, as JSON.
pub(crate) fn verb(mut args: Args) -> Outcome {
    let port: u16 = args.required("--port")?;
    let dir: PathBuf = args.required("--dir")?;
    let command = args.value("--command")?.unwrap_or_else(|| "true".to_owned());
    let hello = args.flag("--hello");
    let log_deltas = args.flag("--log-deltas");
    args.finish()?;
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_nodelay(true)?;
    if hello {
        return say_hello(&mut stream);
    }
    let log = OpenOptions::new().append(true).create(true).open(dir.join("floor.jsonl"))?;
    let deltas = if log_deltas { Some(open_delta_log(&dir)?) } else { None };
    let before_ns = proc::own_cpu_ns()?;
    let steps = Floor { stream, log, deltas, command, reply: Vec::new() }.run()?;
    let own_ns = proc::own_cpu_ns()?.saturating_sub(before_ns);
    let own_ms = own_ns as f64 / 1e6;
    println!(
        "{}",
        json!({
            "steps": steps,
            "cpu_ms": own_ms,
            "cpu_ms_per_step": own_ms / f64::from(steps.max(1)),
            "peak_rss_kib": proc::peak_rss_kib(std::process::id())?,
        })
    );
    Ok(ExitCode::SUCCESS)
}

struct Floor {
    stream: TcpStream,
    log: File,
    /// Only for the benchmark's self-test: where a line is written for each delta, as a harness would.
    deltas: Option<File>,
    command: String,
    reply: Vec<u8>,
}

impl Floor {
    /// Returns the number of steps that ran a tool.
    fn run(mut self) -> io::Result<u32> {
        let tool = r#"{"type":"function","function":{"name":"shell","parameters":{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}}}"#;
        let mut request = format!(
            r#"{{"model":"test","stream":true,"stream_options":{{"include_usage":true}},"tools":[{tool}],"messages":[{{"role":"user","content":"go"}}"#
        )
        .into_bytes();
        let mut steps = 0;
        while self.ask(&request)? {
            let call = json!({
                "role": "assistant",
                "content": "word word word word ",
                "tool_calls": [{
                    "id": format!("call_{steps}"),
                    "type": "function",
                    "function": {"name": "shell", "arguments": json!({"command": self.command}).to_string()},
                }],
            });
            self.record(&call.to_string(), &mut request)?;
            // `output` gives both pipes and reads them to their end.
            let out = Command::new("bash").args(["-c", &self.command]).stdin(Stdio::null()).output()?;
            let result = json!({
                "role": "tool",
                "tool_call_id": format!("call_{steps}"),
                "content": String::from_utf8_lossy(&out.stdout),
            });
            self.record(&result.to_string(), &mut request)?;
            steps += 1;
        }
        Ok(steps)
    }

    /// Durable first, then part of every later request.
    fn record(&mut self, message: &str, request: &mut Vec<u8>) -> io::Result<()> {
        self.log.write_all(format!("{message}\n").as_bytes())?;
        self.log.sync_data()?;
        request.push(b',');
        request.extend_from_slice(message.as_bytes());
        Ok(())
    }

    /// One request and its reply; whether a tool is wanted. `request` lacks only its closing brackets.
    fn ask(&mut self, request: &[u8]) -> io::Result<bool> {
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            request.len() + 2
        );
        self.stream.write_all(&[head.as_bytes(), request, b"]}"].concat())?;
        self.reply.clear();
        let mut part = [0; 16 * 1024];
        while !self.reply.ends_with(REPLY_END) {
            let read = self.stream.read(&mut part)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.reply.extend_from_slice(&part[..read]);
            if self.deltas.is_none() && self.reply.len() > KEEP_BYTES {
                self.reply.drain(..self.reply.len() - KEEP_BYTES / 2);
            }
        }
        let reply = String::from_utf8_lossy(&self.reply);
        if let Some(log) = &mut self.deltas {
            let line = "{\"type\":\"assistant/chunk\",\"data\":{\"chunk\":{\"type\":\"text-delta\"}}}\n";
            log.write_all(line.repeat(reply.matches(r#"{"content":"word "}"#).count()).as_bytes())?;
        }
        Ok(reply.contains(WANTS_TOOL))
    }
}

/// A file where the benchmark looks for a session's log. Synced once, so that its count of syncs shows one.
fn open_delta_log(dir: &Path) -> io::Result<File> {
    let session = dir.join("sessions/floor");
    std::fs::create_dir_all(&session)?;
    let log = File::create(session.join("log.jsonl"))?;
    log.sync_all()?;
    Ok(log)
}

/// The first bytes of a TLS handshake record and no more: stands in for a client in the benchmark's self-test.
fn say_hello(stream: &mut TcpStream) -> Outcome {
    stream.write_all(&[0x16, 0x03, 0x01, 0x00, 0x01, 0x01])?;
    let _ = stream.read(&mut [0; 16])?;
    Ok(ExitCode::SUCCESS)
}
