//! Times for people, in UTC.

/// `2026-11-30 10:42` of an epoch time.
pub(crate) fn minute(epoch_ms: u64) -> String {
    let minutes = epoch_ms / 60_000;
    format!("{} {:02}:{:02}", terret::clock::date(epoch_ms), minutes / 60 % 24, minutes % 60)
}

/// `10:42:07.123` of an epoch time.
pub(crate) fn of_day(epoch_ms: u64) -> String {
    let (s, ms) = (epoch_ms / 1000, epoch_ms % 1000);
    format!("{:02}:{:02}:{:02}.{ms:03}", s / 3600 % 24, s / 60 % 60, s % 60)
}
