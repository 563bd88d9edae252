//! Moving a session away: only where nobody writes it, and never from under a writer.

use terret::error::{Error, ErrorKind};
use terret::store::Store;

use crate::support::{Home, ID, header, write_first};

#[test]
fn a_written_session_stays_and_one_at_rest_is_moved() {
    let home = Home::new();
    let trash = home.path().join("deep/trash");
    let (journal, written) = write_first(home.store.create(header()).unwrap());
    written.unwrap();
    assert_eq!(home.store.remove(ID, &trash).err().unwrap().kind(), ErrorKind::Busy);
    assert!(home.log().exists());
    drop(journal);
    let log = home.bytes();
    assert_eq!(home.store.remove(ID, &trash).unwrap(), trash.join(ID));
    assert!(!home.session().exists());
    assert_eq!(std::fs::read(trash.join(ID).join("log.jsonl")).unwrap(), log);
    // The id is free again, and a second one goes beside the first.
    drop(home.store.create(header()).unwrap());
    assert_eq!(home.store.remove(ID, &trash).unwrap(), trash.join(format!("{ID}-1")));
}

#[test]
fn only_a_session_of_the_store_is_moved() {
    let home = Home::new();
    drop(home.store.create(header()).unwrap());
    std::fs::create_dir(home.path().join("other")).unwrap();
    let trash = home.path().join("trash");
    for id in ["", ".", "..", "../other", "s/../s", "absent", "/"] {
        let refused = home.store.remove(id, &trash);
        assert!(matches!(refused, Err(Error::NoSession(_))), "{id}: {refused:?}");
    }
    assert!(home.log().exists() && home.path().join("other").exists() && !trash.exists());
}
