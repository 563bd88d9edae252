//! Events of a stream of responses as they are on the wire. Only what has a meaning to us is looked into.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::members::Members;

/// One event. Which of the fields it has depends on its type.
#[derive(Deserialize)]
pub(super) struct Event<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<&'a RawValue>,
    /// Place of the item in the response: the only name of an item that proxies do not change.
    #[serde(default)]
    pub(super) output_index: Option<u64>,
    /// The item's id, in an event that is about a part of it.
    #[serde(borrow, default)]
    item_id: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) content_index: Option<u64>,
    #[serde(default)]
    pub(super) summary_index: Option<u64>,
    #[serde(borrow, default)]
    pub(super) delta: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) item: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) response: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error_type: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error_message: Option<&'a RawValue>,
}

impl<'a> Event<'a> {
    /// Its type; empty where there is none.
    pub(super) fn kind(&self) -> &'a str {
        self.kind.map_or("", |raw| raw.get().trim_matches('"'))
    }

    /// Whether its response says of itself that it failed.
    pub(super) fn is_failed(&self) -> bool {
        let response = self.response.and_then(|raw| serde_json::from_str::<Response<'_>>(raw.get()).ok());
        response.is_some_and(|response| {
            response.error.is_some() || matches!(response.status.as_deref(), Some("failed" | "cancelled"))
        })
    }

    /// The id of the item it is about, as it is written.
    pub(super) fn item_id(&self) -> Option<&'a str> {
        let of_item = || Members::of(self.item?.get()).get("id");
        self.item_id.map(RawValue::get).or_else(of_item).filter(|id| id.len() > 2 && id.starts_with('"'))
    }
}

/// The response an event is about.
#[derive(Default, Deserialize)]
pub(super) struct Response<'a> {
    #[serde(default)]
    pub(super) id: Option<String>,
    #[serde(default)]
    pub(super) model: Option<String>,
    #[serde(default)]
    pub(super) status: Option<String>,
    #[serde(borrow, default)]
    pub(super) output: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default)]
    pub(super) usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) incomplete_details: Option<Incomplete>,
    #[serde(borrow, default)]
    pub(super) input_transformations: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
pub(super) struct Incomplete {
    #[serde(default)]
    pub(super) reason: Option<String>,
}

/// An output item, by its members. What none of our blocks says is kept.
#[derive(Debug, Default)]
pub(super) struct Item<'a>(pub(super) Members<'a>);

impl<'a> Item<'a> {
    pub(super) fn parse(raw: &'a str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(raw).map(Item)
    }

    pub(super) fn kind(&self) -> &'a str {
        self.0.get("type").map_or("", |raw| raw.trim_matches('"'))
    }

    /// A member that is a string; empty where it is none.
    pub(super) fn text(&self, name: &str) -> String {
        self.0.text(name).unwrap_or_default()
    }

    /// Arguments are a string; an object in its place is taken for its text.
    pub(super) fn arguments(&self) -> String {
        let raw = self.0.get("arguments").filter(|raw| *raw != "null").unwrap_or_default();
        serde_json::from_str(raw).unwrap_or_else(|_| crate::model::compact::compact(raw).into_owned())
    }

    /// The parts in one of its lists.
    pub(super) fn parts(&self, name: &str) -> Vec<Item<'a>> {
        let list = self.0.get(name).and_then(|raw| serde_json::from_str::<Vec<Members<'a>>>(raw).ok());
        list.unwrap_or_default().into_iter().map(Item).collect()
    }
}
