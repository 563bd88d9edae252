use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// A tree of its own, removed at the end.
struct Tree(PathBuf);

impl Tree {
    fn new(files: &[(&str, &str)]) -> Tree {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("terret-tidy-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let tree = Tree(std::env::temp_dir().join(name));
        for (path, text) in files {
            let path = tree.0.join(path);
            fs::create_dir_all(path.parent().expect("below the tree")).expect("a writable temp dir");
            fs::write(path, text).expect("a writable temp dir");
        }
        tree
    }

    fn findings(&self) -> Vec<String> {
        let report = check(&self.0).expect("a readable tree");
        report.findings.iter().map(Finding::to_string).collect()
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What one file alone breaks.
fn broken(path: &str, text: &str) -> Vec<String> {
    Tree::new(&[(path, text)]).findings()
}

#[test]
fn the_real_tree_is_tidy() {
    let report = check(root()).expect("a readable tree");
    let findings: Vec<String> = report.findings.iter().map(Finding::to_string).collect();
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

#[test]
fn a_forbidden_import_is_found_however_it_is_written() {
    let core = "crates/terret-core/src/fact.rs";
    for text in [
        "use std::fs;",
        "use std::{fmt, fs::File};",
        "use std::{\n    fmt,\n    io::{self},\n    net,\n};",
        "pub(crate) use std::fs as files;",
        "use std::*;",
        "fn f() { std::fs::read(\"x\"); }",
        "fn f() { let _ = ::std::env::var(\"X\"); }",
        "use std::time;\nfn f() { time::Instant::now(); }",
        "use tokio::sync::mpsc;",
        "fn f() { tokio::spawn(async {}); }",
        "use crate::state::State;",
        "use super::machine::Machine;",
        "use crate::{id::Seq, state::State};",
        "fn f(s: &crate::state::State) {}",
        "use crate::*;",
    ] {
        assert_eq!(broken(core, text).len(), 1, "{text}: {:?}", broken(core, text));
    }
}

#[test]
fn the_table_is_kept() {
    for (path, text) in [
        ("crates/terret-core/src/project/request.rs", "use crate::machine::Machine;"),
        ("crates/terret-core/src/project.rs", "use super::state::State;"),
        ("crates/terret-core/src/surprise.rs", ""),
        ("crates/terret-core/src/lib.rs", "use std::process;"),
        ("crates/terret/src/tool/shell.rs", "use crate::model::Model;"),
        ("crates/terret/src/tool/shell.rs", "use super::super::store::Store;"),
        ("crates/terret/src/world.rs", "use crate::driver::Driver;"),
        ("crates/terret/src/agent.rs", "use clap::Parser;"),
        ("crates/terret/Cargo.toml", "[dependencies]\nclap.workspace = true"),
        ("crates/terret-core/Cargo.toml", "[dependencies.tokio]\nversion = \"1\""),
        ("xtask/Cargo.toml", "[dependencies]\nterret-core = { path = \"x\" }"),
        ("xtask/src/x.rs", "use terret_core::id::Seq;"),
        ("crates/another/src/lib.rs", ""),
    ] {
        assert_eq!(broken(path, text).len(), 1, "{path}: {text}: {:?}", broken(path, text));
    }
}

#[test]
fn what_is_allowed_is_not_found() {
    for (path, text) in [
        ("crates/terret-core/src/fact.rs", "use std::{fmt, io::Write, time::Duration};\nuse crate::id::Seq;"),
        ("crates/terret-core/src/fact.rs", "// use std::fs;\n/* std::env /* std::net */ */"),
        (
            "crates/terret-core/src/fact.rs",
            "const A: &str = r#\"std::fs \"tokio::x\"\"#;\nconst B: char = '\"';",
        ),
        ("crates/terret-core/src/fact.rs", "fn f<'a>(x: &'a str) -> impl Sized + use<'a> { x }"),
        (
            "crates/terret-core/src/fact.rs",
            "#[cfg(test)]\nmod tests { use std::fs; fn f() { std::env::args(); } }",
        ),
        ("crates/terret-core/src/fact/tests.rs", "use std::fs;"),
        ("crates/terret-core/tests/all.rs", "use std::fs;"),
        ("crates/terret-core/Cargo.toml", "[dev-dependencies]\ntokio = \"1\"\n[dependencies]\nserde = \"1\""),
        (
            "crates/terret/src/driver.rs",
            "use crate::core::id::Seq;\nuse crate::store::Store;\nuse crate::world::World;",
        ),
        (
            "crates/terret/src/tool/shell.rs",
            "use super::Tool;\nuse crate::tool::Context;\nuse std::fs;\nuse tokio::process;",
        ),
        ("crates/terret-cli/src/main.rs", "use clap::Parser;\nuse terret::agent::Agent;"),
    ] {
        assert_eq!(broken(path, text), Vec::<String>::new(), "{path}: {text}");
    }
}

#[test]
fn code_after_a_test_item_still_counts() {
    let text = "#[cfg(test)]\nuse std::{fs, env};\n#[cfg(test)]\nmod tests;\nuse std::net;\n#[cfg(not(test))]\nuse std::process;";
    let found = broken("crates/terret-core/src/fact.rs", text);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("fact.rs:5") && found[1].contains("fact.rs:7"), "{found:?}");
}

#[test]
fn long_files_are_found_and_their_tests_are_not_counted() {
    let path = "crates/terret-cli/src/main.rs";
    let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "// a line\n".repeat(300));
    assert!(broken(path, &format!("{}{tests}", "// a line\n".repeat(400))).is_empty());
    assert_eq!(broken(path, &format!("{}{tests}", "// a line\n".repeat(401))).len(), 1);
    let text = "// a line\n".repeat(401);
    let allow = format!("lines {path} 450 because of a test");
    assert!(Tree::new(&[(path, &text), (allow::PATH, &allow)]).findings().is_empty());
}

#[test]
fn wildcard_arms_of_the_core_need_a_reason() {
    let (path, arm) = ("crates/terret-core/src/state.rs", "fn f(x: u8) { match x { 0 => {} _ => {} } }");
    assert_eq!(broken(path, arm).len(), 1);
    let guarded = "fn f(x: u8) { match x { 0 => {} _ if x > 9 => {} 1.. => {} } }";
    assert!(broken(path, guarded).is_empty());
    assert!(broken(path, "fn f(x: (u8, u8)) { match x { (_, _) => {} } }").is_empty());
    assert!(broken("crates/terret/src/driver.rs", arm).is_empty());
    let with = |allow: &str, text: &str| Tree::new(&[(path, text), (allow::PATH, allow)]).findings().len();
    assert_eq!(with(&format!("# why\nwildcard {path} 1 numbers are open"), arm), 0);
    assert_eq!(with(&format!("wildcard {path} 1"), arm), 2, "no reason: a finding, and no exception");
    assert_eq!(with(&format!("wildcard {path} 1 numbers are open"), ""), 1, "stale");
}

#[test]
fn places_of_one_machine_are_found() {
    for word in STRAY {
        assert_eq!(broken("docs/guide.md", &format!("see\n{word}x\n")).len(), 1);
        assert!(broken("Cargo.lock", word).is_empty());
    }
}

#[test]
fn the_code_map_names_what_is_there() {
    let check_map = |map: &str| {
        let files = [
            ("crates/terret-core/Cargo.toml", ""),
            ("crates/terret-core/src/lib.rs", ""),
            ("crates/terret-core/src/id.rs", ""),
            ("crates/terret-core/src/project/mod.rs", ""),
            ("ARCHITECTURE.md", map),
        ];
        Tree::new(&files).findings()
    };
    assert!(check_map("`crates/terret-core/src/id.rs`, `terret-core/src/project/`, `turn/end`").is_empty());
    assert!(check_map("## `crates/terret-core`\n`id.rs` and `project`").is_empty());
    assert_eq!(check_map("`crates/terret-core/src/id.rs`").len(), 1, "project is missing");
    assert_eq!(check_map("## terret-core\n`id.rs` `project` `gone.rs` `crates/gone`").len(), 2);
    let none = Tree::new(&[("crates/terret-core/src/id.rs", "")]);
    assert_eq!(check(&none.0).expect("a readable tree").notes.len(), 1);
}

const CASES: (&str, &str) = ("xtask/conformance-cases.txt", "A-01\nA-02\nA-03b\n");
const TEST: (&str, &str) =
    ("crates/x/tests/a.rs", "#[test]\nfn shown() {}\n\n#[test]\n#[ignore = \"later\"]\nfn put_off() {}\n");
const SCENE: (&str, &str) = ("spec/turns.md", "# Turns\n\n## Rejected later, with a verdict\n");

/// What a page of these rows breaks.
fn page(rows: &str) -> Vec<String> {
    let page = format!("| case | what | verdict | where | test |\n|---|---|---|---|---|\n{rows}");
    let found = Tree::new(&[CASES, TEST, SCENE, ("docs/reference/conformance.md", &page)]).findings();
    found.iter().map(|finding| finding.replacen("docs/reference/conformance.md", "page", 1)).collect()
}

const GOOD: [&str; 3] = [
    "| A-01 | x | kept | y | `crates/x/tests/a.rs: shown` |\n",
    "| A-02 | x | changed | y | `spec/turns.md#rejected-later-with-a-verdict`, `crates/x/tests/a.rs: shown` |\n",
    "| A-03b | x | not ours yet | y | |\n",
];

#[test]
fn a_conformance_page_that_is_whole_is_not_found() {
    assert_eq!(page(&GOOD.concat()), [""; 0]);
    // What is not ours may name what waits for it.
    let waits = GOOD.concat().replace("y | |", "y | `crates/x/tests/a.rs: put_off` |");
    assert_eq!(page(&waits), [""; 0]);
    assert!(!Tree::new(&[CASES]).findings().is_empty(), "a list without a page");
}

#[test]
fn a_case_left_out_misplaced_or_made_up_is_found() {
    let [one, two, three] = GOOD;
    assert_eq!(page(&[one, two].concat()), ["page: `A-03b` of `xtask/conformance-cases.txt` is missing"]);
    assert_eq!(page(&[one, three].concat()), ["page:4: `A-03b` stands where `A-02` belongs"]);
    assert_eq!(page(&[two, one, three].concat()), ["page:3: `A-02` stands where `A-01` belongs"]);
    let made_up = three.replace("A-03b", "A-04");
    let four = [one, two, three, &made_up].concat();
    assert_eq!(page(&four), ["page:6: `A-04` is not in `xtask/conformance-cases.txt`"]);
}

#[test]
fn a_row_without_a_test_that_runs_is_found() {
    let whole = GOOD.concat();
    let with = |from: &str, to: &str| page(&whole.replacen(from, to, 1));
    assert_eq!(
        with("a.rs: shown", "a.rs: show"),
        ["page:3: A-01: `crates/x/tests/a.rs: show` does not exist"]
    );
    assert_eq!(
        with("a.rs: shown", "b.rs: shown"),
        ["page:3: A-01: `crates/x/tests/b.rs: shown` does not exist"]
    );
    let ignored = with("a.rs: shown", "a.rs: put_off");
    assert_eq!(ignored, ["page:3: A-01: `crates/x/tests/a.rs: put_off` is ignored: it shows nothing"]);
    let heading = with("rejected-later-with", "rejected-with");
    assert_eq!(heading, ["page:4: A-02: `spec/turns.md#rejected-with-a-verdict` does not exist"]);
    assert_eq!(with("`crates/x/tests/a.rs: shown`", ""), ["page:3: A-01 is kept and names no test"]);
    assert_eq!(with("kept", "alike"), ["page:3: A-01: `alike` is no verdict: kept, changed, not ours yet"]);
    assert_eq!(with("a.rs: shown", "a.rs"), ["page:3: A-01: `crates/x/tests/a.rs` does not exist"]);
}
