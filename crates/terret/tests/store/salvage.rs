//! What a salvage takes along of what stands before the damage.

use std::path::Path;

use terret::core::fact::Fact;
use terret::core::state::State;
use terret::store::{Salvage, Scan, Store, salvage};

use crate::support::{Home, lines};

/// A kept log whose last line is there twice: no crash does that.
fn damaged(home: &Home, log: &str) -> std::path::PathBuf {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/logs").join(log);
    let path = home.path().join("damaged.jsonl");
    let log = std::fs::read(kept).unwrap();
    std::fs::write(&path, [&log[..], lines(&log).last().unwrap()].concat()).unwrap();
    path
}

fn plan() -> Salvage {
    Salvage { id: "new".parse().unwrap(), now: 1, cwd: "/".into() }
}

#[tokio::test]
async fn what_waited_before_the_damage_waits_in_the_new_session() {
    let home = Home::new();
    let path = damaged(&home, "queue.jsonl");
    let (mut before, mut after) = (State::default(), State::default());
    let mut scan = Scan::open(&path).unwrap();
    while let Some(Ok(event)) = scan.next_event().unwrap() {
        before.apply(&event.fact);
    }
    assert!(before.inbox().iter().count() > 0, "something waits");
    salvage(&path, &home.store, plan()).unwrap();
    home.store.open("new", &mut |event| after.apply(&event.fact)).unwrap();
    for pending in before.inbox().iter() {
        assert!(after.inbox().contains(&pending.id), "{:?} is lost", pending.id);
    }
    assert!(terret::inspect::verify(&home.store.log_path("new")).unwrap().holds());
}

#[tokio::test]
async fn a_log_that_only_its_plugin_goes_on_with_can_be_salvaged() {
    let home = Home::new();
    let path = damaged(&home, "plugin-context.jsonl");
    salvage(&path, &home.store, plan()).unwrap();
    let mut scan = Scan::open(&home.store.log_path("new")).unwrap();
    let mut own = 0;
    while let Some(event) = scan.next_event().unwrap() {
        own +=
            usize::from(matches!(event.unwrap().fact, Fact::Plugin(plugin) if plugin.plugin() == "salvage"));
    }
    assert!(own > 0, "the damage is told");
}
