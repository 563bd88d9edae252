//! The same with the attempt alone, synced or not.

use std::sync::Arc;
use std::time::Duration;

use terret::core::chunk::Failure;
use terret::core::fact::{Header, RequestAttempt};
use terret::model::{Adapter, ChunkStream, Outgoing};

pub fn send(
    adapter: &dyn Adapter,
    attempt: RequestAttempt,
    header: Arc<Header>,
    body: Vec<u8>,
) -> Result<ChunkStream, Failure> {
    let outgoing = Outgoing::new(attempt, header, body.into(), Duration::from_secs(60))?;
    Ok(adapter.stream(outgoing))
}

fn main() {}
