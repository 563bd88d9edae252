//! `write`: a whole file, there as it was or as it shall be, never half.

use std::path::Path;

use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use terret_core::fact::{EffectClass, ToolSpec};
use terret_core::raw::Raw;

use super::arguments::{parse_args, schema};
use super::{Call, Done, Started, Tool, files, paths};

/// Writes a whole file.
pub struct Write;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// File to write, from the working directory or absolute.
    path: String,
    /// Its whole new content.
    content: String,
}

impl Tool for Write {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "write".to_owned(),
            description: "Writes a whole file, new or in place of an old one. Missing directories are made. \
                          To change a part of a file use edit."
                .to_owned(),
            parameters: schema::<Args>(),
        }
    }

    fn effect(&self) -> EffectClass {
        EffectClass::Idempotent
    }

    fn admit(&self, call: &Call) -> Result<(), Done> {
        let args: Args = parse_args(call)?;
        paths::write_target(call, &args.path).map(drop)
    }

    fn run(&self, started: Started) -> BoxFuture<'static, Done> {
        let call = started.into_call();
        Box::pin(files::blocking(call, |call| write(call, &parse_args(call)?)))
    }
}

fn write(call: &Call, args: &Args) -> Result<Done, Done> {
    let target = paths::write_target(call, &args.path)?;
    let explain = |path: &Path, trouble| files::explain(call, path, trouble);
    if let Some(dir) = target.parent() {
        std::fs::create_dir_all(dir).map_err(|error| explain(dir, error.into()))?;
    }
    let content = args.content.as_bytes();
    let existed = files::replace(&target, content, None).map_err(|trouble| explain(&target, trouble))?;
    let what = if existed { "overwritten" } else { "created" };
    Ok(Done::ok(format!("{what} `{}`: {} bytes", args.path, content.len())).with_data(path_data(&target)))
}

/// Where it was really written, for programs: a link on the way shows here.
pub(super) fn path_data(target: &Path) -> Raw {
    let data = serde_json::json!({ "path": target.to_string_lossy() });
    Raw::from_value(&data).expect("a JSON value can be written as JSON")
}

#[cfg(test)]
mod tests;
