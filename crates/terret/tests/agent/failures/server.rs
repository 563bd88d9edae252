//! A real server on a real socket that answers the nth request with the nth reply, and the last one for ever.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use terret::agent::{Agent, Builder};
use terret::model::{ProviderSettings, Providers};
use terret::policy::Retry;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What a request gets.
#[derive(Clone)]
pub(crate) enum Reply {
    /// A stream that comes whole.
    Stream(Vec<u8>),
    /// A stream whose connection is reset behind these bytes.
    Reset(Vec<u8>),
    /// A status line, further headers and a body.
    Status(&'static str, &'static str, &'static str),
}

pub(crate) struct Server {
    url: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub(crate) async fn new(replies: Vec<Reply>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let server = Server { url, requests: requests.clone() };
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(socket, replies.clone(), requests.clone()));
            }
        });
        server
    }

    /// One that plays these bodies, each whole.
    pub(crate) async fn playing<const N: usize>(bodies: [&str; N]) -> Server {
        Server::new(bodies.map(|body| Reply::Stream(body.into())).to_vec()).await
    }

    /// An agent that asks this server, with quick retries.
    pub(crate) fn agent(&self) -> Builder {
        self.agent_of(ProviderSettings::default())
    }

    /// One that speaks this wire.
    pub(crate) fn agent_over(&self, wire: &str) -> Builder {
        self.agent_of(ProviderSettings { wire: Some(wire.to_owned()), ..ProviderSettings::default() })
    }

    /// The same for a server of a special kind.
    pub(crate) fn agent_of(&self, settings: ProviderSettings) -> Builder {
        let settings = ProviderSettings {
            base_url: Some(self.url.clone()),
            api_key_env: Some(String::new()),
            ..settings
        };
        let models = Providers::new(Box::new(|_| None)).with("mine", settings);
        let retry = Retry { max: 3, base_ms: 1, ..Retry::default() };
        Agent::builder(Arc::new(models)).model("mine/m1").unwrap().plugin(retry)
    }

    /// The bodies that were asked with, each a request a strict server takes.
    pub(crate) fn requests(&self) -> Vec<Value> {
        let requests = self.bodies();
        let requests: Vec<Value> = requests.iter().map(|body| serde_json::from_str(body).unwrap()).collect();
        requests.iter().for_each(|body| assert_pairs(&body["messages"]));
        requests
    }

    /// The same, byte by byte.
    pub(crate) fn bodies(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// Every call has one result, the results stand directly behind the calls, in their order, and answer nothing
/// else.
pub(crate) fn assert_pairs(messages: &Value) {
    let mut open: Vec<&str> = Vec::new();
    for message in messages.as_array().unwrap() {
        if message["role"] == "tool" {
            assert!(!open.is_empty(), "a result nobody asked for: {message}\n{messages:#}");
            assert_eq!(message["tool_call_id"], open.remove(0), "{messages:#}");
            continue;
        }
        assert!(open.is_empty(), "calls without a result: {open:?}\n{messages:#}");
        let calls = message["tool_calls"].as_array();
        open = calls.into_iter().flatten().map(|call| call["id"].as_str().unwrap()).collect();
        let mut ids = open.clone();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), open.len(), "an id twice in one answer: {message}");
    }
    assert!(open.is_empty(), "calls without a result: {open:?}\n{messages:#}");
}

async fn serve(mut socket: TcpStream, replies: Vec<Reply>, requests: Arc<Mutex<Vec<String>>>) {
    while let Some(body) = read_request(&mut socket).await {
        let at = {
            let mut requests = requests.lock().unwrap();
            requests.push(body);
            requests.len() - 1
        };
        let reply = &replies[at.min(replies.len() - 1)];
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        let sent = match reply {
            Reply::Stream(bytes) | Reply::Reset(bytes) => {
                let frame = [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
                socket.write_all(&[head.as_bytes(), &frame].concat()).await
            }
            Reply::Status(line, headers, body) => {
                let length = body.len();
                let text = format!("HTTP/1.1 {line}\r\n{headers}content-length: {length}\r\n\r\n{body}");
                socket.write_all(text.as_bytes()).await
            }
        };
        let ended = match reply {
            Reply::Stream(_) => socket.write_all(b"0\r\n\r\n").await,
            Reply::Reset(_) => {
                // The client must have read what came before: a reset throws unread bytes away.
                tokio::time::sleep(Duration::from_millis(50)).await;
                return socket.set_zero_linger().unwrap();
            }
            Reply::Status(..) => Ok(()),
        };
        if sent.and(ended).is_err() {
            return;
        }
    }
}

async fn read_request(socket: &mut TcpStream) -> Option<String> {
    let mut got = Vec::new();
    loop {
        let head = got.windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(head) = head {
            let text = String::from_utf8_lossy(&got[..head]).to_lowercase();
            let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            let length: usize = length.unwrap_or(0);
            if got.len() - head - 4 >= length {
                return Some(String::from_utf8(got[head + 4..].to_vec()).unwrap());
            }
        }
        let mut buffer = [0; 4096];
        match socket.read(&mut buffer).await {
            Ok(0) | Err(_) => return None,
            Ok(read) => got.extend_from_slice(&buffer[..read]),
        }
    }
}
