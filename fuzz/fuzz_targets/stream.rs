//! Fuzzes what `crates/terret/tests/fuzz/stream.rs` checks.
#![no_main]

#[path = "../../crates/terret/tests/fuzz/memory.rs"]
mod memory;
#[path = "../../crates/terret/tests/fuzz/stream.rs"]
mod stream;

libfuzzer_sys::fuzz_target!(|data: &[u8]| stream::check(data));
