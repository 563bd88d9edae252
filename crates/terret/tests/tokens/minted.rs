//! Only a journal makes a proof.

use terret::core::fact::RequestAttempt;
use terret::store::{Durable, Journal};

pub fn mint(journal: &mut Journal) -> Option<Durable<RequestAttempt>> {
    journal.request()
}

fn main() {}
