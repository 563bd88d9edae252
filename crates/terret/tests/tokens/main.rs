//! What must not compile: sending without a synced attempt, starting a tool without a synced call. Beside each,
//! a twin that does, so that it is the missing proof that fails and nothing else.

/// Builds this crate and all it needs once more, and compares with what the compiler of the day says: not for
/// every run of the tests.
#[test]
#[ignore = "takes minutes; `cargo test -p terret --test tokens -- --ignored`"]
fn nothing_leaves_without_its_proof() {
    let cases = trybuild::TestCases::new();
    for twin in ["sent", "started", "started_once", "minted"] {
        cases.pass(format!("tests/tokens/{twin}.rs"));
    }
    for without in ["sent_unsynced", "started_unsynced", "started_twice", "minted_by_hand"] {
        cases.compile_fail(format!("tests/tokens/{without}.rs"));
    }
}
