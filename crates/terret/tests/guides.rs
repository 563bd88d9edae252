//! The Rust in the guides is Rust: every block stands, but for white space, in an example that is compiled.
#![allow(clippy::unwrap_used, missing_docs)]

use std::path::Path;

fn texts(dir: &str, ext: &str) -> Vec<(String, String)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join(dir);
    let paths = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let paths = paths.filter(|path| path.extension().is_some_and(|e| e == ext));
    paths.map(|path| (path.display().to_string(), std::fs::read_to_string(&path).unwrap())).collect()
}

/// Without white space, and without the comma that only stands at the end of a line.
fn packed(code: &str) -> String {
    let code: String = code.split_whitespace().collect();
    code.replace(",)", ")").replace(",}", "}")
}

/// The `rust` blocks of a page, with the line each begins at.
fn blocks(page: &str) -> Vec<(usize, String)> {
    let (mut found, mut open) = (Vec::new(), None::<(usize, String)>);
    for (n, line) in page.lines().enumerate() {
        match (&mut open, line) {
            (None, "```rust") => open = Some((n + 1, String::new())),
            (Some(_), "```") => found.extend(open.take()),
            (Some((_, block)), line) => *block += &format!("{line}\n"),
            (None, _) => {}
        }
    }
    found
}

#[test]
fn every_block_of_the_guides_stands_in_an_example() {
    let examples: Vec<String> = texts("examples", "rs").iter().map(|(_, text)| packed(text)).collect();
    let mut looked_at = 0;
    for (path, page) in texts("../../docs/guides", "md") {
        for (line, block) in blocks(&page) {
            looked_at += 1;
            let code = packed(&block);
            // A block may begin with imports that the example has at its top.
            let lines: Vec<&str> = block.lines().collect();
            let body = lines.iter().position(|l| !l.starts_with("use ") && !l.is_empty()).unwrap_or(0);
            let (uses, body) = (packed(&lines[..body].join("\n")), packed(&lines[body..].join("\n")));
            let stands = |example: &&String| {
                uses.split_inclusive(';').all(|line| example.contains(line)) && example.contains(&body)
            };
            assert!(
                !code.is_empty() && examples.iter().any(|e| stands(&e)),
                "{path}:{line}: in no example:\n{block}"
            );
        }
    }
    assert!(looked_at >= 6, "only {looked_at} blocks were found");
}
