//! A request with the proof that its attempt is synced.

use std::sync::Arc;
use std::time::Duration;

use terret::core::chunk::Failure;
use terret::core::fact::{Header, RequestAttempt};
use terret::model::{Adapter, ChunkStream, Outgoing};
use terret::store::Durable;

pub fn send(
    adapter: &dyn Adapter,
    proof: Durable<RequestAttempt>,
    header: Arc<Header>,
    body: Vec<u8>,
) -> Result<ChunkStream, Failure> {
    let outgoing = Outgoing::new(proof, header, body.into(), Duration::from_secs(60))?;
    Ok(adapter.stream(outgoing))
}

fn main() {}
