//! The first line of a log: whose it is, and where it came from.

use serde::{Deserialize, Serialize};

use super::{FORMAT, LineError, check_crc, close_line};
use crate::id::{Digest, Seq, SessionId};
use crate::raw::Raw;

/// The first line of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionHeader {
    /// Always `session`.
    #[serde(rename = "type")]
    pub kind: SessionTag,
    /// Version of the format.
    pub format: u32,
    /// Id of the session.
    pub id: SessionId,
    /// Epoch milliseconds.
    pub created: u64,
    /// Working directory of the tools.
    pub cwd: String,
    /// Program and version.
    pub by: String,
    /// Where a fork left its parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// Who started the session, where it was not a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Raw>,
}

/// The `type` of a header line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum SessionTag {
    /// `session`.
    Session,
}

/// The point at which a fork left its parent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Parent {
    /// The parent session.
    pub id: SessionId,
    /// Last event taken along; absent if the parent had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<Seq>,
    /// Chain value of the parent behind that event.
    pub h: Digest,
}

impl Parent {
    /// How many events were taken along: the seq of the first that the fork wrote itself.
    pub fn taken(&self) -> Seq {
        self.seq.map_or(0, |seq| seq.saturating_add(1))
    }
}

impl SessionHeader {
    /// The header line, newline included.
    pub fn to_line(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut out = serde_json::to_vec(self)?;
        out.pop();
        close_line(&mut out, 0);
        Ok(out)
    }

    /// Reads a header line (without its newline).
    pub fn parse(line: &[u8]) -> Result<Self, LineError> {
        check_crc(line)?;
        let probe: Probe = serde_json::from_slice(line).map_err(LineError::json)?;
        if probe.format > FORMAT {
            return Err(LineError::Newer { found: probe.format });
        }
        serde_json::from_slice(line).map_err(LineError::json)
    }
}

#[derive(Deserialize)]
struct Probe {
    format: u32,
}
