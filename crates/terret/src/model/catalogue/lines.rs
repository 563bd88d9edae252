//! The file as text: one sorted line is found by halving, and nothing else of it is read.

use serde_json::Value;

/// What stands before the first model and behind the last.
const OPEN: &str = "\"models\":[\n";
const CLOSE: &str = "\n]}";

/// The line of a model, as JSON.
pub(super) fn find<'a>(text: &'a str, provider: &str, id: &str) -> Option<&'a str> {
    let mut rest = models(text);
    while !rest.is_empty() {
        let middle = rest.len() / 2;
        let start = rest.as_bytes()[..middle].iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        let end =
            rest.as_bytes()[start..].iter().position(|b| *b == b'\n').map_or(rest.len(), |at| start + at);
        let line = &rest[start..end];
        match key(line)?.cmp(&(provider, id)) {
            std::cmp::Ordering::Equal => return Some(json(line)),
            std::cmp::Ordering::Less => rest = rest.get(end + 1..).unwrap_or_default(),
            std::cmp::Ordering::Greater => rest = &rest[..start.saturating_sub(1)],
        }
    }
    None
}

/// Every model's line, as JSON.
pub(super) fn all(text: &str) -> impl Iterator<Item = &str> {
    models(text).lines().map(json)
}

/// What the first line says of itself.
pub(super) fn version(text: &str) -> Option<String> {
    let about = text.strip_prefix("{\"about\":")?.split_once(",\"models\":[")?.0;
    let about: Value = serde_json::from_str(about).ok()?;
    let package = |which: &str| {
        let (name, version) = (about[which]["package"].as_str()?, about[which]["version"].as_str()?);
        Some(format!("{} {version}", name.rsplit('/').next().unwrap_or(name)))
    };
    Some(format!("catalogue {} ({}, {})", about["date"].as_str()?, package("primary")?, package("overlay")?))
}

fn models(text: &str) -> &str {
    let after = text.split_once(OPEN).map_or("", |(_, after)| after);
    after.rsplit_once(CLOSE).map_or("", |(models, _)| models)
}

fn json(line: &str) -> &str {
    line.strip_suffix(',').unwrap_or(line)
}

/// Provider and name, which every line begins with in characters that JSON does not escape.
fn key(line: &str) -> Option<(&str, &str)> {
    let (provider, rest) = line.strip_prefix("{\"provider\":\"")?.split_once("\",\"id\":\"")?;
    Some((provider, rest.split_once('"')?.0))
}
