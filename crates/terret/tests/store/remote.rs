//! Logs on another machine's disk, where a lock may not hold: read, and never written.

use std::sync::Arc;

use terret::error::Error;
use terret::store::{Condition, FileStore, Store};
use terret::testing::Watched;

use crate::support::{Home, ID, header, whole_log};

/// The last line of failure case 088: without locks that hold, nobody writes, and that is said.
#[tokio::test]
async fn case_088_on_a_network_file_system_nobody_writes() {
    let home = Home::with(&whole_log().await);
    let before = home.files();
    let store = FileStore::on(Arc::new(Watched::new(|_| Ok(())).remote()), home.store.sessions());
    let new = terret::core::line::SessionHeader { id: "new".parse().unwrap(), ..header() };
    for refused in [store.open(ID, &mut |_| {}).err(), store.create(new).err()] {
        let refused = refused.expect("it is refused");
        assert!(matches!(&refused, Error::Config(why) if why.contains("network file system")), "{refused:?}");
        assert!(refused.to_string().contains("TERRET_HOME"), "what to do: {refused}");
    }
    let mut scan = store.read(ID).unwrap();
    let mut events = 0;
    while let Some(event) = scan.next_event().unwrap() {
        event.unwrap();
        events += 1;
    }
    assert!(events > 5);
    let listed = store.list().unwrap();
    assert!(listed.iter().any(|one| one.id == ID && matches!(one.condition, Condition::Idle)));
    assert_eq!(home.files(), before);
}
