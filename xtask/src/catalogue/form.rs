//! The form of the file: JSON, one model a line, fields in one order, lines sorted. A difference of two versions is
//! read by people; one line is found and parsed by the program without the others.

use serde_json::{Value, json};

use super::Result;
use super::derive::key;

/// Where it is from.
pub(super) struct About {
    pub(super) date: String,
    pub(super) pi_ai: String,
    pub(super) litellm: String,
}

/// Every field there is, in its order; objects within objects too.
const ORDER: [&str; 23] = [
    "date",
    "primary",
    "overlay",
    "provider",
    "id",
    "above",
    "context_window",
    "max_input_tokens",
    "max_output_tokens",
    "images",
    "reasoning",
    "efforts",
    "prices",
    "input",
    "output",
    "cache_read",
    "cache_write",
    "tiers",
    "ends",
    "litellm",
    "package",
    "version",
    "licence",
];

/// The text of the file.
pub(super) fn write(about: &About, models: &[Value]) -> Result<String> {
    let package = |name: &str, version: &str, licence: &str| json!({"package": name, "version": version, "licence": licence});
    let about = json!({
        "date": about.date,
        "primary": package("@earendil-works/pi-ai", &about.pi_ai, "MIT"),
        "overlay": package("litellm", &about.litellm, "MIT (outside enterprise/)"),
    });
    text(&about, models)
}

fn text(about: &Value, models: &[Value]) -> Result<String> {
    let lines: Vec<String> = models.iter().map(line).collect::<Result<_>>()?;
    Ok(format!("{{\"about\":{},\"models\":[\n{}\n]}}\n", line(about)?, lines.join(",\n")))
}

/// One value on one line, its fields in their order.
fn line(value: &Value) -> Result<String> {
    let Value::Object(fields) = value else { return Ok(value.to_string()) };
    let at = |name: &str| ORDER.iter().position(|known| *known == name);
    if let Some(unknown) = fields.keys().find(|name| at(name).is_none()) {
        return Err(format!("`{unknown}` is not a field").into());
    }
    let mut fields: Vec<_> = fields.iter().collect();
    fields.sort_by_key(|(name, _)| at(name));
    let parts: Vec<String> = fields
        .into_iter()
        .map(|(name, value)| {
            let value = match value {
                Value::Array(items) => {
                    format!("[{}]", items.iter().map(line).collect::<Result<Vec<_>>>()?.join(","))
                }
                _ => line(value)?,
            };
            Ok(format!("\"{name}\":{value}"))
        })
        .collect::<Result<_>>()?;
    Ok(format!("{{{}}}", parts.join(",")))
}

/// The number of models of a text in its form; or what is wrong with it.
pub(super) fn check(text_of_file: &str, licences: &str) -> std::result::Result<usize, String> {
    let file: Value = serde_json::from_str(text_of_file).map_err(|e| e.to_string())?;
    let about = &file["about"];
    for package in ["primary", "overlay"] {
        for name in ["package", "version", "licence"] {
            if about[package][name].as_str().is_none_or(str::is_empty) {
                return Err(format!("it does not say `about.{package}.{name}`"));
            }
        }
        let name = about[package]["package"].as_str().unwrap_or_default();
        if !licences.contains(&format!("`{name}`")) {
            return Err(format!("the licences beside it do not name `{name}`"));
        }
    }
    if about["date"].as_str().is_none_or(|date| date.len() != "2026-01-01".len()) {
        return Err("it does not say its date".to_owned());
    }
    let models = file["models"].as_array().ok_or("it lists no models")?;
    if let Some(pair) = models.windows(2).find(|pair| key(&pair[0]) >= key(&pair[1])) {
        return Err(format!("{:?} does not stand before {:?}", key(&pair[0]), key(&pair[1])));
    }
    // What a line begins with is read without parsing it.
    let plain = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_graphic() && b != b'"' && b != b'\\')
    };
    if let Some(odd) = models.iter().map(key).find(|(provider, id)| !plain(provider) || !plain(id)) {
        return Err(format!("{odd:?} is not made of plain characters"));
    }
    match text(about, models).map_err(|e| e.to_string())? == text_of_file {
        true => Ok(models.len()),
        false => Err("it is not in its form: make it by `cargo xtask catalogue`, not by hand".to_owned()),
    }
}
