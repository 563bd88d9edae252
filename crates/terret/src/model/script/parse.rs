//! The script format, line by line. `docs/reference/script-format.md` describes it for people who write it.

use std::iter::Peekable;
use std::str::Lines;

use terret_core::chunk::{Failure, FinishKind, Usage, code};

/// A script: what the model answers, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// The responses.
    pub responses: Vec<Response>,
    /// Counting starts over at each prompt.
    pub restart_at_prompt: bool,
    /// The window of the pretended model, in tokens.
    pub context_window: Option<u64>,
}

/// One response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// What happens, in order.
    pub items: Vec<Item>,
    /// Token counts; estimated if absent.
    pub usage: Option<Usage>,
    /// How it ends; told from what is in it if absent.
    pub finish: Option<FinishKind>,
}

/// One thing that happens in a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// Text.
    Say(String),
    /// Reasoning.
    Think(String),
    /// A refusal.
    Refuse(String),
    /// A call: tool and raw arguments.
    Call(String, String),
    /// A pause in milliseconds.
    Wait(u64),
    /// A pause before each of the deltas that follow.
    Pace(u64),
    /// Characters in each of the deltas that follow.
    Pieces(usize),
    /// The request fails here, the first so many times.
    Fail(Failure, u32),
}

/// What is wrong with a script, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct Mistake {
    /// Line number, from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
}

/// Reads a script.
pub fn parse(text: &str) -> Result<Script, Mistake> {
    let mut script = Script { responses: vec![Response::default()], ..Script::default() };
    let mut source = Source { lines: text.lines().peekable(), number: 0 };
    while let Some(line) = source.next() {
        let line = line.trim_end();
        if line.trim_start().is_empty() || line.starts_with('#') {
            continue;
        }
        if line.trim() == "---" {
            script.responses.push(Response::default());
            continue;
        }
        let at = source.number;
        let (word, rest) = line.trim_start().split_once(' ').unwrap_or((line.trim_start(), ""));
        directive(&mut script, word, rest, &mut source).map_err(|what| Mistake { line: at, what })?;
    }
    // A separator at the very end begins no response.
    if script.responses.len() > 1 && script.responses.last() == Some(&Response::default()) {
        script.responses.pop();
    }
    Ok(script)
}

struct Source<'a> {
    lines: Peekable<Lines<'a>>,
    number: usize,
}

impl<'a> Source<'a> {
    fn next(&mut self) -> Option<&'a str> {
        self.number += 1;
        self.lines.next()
    }

    /// The text of a directive: the rest of its line, or with `<<WORD` the lines up to that word.
    fn text(&mut self, rest: &str) -> Result<String, String> {
        let Some(end) = rest.trim().strip_prefix("<<") else { return Ok(rest.to_owned()) };
        let mut text = Vec::new();
        loop {
            match self.next() {
                Some(line) if line.trim_end() == end => return Ok(text.join("\n")),
                Some(line) => text.push(line),
                None => return Err(format!("`<<{end}` is never closed by a line `{end}`")),
            }
        }
    }
}

fn directive(script: &mut Script, word: &str, rest: &str, source: &mut Source<'_>) -> Result<(), String> {
    match word {
        "restart" if rest.trim() == "prompt" => {
            script.restart_at_prompt = true;
            return Ok(());
        }
        "window" => {
            script.context_window = Some(number(word, rest)?);
            return Ok(());
        }
        _ => {}
    }
    // There is always a last response: the list starts with one.
    let Some(response) = script.responses.last_mut() else { return Ok(()) };
    let item = match word {
        "say" => Item::Say(source.text(rest)?),
        "think" => Item::Think(source.text(rest)?),
        "refuse" => Item::Refuse(source.text(rest)?),
        "call" => {
            let (name, arguments) = rest.trim_start().split_once(' ').unwrap_or((rest.trim(), ""));
            if name.is_empty() {
                return Err("`call` needs the name of a tool".to_owned());
            }
            Item::Call(name.to_owned(), source.text(arguments)?)
        }
        "wait" => Item::Wait(number(word, rest)?),
        "pace" => Item::Pace(number(word, rest)?),
        "pieces" => Item::Pieces(number(word, rest)?),
        "fail" => fail(rest)?,
        "cut" => cut(rest)?,
        "usage" => {
            response.usage = Some(usage(rest)?);
            return Ok(());
        }
        "finish" => {
            response.finish = Some(finish(rest.trim())?);
            return Ok(());
        }
        _ => return Err(format!("`{word}` is not a directive")),
    };
    join_lines(&mut response.items, item);
    Ok(())
}

/// Lines of the same kind one after the other are lines of one text.
fn join_lines(items: &mut Vec<Item>, item: Item) {
    match (items.last_mut(), &item) {
        (Some(Item::Say(text)), Item::Say(more))
        | (Some(Item::Think(text)), Item::Think(more))
        | (Some(Item::Refuse(text)), Item::Refuse(more)) => {
            text.push('\n');
            text.push_str(more);
        }
        _ => items.push(item),
    }
}

fn number<T: std::str::FromStr>(word: &str, text: &str) -> Result<T, String> {
    text.trim().parse().map_err(|_| format!("`{word}` needs a whole number, not `{}`", text.trim()))
}

fn fail(rest: &str) -> Result<Item, String> {
    let (class, rest) = rest.trim().split_once(' ').unwrap_or((rest.trim(), ""));
    if !CLASSES.contains(&class) {
        return Err(format!("`{class}` is not a class of failure: {}", CLASSES.join(", ")));
    }
    let mut failure = Failure::new(class, "");
    let mut times = 1;
    let mut rest = rest.trim_start();
    while let Some((name, value, tail)) = setting(rest) {
        match name {
            "times" => times = how_often(value)?,
            "status" => failure.status = Some(number(name, value)?),
            "retry_after_ms" => failure.retry_after_ms = Some(number(name, value)?),
            // A message may well have an `=` in it.
            _ => break,
        }
        rest = tail;
    }
    failure.message = if rest.is_empty() { format!("the script says {class}") } else { rest.to_owned() };
    Ok(Item::Fail(failure, times))
}

fn cut(rest: &str) -> Result<Item, String> {
    let times = match setting(rest.trim()) {
        None if rest.trim().is_empty() => 1,
        Some(("times", value, "")) => how_often(value)?,
        _ => return Err("`cut` takes `times=N` and nothing else".to_owned()),
    };
    Ok(Item::Fail(
        Failure::new(code::STREAM_CLOSED, "the stream ended before the answer was finished"),
        times,
    ))
}

fn how_often(value: &str) -> Result<u32, String> {
    if value == "always" { Ok(u32::MAX) } else { number("times", value) }
}

/// `name=value` at the start, and what follows.
fn setting(text: &str) -> Option<(&str, &str, &str)> {
    let (word, tail) = text.split_once(' ').unwrap_or((text, ""));
    let (name, value) = word.split_once('=')?;
    Some((name, value, tail.trim_start()))
}

fn usage(rest: &str) -> Result<Usage, String> {
    let mut usage = Usage::default();
    for word in rest.split_whitespace() {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let count = number(name, value)?;
        match name {
            "input" => usage.input_tokens = count,
            "output" => usage.output_tokens = count,
            "cache_read" => usage.cache_read_tokens = Some(count),
            "cache_write" => usage.cache_write_tokens = Some(count),
            "reasoning" => usage.reasoning_tokens = Some(count),
            _ => {
                return Err(format!(
                    "`{name}` is not a count: input, output, cache_read, cache_write, reasoning"
                ));
            }
        }
    }
    Ok(usage)
}

fn finish(word: &str) -> Result<FinishKind, String> {
    let kind = serde_json::from_value(serde_json::Value::from(word));
    kind.map_err(|_| {
        format!(
            "`{word}` is not a finish: stop, tool-calls, max-tokens, context-window, pause, refusal, \
             content-filter, other"
        )
    })
}

/// The classes a request can fail with on its way.
const CLASSES: [&str; 18] = [
    code::RATE_LIMIT,
    code::OVERLOADED,
    code::SERVER,
    code::TIMEOUT,
    code::TRANSPORT,
    code::STREAM_CLOSED,
    code::MALFORMED_RESPONSE,
    code::EMPTY_RESPONSE,
    code::CONTEXT_WINDOW_EXCEEDED,
    code::REQUEST_TOO_LARGE,
    code::QUOTA,
    code::AUTH,
    code::PERMISSION,
    code::NOT_FOUND,
    code::INVALID_REQUEST,
    code::CONTENT_FILTER,
    code::PROVIDER_ERROR,
    code::UNKNOWN,
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{Item, parse};
    use terret_core::chunk::{Failure, FinishKind, code};

    #[test]
    fn every_directive_is_read() {
        let script = parse(
            "# comment\nrestart prompt\nwindow 1000\n\npace 5\npieces 3\nthink a\nsay b\nsay c\nwait 7\n\
             call f {\"a\": 1}\ncall g\nusage input=3 output=4 cache_read=1\nfinish max-tokens\n---\n\
             fail RATE_LIMIT times=2 status=429 retry_after_ms=50 slow down, a=b\ncut\n\
             say <<X\nl1\n\n---\nX\n---\n",
        )
        .unwrap();
        assert!(script.restart_at_prompt);
        assert_eq!(script.context_window, Some(1000));
        assert_eq!(script.responses.len(), 2);
        let first = &script.responses[0];
        assert_eq!(
            first.items,
            [
                Item::Pace(5),
                Item::Pieces(3),
                Item::Think("a".to_owned()),
                Item::Say("b\nc".to_owned()),
                Item::Wait(7),
                Item::Call("f".to_owned(), "{\"a\": 1}".to_owned()),
                Item::Call("g".to_owned(), String::new()),
            ]
        );
        assert_eq!(first.finish, Some(FinishKind::MaxTokens));
        assert_eq!(first.usage.as_ref().unwrap().total(), 8);
        let second = &script.responses[1].items;
        let mut limit = Failure::new(code::RATE_LIMIT, "slow down, a=b");
        limit.status = Some(429);
        limit.retry_after_ms = Some(50);
        assert_eq!(second[0], Item::Fail(limit, 2));
        assert!(matches!(&second[1], Item::Fail(failure, 1) if failure.code == code::STREAM_CLOSED));
        assert_eq!(second[2], Item::Say("l1\n\n---".to_owned()));
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let mistake = |text: &str| parse(text).unwrap_err().to_string();
        assert_eq!(mistake("say a\nsya b"), "line 2: `sya` is not a directive");
        assert!(mistake("fail NOPE").contains("line 1: `NOPE` is not a class"));
        assert!(mistake("\nsay <<X\na").contains("line 2: `<<X` is never closed"));
        assert!(mistake("wait soon").contains("whole number"));
        assert!(mistake("finish never").contains("not a finish"));
        assert!(mistake("usage lots=1").contains("not a count"));
        assert!(mistake("call").contains("name of a tool"));
        assert!(mistake("cut now").contains("times=N"));
    }
}
