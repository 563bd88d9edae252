//! Fuzzes what `crates/terret/tests/fuzz/lines.rs` checks.
#![no_main]

#[path = "../../crates/terret/tests/fuzz/lines.rs"]
mod lines;
#[path = "../../crates/terret/tests/fuzz/memory.rs"]
mod memory;
#[path = "../../crates/terret/tests/fuzz/mend.rs"]
mod mend;

libfuzzer_sys::fuzz_target!(|data: &[u8]| memory::bounded(lines::check, data));
