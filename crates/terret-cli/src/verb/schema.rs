//! `terret schema`: what programs may rely on, from the types themselves.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use terret::config::KEYS;
use terret::core::fact::{Fact, Rel};
use terret::core::line::SessionHeader;
use terret::model::wire::{WIRES, Wire};

use crate::problem::Problem;
use crate::render;

pub(crate) fn schema() -> Result<u8, Problem> {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let header = generator.subschema_for::<SessionHeader>();
    let rel = generator.subschema_for::<Rel>();
    let facts = Fact::schemas(&mut generator);
    let mut lines: Vec<Value> =
        facts.into_iter().map(|(name, data)| line(json!({"const": name}), data.into())).collect();
    let mut plugin = line(json!({"type": "string", "pattern": "^x/[^/]+/.+$"}), json!({"type": "object"}));
    plugin["properties"]["rel"] = rel.into();
    plugin["properties"]["v"] = json!({"type": "integer", "minimum": 1});
    lines.push(plugin);
    let mut config = Map::new();
    for key in KEYS {
        config.insert(key.name.to_owned(), json!({"description": key.doc, "default": key.default}));
    }
    let defs: Map<String, Value> = generator.take_definitions(true).into_iter().collect();
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "terret: events, stream-json, configuration and dialects",
        "description": "A log is one `session` line, then one `event` a line. stream-json is those same lines.",
        "$defs": defs,
        "session": header,
        "event": {"oneOf": lines},
        "stream-json": {"oneOf": [{"$ref": "#/session"}, {"$ref": "#/event"}]},
        "config": config,
        "dialects": dialects(),
    });
    let text = serde_json::to_string_pretty(&schema).map_err(|e| Problem::new(1, e.to_string()))?;
    render::out(format!("{text}\n"))?;
    Ok(0)
}

/// The columns of each wire's dialect table, and every row.
fn dialects() -> Map<String, Value> {
    let rows = |wire: &Wire| -> Map<String, Value> {
        let row = |name: &&str| {
            let row = (wire.row)(name, "").and_then(|row| serde_json::from_str(row.get()).ok());
            ((*name).to_owned(), row.unwrap_or_default())
        };
        wire.rows.iter().map(row).collect()
    };
    let dialect =
        |wire: &&Wire| (wire.protocol.to_owned(), json!({"columns": (wire.columns)(), "rows": rows(wire)}));
    WIRES.iter().map(dialect).collect()
}

fn line(kind: Value, data: Value) -> Value {
    json!({
        "type": "object",
        "required": ["seq", "time", "type", "data", "crc"],
        "properties": {
            "seq": {"type": "integer", "minimum": 0},
            "time": {"type": "integer", "minimum": 0},
            "type": kind,
            "data": data,
            "d": {"type": "integer", "minimum": 0},
            "h": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
            "crc": {"type": "string", "pattern": "^[0-9a-f]{8}$"},
        },
    })
}
