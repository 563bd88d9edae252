//! Time and fresh ids: the one place that reads clocks, behind traits so that a program can give its own.

use std::time::{SystemTime, UNIX_EPOCH};

/// Tells the time. Order never depends on it.
pub trait Clock: Send + Sync {
    /// Epoch milliseconds; may repeat or go back.
    fn epoch_ms(&self) -> u64;
}

/// The system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn epoch_ms(&self) -> u64 {
        epoch_ms()
    }
}

/// Mints ids of sessions and messages.
pub trait Ids: Send + Sync {
    /// An id that was not used before, by anybody.
    fn fresh(&self) -> String;
}

/// Ids that sort by the time they were made (UUID version 7).
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemIds;

impl Ids for SystemIds {
    fn fresh(&self) -> String {
        uuid::Uuid::now_v7().to_string()
    }
}

pub(crate) fn epoch_ms() -> u64 {
    // A clock before 1970 is as good as none.
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64)
}

/// `2026-11-30` (UTC) of an epoch time.
pub fn date(epoch_ms: u64) -> String {
    // Civil date from a day count, in eras of 400 years that begin on the first of March.
    let days = (epoch_ms / 86_400_000) as i64 + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}
