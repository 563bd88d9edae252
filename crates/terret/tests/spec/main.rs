//! The pages of `spec/`: every scenario in them is played, and must leave the log that the page shows.
//!
//! `UPDATE=1 cargo test -p terret --test spec` writes the logs into the pages instead.
#![allow(clippy::unwrap_used, missing_docs)]

mod hooks;
mod keep;
mod list;
mod page;
mod scene;
mod tools;

use std::path::{Path, PathBuf};

use page::Page;

#[test]
fn every_scenario_leaves_the_log_its_page_shows() {
    let update = std::env::var_os("UPDATE").is_some_and(|v| !v.is_empty() && v != "0");
    let mut scenarios = 0;
    let mut wrong = Vec::new();
    for path in pages() {
        let name = format!("spec/{}", path.file_name().unwrap().to_string_lossy());
        let text = std::fs::read_to_string(&path).unwrap();
        let page = Page::parse(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut told = Vec::new();
        for scenario in &page.scenarios {
            scenarios += 1;
            let at = |line: usize| format!("{name}:{}: \"{}\"", line + 1, scenario.name);
            match scene::play(&scenario.script.text, &scenario.actions.text) {
                Err((line, why)) => wrong.push(format!("{}: {why}", at(scenario.actions.start + line))),
                Ok(played) => {
                    for (block, found) in scenario.shown().zip([played.log, played.request]) {
                        let Some(block) = block else { continue };
                        if !update && block.text != found {
                            let changes = list::changes(&block.text, &found);
                            wrong.push(format!("{}:\n{changes}", at(block.start)));
                        }
                        told.push((block, found));
                    }
                }
            }
        }
        if update {
            std::fs::write(&path, page.with(told)).unwrap();
        }
    }
    assert!(wrong.is_empty(), "\n{}\n\n{} of {scenarios} scenarios", wrong.join("\n\n"), wrong.len());
    assert!(scenarios >= 25, "only {scenarios} scenarios were found");
}

fn pages() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec");
    let entries = std::fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let mut pages: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    pages.retain(|path| path.extension().is_some_and(|ext| ext == "md"));
    pages.sort();
    pages
}
