//! The scripted model, through the interface every model has.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use terret::core::assemble::{Assembler, Route};
use terret::core::chunk::{Failure, FinishKind, code};
use terret::core::fact::Header;
use terret::core::id::CallId;
use terret::core::message::{Block, Message, Role, Source};
use terret::model::provider::{Own, adapter};
use terret::model::{Adapter, Proposal, codec, no_blobs};

struct Play {
    adapter: Box<dyn Adapter>,
    header: Header,
}

impl Play {
    fn new(model: &str) -> Result<Self, Failure> {
        let adapter = adapter("script", None, &|_| None, Own::default())?;
        let proposal =
            Proposal { provider: "script".to_owned(), model: model.to_owned(), ..Proposal::default() };
        let prepared = adapter.prepare(&proposal)?;
        let header = Header {
            provider: proposal.provider,
            model: proposal.model,
            wire: prepared.wire,
            dialect: prepared.dialect,
            parameters: prepared.parameters,
            defaults: prepared.defaults,
            system: None,
            tools: Vec::new(),
        };
        Ok(Play { adapter, header })
    }

    fn script(text: &str) -> Self {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        // Read by `prepare` and kept: the file may go.
        Play::new(file.path().to_str().unwrap()).unwrap()
    }

    async fn ask(&self, messages: &[Message]) -> (Assembler, Option<Failure>, usize) {
        let mut body = codec(&self.header.wire).unwrap().begin(&self.header).unwrap();
        messages.iter().for_each(|message| body.push(message, &no_blobs).unwrap());
        let body = body.bytes();
        let idle_timeout = Duration::from_secs(5);
        let outgoing = terret::testing::outgoing(self.header.clone(), body, idle_timeout).unwrap();
        let mut stream = self.adapter.stream(outgoing);
        let mut fold = Assembler::new(Route::default());
        let (mut failure, mut batches) = (None, 0);
        while let Some(item) = stream.next().await {
            batches += 1;
            match item {
                Ok(chunks) => chunks.iter().for_each(|chunk| fold.push(chunk)),
                Err(end) => failure = Some(end),
            }
        }
        (fold, failure, batches)
    }
}

fn answer(content: Vec<Block>) -> Message {
    let source =
        Source::Model { provider: "script".to_owned(), model: "m".to_owned(), wire: None, response_id: None };
    Message { id: "a".into(), role: Role::Assistant, content, source }
}

fn said(fold: &Assembler) -> String {
    let message = answer(fold.content());
    message.text()
}

#[tokio::test]
async fn the_demo_uses_real_tools_and_then_answers() {
    let play = Play::new("demo").unwrap();
    let mut history = vec![Message::user("u", "anything")];
    let mut tools = Vec::new();
    for round in 0..2 {
        for step in 0..4 {
            let (fold, failure, _) = play.ask(&history).await;
            assert_eq!(failure, None);
            let content = fold.content();
            let kind = if step == 3 { FinishKind::Stop } else { FinishKind::ToolCalls };
            assert_eq!(fold.finish().unwrap().kind, kind);
            history.push(answer(content.clone()));
            for block in content {
                if let Block::ToolCall { name, arguments, .. } = block {
                    assert!(serde_json::from_str::<serde_json::Value>(&arguments).unwrap().is_object());
                    let call = CallId { turn: round, step, ordinal: 0 };
                    let content = vec![Block::ToolResult { call, content: vec![], is_error: false }];
                    history.push(Message {
                        id: "t".into(),
                        role: Role::User,
                        content,
                        source: Source::Tool { call },
                    });
                    tools.push(name);
                }
            }
        }
        history.push(Message::user("u", "again"));
    }
    assert_eq!(tools, ["shell", "write", "read", "shell", "write", "read"]);
}

#[tokio::test]
async fn the_response_depends_on_the_request_alone() {
    let play = Play::script("say one\n---\nsay two\n---\nsay three\n");
    let mut history = vec![Message::user("u", "hi")];
    for expected in ["one", "two", "three", "one"] {
        assert_eq!(said(&play.ask(&history).await.0), expected);
        assert_eq!(said(&play.ask(&history).await.0), expected, "asking twice changes nothing");
        history.push(answer(vec![Block::text("x")]));
    }
    let restart = Play::script("restart prompt\nsay one\n---\nsay two\n");
    assert_eq!(said(&restart.ask(&history[..2]).await.0), "two");
    history.push(Message::user("u", "more"));
    assert_eq!(said(&restart.ask(&history).await.0), "one");
}

#[tokio::test]
async fn failures_are_counted_and_keep_what_came_before_them() {
    let play = Play::script("say half\nfail OVERLOADED times=2 status=529\nsay whole\n");
    let history = [Message::user("u", "hi")];
    for _ in 0..2 {
        let (fold, failure, _) = play.ask(&history).await;
        assert_eq!(said(&fold), "half");
        assert_eq!(
            failure.map(|failure| (failure.code, failure.status)),
            Some((code::OVERLOADED.to_owned(), Some(529)))
        );
    }
    let (fold, failure, _) = play.ask(&history).await;
    assert_eq!((said(&fold).as_str(), failure), ("halfwhole", None));
    let cut = Play::script("say half\ncut times=always\n");
    for _ in 0..3 {
        assert_eq!(cut.ask(&history).await.1.unwrap().code, code::STREAM_CLOSED);
    }
    assert_eq!(Play::script("wait 1").ask(&history).await.1.unwrap().code, code::EMPTY_RESPONSE);
}

#[tokio::test]
async fn pauses_make_batches() {
    let play = Play::script("say a b c\n");
    let history = [Message::user("u", "hi")];
    assert_eq!(play.ask(&history).await.2, 1);
    let slow = Play::script("pace 20\nsay a b c\nusage input=7 output=2\n");
    let start = Instant::now();
    let (fold, _, batches) = slow.ask(&history).await;
    assert_eq!(batches, 4);
    assert!(start.elapsed() >= Duration::from_millis(60));
    assert_eq!(fold.usage().unwrap().input_tokens, 7);
}

#[test]
fn a_bad_script_is_refused_before_anything_is_sent() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "say a\nsya b\n").unwrap();
    let failure = Play::new(file.path().to_str().unwrap()).err().unwrap();
    assert!(failure.message.contains("line 2: `sya`"), "{}", failure.message);
    assert_eq!(Play::new("/no/such/script").err().unwrap().code, code::NOT_FOUND);
}
