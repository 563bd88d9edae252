//! Reading logs for people: proofs. Needs no key, no network, no configuration.

mod verify;

pub use verify::{Mismatch, Report, bytes_beside, verify, verify_scan};
