//! What a program may give in place of what the system says: ids, surroundings.

use std::sync::atomic::{AtomicU32, Ordering};

use terret::agent::Context;
use terret::clock::Ids;
use terret::core::fact::Fact;
use terret::core::message::Form;
use terret::store::MemoryStore;

use crate::support::{builder, events};

struct Counted(AtomicU32);

impl Ids for Counted {
    fn fresh(&self) -> String {
        format!("id-{}", self.0.fetch_add(1, Ordering::Relaxed))
    }
}

#[tokio::test]
async fn ids_and_surroundings_are_the_programs_own_where_it_gives_them() {
    let store = MemoryStore::default();
    let look = |_: &std::path::Path, _| {
        vec![Context { plugin: "place".into(), form: Form::Snapshot, text: "a quiet place".into() }]
    };
    let agent = builder("say hello")
        .store(store.clone())
        .ids(Counted(AtomicU32::new(7)))
        .surroundings(look)
        .create(None)
        .await
        .unwrap();
    assert_eq!(agent.id().as_str(), "id-7");
    assert_eq!(agent.user("hi").id.0.as_ref(), "id-8");
    agent.prompt("hi").await.unwrap();
    let entered: Vec<String> = events(store.bytes("id-7").unwrap())
        .iter()
        .filter_map(|event| match &event.fact {
            Fact::UserMessage(user) => Some(format!("{}: {}", user.message.id, user.message.text())),
            _ => None,
        })
        .collect();
    assert_eq!(entered, ["place-1.1: a quiet place", "id-9: hi"]);
}
