//! As much HTTP/1.1 as an agent's client needs to be answered.

use std::io::{self, BufRead, Read, Write};

/// Before every streamed answer.
pub(super) const EVENT_STREAM_HEAD: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n";

/// For whatever is not a completion request.
pub(super) const NOT_FOUND: &[u8] =
    b"HTTP/1.1 404 Not Found\r\ncontent-type: application/json\r\ncontent-length: 36\r\n\r\n{\"error\":{\"message\":\"no such path\"}}";

/// Longest accepted body: a scripted session never comes near, a runaway client stops here.
const MAX_BODY_BYTES: usize = 256 << 20;

/// The request line, and how the body is framed.
#[derive(Debug, Default)]
pub(super) struct Head {
    request_line: String,
    length_bytes: usize,
    chunked: bool,
    /// `expect: 100-continue`: the client waits for a word before it sends the body.
    expects: bool,
}

impl Head {
    pub(super) fn is_completion(&self) -> bool {
        self.request_line.starts_with("POST ") && self.request_line.contains("/chat/completions ")
    }
}

/// Reads one request into `body`. `None`: the client closed the connection.
pub(super) fn read_request(
    reader: &mut impl BufRead,
    writer: &mut impl Write,
    body: &mut Vec<u8>,
) -> io::Result<Option<Head>> {
    let mut head = Head::default();
    if reader.read_line(&mut head.request_line)? == 0 {
        return Ok(None);
    }
    let mut line = String::new();
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => head.length_bytes = value.parse().map_err(|_| bad("content-length"))?,
            "transfer-encoding" => head.chunked = value.eq_ignore_ascii_case("chunked"),
            "expect" => head.expects = true,
            _ => {}
        }
    }
    if head.expects {
        writer.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    body.clear();
    if head.chunked {
        while read_chunk(reader, body)? {}
    } else {
        read_into(reader, head.length_bytes, body)?;
    }
    Ok(Some(head))
}

/// One chunk of a chunked body; false after the empty one.
fn read_chunk(reader: &mut impl BufRead, body: &mut Vec<u8>) -> io::Result<bool> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let digits = line.split(';').next().unwrap_or_default().trim();
    let bytes = usize::from_str_radix(digits, 16).map_err(|_| bad("chunk size"))?;
    read_into(reader, bytes, body)?;
    line.clear();
    reader.read_line(&mut line)?;
    Ok(bytes > 0)
}

fn read_into(reader: &mut impl Read, bytes: usize, body: &mut Vec<u8>) -> io::Result<()> {
    if body.len().saturating_add(bytes) > MAX_BODY_BYTES {
        return Err(bad("body size"));
    }
    let start = body.len();
    body.resize(start + bytes, 0);
    reader.read_exact(&mut body[start..])
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("bad {what}"))
}
