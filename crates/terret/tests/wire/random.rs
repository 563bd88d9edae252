//! Random histories, made of what recorded servers said: over every wire and row, a body is the beginning of the
//! next one.

use std::collections::BTreeMap;

use fastrand::Rng;
use serde_json::{Value, json};
use terret::core::assemble::{Assembler, Route};
use terret::core::fact::{Header, ToolSpec};
use terret::core::id::{CallId, Digest};
use terret::core::message::{Attachment, Block, CallKind, Message, Role, Source};
use terret::core::raw::Raw;
use terret::model::codec;
use terret::model::wire::{WIRES, Wire, wire};

use crate::fixtures::{fixtures, play};

const OWN: &str = "m";

/// What each protocol's recorded servers answered, as blocks of a model of this name.
fn answers(model: &str) -> BTreeMap<String, Vec<Vec<Block>>> {
    let mut answers = BTreeMap::<String, Vec<Vec<Block>>>::new();
    for fixture in fixtures() {
        let (chunks, failure) = play(&fixture, &[&fixture.body]);
        if failure.is_some() {
            continue;
        }
        let protocol = fixture.expected["protocol"].as_str().unwrap().to_owned();
        let route = Route { protocol: protocol.clone(), provider: "p".into(), model: model.into() };
        let mut fold = Assembler::new(route);
        chunks.iter().for_each(|chunk| fold.push(chunk));
        let content: Vec<Block> =
            fold.content().into_iter().filter(|block| block_text_len(block) < 4_000).collect();
        answers.entry(protocol).or_default().push(content);
    }
    answers
}

fn block_text_len(block: &Block) -> usize {
    serde_json::to_string(block).unwrap().len()
}

struct Maker {
    rng: Rng,
    own: BTreeMap<String, Vec<Vec<Block>>>,
    foreign: BTreeMap<String, Vec<Vec<Block>>>,
    messages: Vec<Message>,
    step: u32,
}

impl Maker {
    fn text(&mut self) -> String {
        let texts =
            ["", " ", "hi", "\"quoted\" \\ and \n lines \u{7f}", "价格 🦀", "]}", "{\"a\":[1,2]}", "x "];
        texts[self.rng.usize(..texts.len())].to_owned()
    }

    fn picture(&mut self) -> Block {
        let media_type = ["image/png", "image/jpeg", "image/tiff", "application/pdf"][self.rng.usize(..4)];
        let name = self.rng.bool().then(|| "a.x".to_owned());
        let attachment =
            Attachment { blob: Digest::of(b"png"), media_type: media_type.to_owned(), bytes: 3, name };
        if self.rng.bool() { Block::Image { attachment } } else { Block::File { attachment } }
    }

    fn block(&mut self) -> Block {
        match self.rng.u8(..4) {
            0 => self.picture(),
            1 => Block::Json { value: Raw::parse(r#"{"w": 1.50, "h": [1e3]}"#).unwrap() },
            _ => Block::text(self.text()),
        }
    }

    fn user(&mut self) {
        for _ in 0..=self.rng.u8(..2) {
            let content = (0..=self.rng.u8(..3)).map(|_| self.block()).collect();
            self.messages.push(Message { content, ..Message::user("u", "") });
        }
    }

    /// An answer of this wire or of another, of this model or of another, with all its results behind it.
    fn step(&mut self, protocol: &str) {
        self.step += 1;
        let of_own_model = self.rng.u8(..4) > 0;
        let all = if of_own_model { &self.own } else { &self.foreign };
        let any = self.rng.usize(..all.len());
        let pick = if self.rng.u8(..5) > 0 { all.get_key_value(protocol) } else { None };
        let (said_over, lists) = pick.unwrap_or_else(|| all.iter().nth(any).unwrap());
        let wire = wire(said_over).unwrap().codec;
        let mut content = lists[self.rng.usize(..lists.len())].clone();
        if self.rng.u8(..6) == 0 {
            let id = ["call_1", "", "a b", "call_1"][self.rng.usize(..4)].to_owned();
            let arguments = ["{}", "", "{not json", "[1]", "{\"n\":1.0e2,\"a\":\"\\ud83d\"}"]
                [self.rng.usize(..5)]
            .to_owned();
            let kind = if self.rng.u8(..4) == 0 { CallKind::Custom } else { CallKind::Json };
            content.push(Block::ToolCall {
                call: None,
                id,
                name: "read".into(),
                arguments,
                kind,
                provider: None,
            });
        }
        let mut calls = Vec::new();
        for block in &mut content {
            if let Block::ToolCall { call, .. } = block {
                let id = CallId { turn: 1, step: self.step, ordinal: calls.len() as u32 };
                *call = Some(id);
                calls.push(id);
            }
        }
        let source = Source::Model {
            provider: "p".into(),
            model: if of_own_model { OWN } else { "another" }.into(),
            wire: Some(wire.into()),
            response_id: None,
        };
        self.messages.push(Message { id: "a".into(), role: Role::Assistant, content, source });
        for call in calls {
            let content = (0..self.rng.u8(..3)).map(|_| self.block()).collect();
            let content = vec![Block::ToolResult { call, content, is_error: self.rng.u8(..3) == 0 }];
            self.messages.push(Message {
                id: "t".into(),
                role: Role::User,
                content,
                source: Source::Tool { call },
            });
        }
    }
}

fn header(wire: &Wire, row: &str) -> Header {
    let parameters = [("max_output_tokens", json!(1000)), ("cache_key", json!("s"))];
    let tool = ToolSpec {
        name: "read".into(),
        description: "Reads.".into(),
        parameters: Raw::parse(r#"{"type":"object", "properties":{}}"#).unwrap(),
    };
    Header {
        provider: "p".into(),
        model: OWN.into(),
        wire: wire.codec.into(),
        dialect: (wire.row)(row, OWN).unwrap(),
        parameters: parameters
            .map(|(name, value)| (name.to_owned(), Raw::from_value(&value).unwrap()))
            .into(),
        defaults: Vec::new(),
        system: Some("You are terret.".into()),
        tools: vec![tool],
    }
}

/// A body without the markers that move, which are no content.
fn unmarked(body: &[u8]) -> String {
    let body = String::from_utf8(body.to_vec()).unwrap();
    let body = body.replace(r#","cache_control":{"type":"ephemeral"}"#, "");
    assert!(!body.contains("\"cache_control\""), "{body}");
    body
}

fn grows(wire: &Wire, row: &str, messages: &[Message]) {
    let header = header(wire, row);
    let mut body = codec(wire.codec).unwrap().begin(&header).unwrap();
    let mut last = unmarked(&body.bytes());
    let mut stable = body.stable().to_vec();
    for (at, message) in messages.iter().enumerate() {
        body.push(message, &crate::requests::blobs).unwrap();
        let lent = body.bytes();
        let next = unmarked(&lent);
        let parsed: Value = serde_json::from_str(&next).unwrap_or_else(|e| panic!("{row} {at}: {e}\n{next}"));
        assert!(parsed.is_object());
        // A message may grow by further blocks: what closes it is no content.
        let open = last.trim_end_matches([']', '}']);
        assert!(next.starts_with(open), "{} {row}, message {at}:\n{last}\n{next}", wire.codec);
        assert!(lent.starts_with(&stable), "what was called stable has changed");
        stable = body.stable().to_vec();
        assert!(lent.starts_with(&stable));
        last = next;
    }
    // The same from nothing: a body depends on what was pushed and on nothing else.
    let mut again = codec(wire.codec).unwrap().begin(&header).unwrap();
    messages.iter().for_each(|message| again.push(message, &crate::requests::blobs).unwrap());
    assert_eq!(unmarked(&again.bytes()), last);
    assert_eq!(again.bytes(), body.bytes());
}

#[test]
fn over_random_histories_a_body_is_the_beginning_of_the_next() {
    let (own, foreign) = (answers(OWN), answers("another"));
    for wire in WIRES {
        assert!(own[wire.protocol].len() > 5, "{}", wire.protocol);
        for seed in 0..60 {
            let rng = Rng::with_seed(seed);
            let mut maker =
                Maker { rng, own: own.clone(), foreign: foreign.clone(), messages: Vec::new(), step: 0 };
            for _ in 0..8 {
                maker.user();
                for _ in 0..maker.rng.u8(..4) {
                    maker.step(wire.protocol);
                }
            }
            let row = wire.rows[seed as usize % wire.rows.len()];
            grows(wire, row, &maker.messages);
        }
    }
}
