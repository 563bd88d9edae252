//! Fuzzes what `crates/terret/tests/fuzz/opener.rs` checks.
#![no_main]

#[path = "../../crates/terret/tests/fuzz/opener.rs"]
mod opener;
#[path = "../../crates/terret/tests/fuzz/memory.rs"]
mod memory;
#[path = "../../crates/terret/tests/fuzz/mend.rs"]
mod mend;

libfuzzer_sys::fuzz_target!(|data: &[u8]| memory::bounded(opener::check, data));
