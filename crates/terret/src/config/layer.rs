//! One file of configuration: TOML to dotted keys, each with its line.

use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::Set;
use super::keys::{self, Key, Kind};
use crate::error::Error;
use crate::model::catalogue;

/// Reads one file's text.
pub(super) fn parse(path: &Path, text: &str) -> Result<Vec<(String, Set)>, Error> {
    let table = DeTable::parse(text).map_err(|e| {
        let line = e.span().map_or(1, |span| line_of(text, span.start));
        Error::Config(format!("{}:{line}: {}", path.display(), e.message()))
    })?;
    let mut out = Vec::new();
    walk(path, text, "", table.get_ref(), &mut out)?;
    Ok(out)
}

fn walk(
    path: &Path,
    text: &str,
    prefix: &str,
    table: &DeTable<'_>,
    out: &mut Vec<(String, Set)>,
) -> Result<(), Error> {
    for (name, value) in table.iter() {
        let dotted = match prefix {
            "" => keys::quoted(name.get_ref()),
            _ => format!("{prefix}.{}", keys::quoted(name.get_ref())),
        };
        let origin = format!("{}:{}", path.display(), line_of(text, name.span().start));
        let known = keys::known(&dotted);
        match (known, value.get_ref()) {
            (None, DeValue::Table(inner)) if is_prefix(&dotted) => walk(path, text, &dotted, inner, out)?,
            (None, _) => return Err(unknown(&dotted, &origin)),
            (Some(key), value) => {
                let value = plain(value)
                    .and_then(|value| fits(key, value))
                    .ok_or_else(|| wrong(key, &dotted, &origin))?;
                out.push((dotted, Set { value, origin }));
            }
        }
    }
    Ok(())
}

/// Whether keys begin with this name.
fn is_prefix(dotted: &str) -> bool {
    keys::KEYS.iter().any(|key| {
        let head: Vec<&str> = key.name.split('.').take(keys::parts(dotted).count()).collect();
        head.len() < key.name.split('.').count() && keys::fits(&head.join("."), dotted)
    })
}

/// A value given as bare text (environment, `--set`).
pub(super) fn value(key: &Key, text: &str, origin: &str) -> Result<toml::Value, Error> {
    let value = match key.kind {
        Kind::Text | Kind::Choice(_) | Kind::Column => Some(toml::Value::String(text.to_owned())),
        Kind::Number => text.parse::<i64>().ok().map(toml::Value::Integer),
        Kind::Texts => {
            Some(toml::Value::Array(text.split(',').map(|t| t.trim().to_owned().into()).collect()))
        }
        Kind::Flag => text.parse::<bool>().ok().map(toml::Value::Boolean),
        Kind::Price => Some(toml::Value::String(text.to_owned())),
    };
    value.and_then(|value| fits(key, value)).ok_or_else(|| wrong(key, key.name, origin))
}

/// The value, if the key takes it.
fn fits(key: &Key, value: toml::Value) -> Option<toml::Value> {
    let fits = match (key.kind, &value) {
        (Kind::Text, toml::Value::String(_)) => true,
        (Kind::Number, toml::Value::Integer(n)) => *n >= 0,
        (Kind::Choice(words), toml::Value::String(word)) => words.contains(&word.as_str()),
        (Kind::Column, toml::Value::String(_) | toml::Value::Boolean(_)) => true,
        (Kind::Texts | Kind::Column, toml::Value::Array(items)) => items.iter().all(|item| item.is_str()),
        (Kind::Flag, toml::Value::Boolean(_)) => true,
        (Kind::Price, value) => catalogue::rate(value).is_some(),
        _ => false,
    };
    fits.then_some(value)
}

fn plain(value: &DeValue<'_>) -> Option<toml::Value> {
    Some(match value {
        DeValue::String(text) => toml::Value::String(text.to_string()),
        DeValue::Integer(n) => toml::Value::Integer(i64::from_str_radix(n.as_str(), n.radix()).ok()?),
        DeValue::Float(n) => toml::Value::Float(n.as_str().parse().ok()?),
        DeValue::Boolean(flag) => toml::Value::Boolean(*flag),
        DeValue::Array(items) => {
            let items: Option<Vec<_>> = items.iter().map(|item| plain(item.get_ref())).collect();
            toml::Value::Array(items?)
        }
        _ => return None,
    })
}

fn wrong(key: &Key, name: &str, origin: &str) -> Error {
    let wants = match key.kind {
        Kind::Text => "text".to_owned(),
        Kind::Number => "a whole number".to_owned(),
        Kind::Choice(words) => format!("one of {}", words.join(", ")),
        Kind::Texts => "a list of texts".to_owned(),
        Kind::Column => "text, true, false or a list of texts".to_owned(),
        Kind::Flag => "true or false".to_owned(),
        Kind::Price => catalogue::PRICE.to_owned(),
    };
    Error::Config(format!("`{name}` ({origin}) takes {wants}"))
}

pub(super) fn unknown(name: &str, origin: &str) -> Error {
    let hint = keys::nearest(name).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
    Error::Config(format!("unknown key `{name}` ({origin}){hint}"))
}

fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|b| **b == b'\n').count() + 1
}
