//! How long a provider asks us to wait, in the ways it may say so.

/// The headers of a response, by name; names are lower case.
#[derive(Clone, Copy)]
pub struct Headers<'a>(pub &'a dyn Fn(&str) -> Option<String>);

impl Headers<'_> {
    /// The provider's id of the request.
    pub fn request_id(self) -> Option<String> {
        let names = [
            "x-request-id",
            "request-id",
            "x-ds-trace-id",
            "x-deepseek-request-id",
            "apim-request-id",
            "cf-ray",
        ];
        names.into_iter().find_map(|name| self.get(name))
    }

    fn get(self, name: &str) -> Option<String> {
        (self.0)(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }
}

/// Whether the server itself says that trying again makes sense (`x-should-retry`).
pub fn should_retry(headers: Headers<'_>) -> Option<bool> {
    headers.get("x-should-retry").and_then(|value| value.parse().ok())
}

/// The delay the headers ask for. Zero, the past and nonsense ask for nothing.
pub fn delay_ms(headers: Headers<'_>, status: u16, now_unix_s: f64) -> Option<u64> {
    let millis = headers.get("retry-after-ms").and_then(|value| positive(value.parse().ok()?));
    let seconds = || {
        let value = headers.get("retry-after")?;
        match value.parse::<f64>() {
            Ok(seconds) => positive(seconds * 1000.0),
            Err(_) => positive((http_date_unix_s(&value)? as f64 - now_unix_s) * 1000.0),
        }
    };
    // No SDK reads these; they are what is left when a 429 names no delay.
    let window = || (status == 429).then(|| exhausted_window_ms(headers)).flatten();
    millis.or_else(seconds).or_else(window)
}

fn positive(ms: f64) -> Option<u64> {
    (ms.is_finite() && ms > 0.0).then_some(ms.ceil() as u64)
}

fn exhausted_window_ms(headers: Headers<'_>) -> Option<u64> {
    let wait = |what: &str| {
        let left = headers.get(&format!("x-ratelimit-remaining-{what}"))?;
        let reset = headers.get(&format!("x-ratelimit-reset-{what}"))?;
        (left == "0").then(|| go_duration_ms(&reset)).flatten()
    };
    let waits = [wait("requests"), wait("tokens")];
    positive(waits.into_iter().flatten().fold(0.0, f64::max))
}

/// A Go duration (`1h2m3.5s`, `17.52ms`) in milliseconds.
pub fn go_duration_ms(text: &str) -> Option<f64> {
    let mut total = 0.0;
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let unit = rest[number..]
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .map_or(rest.len(), |at| number + at);
        let scale = match &rest[number..unit] {
            "h" => 3_600_000.0,
            "m" => 60_000.0,
            "s" => 1_000.0,
            "ms" => 1.0,
            "us" | "µs" => 0.001,
            _ => return None,
        };
        total += rest[..number].parse::<f64>().ok()? * scale;
        rest = &rest[unit..];
    }
    Some(total)
}

/// A delay in a sentence: `Please retry after 7 seconds`, `try again in 2s`.
pub fn delay_in_text_ms(message: &str) -> Option<u64> {
    let message = message.to_lowercase();
    let after = ["retry after ", "try again in "].into_iter().find_map(|lead| message.split_once(lead))?.1;
    let word = after.split_whitespace().next()?.trim_end_matches(['.', ',', ';']);
    match word.parse::<f64>() {
        Ok(number) => {
            let unit = after.split_whitespace().nth(1).unwrap_or("");
            let scale = match unit.trim_end_matches(['.', ',', ';']) {
                "ms" | "milliseconds" => 1.0,
                "minute" | "minutes" => 60_000.0,
                _ => 1_000.0,
            };
            positive(number * scale)
        }
        Err(_) => positive(go_duration_ms(word)?),
    }
}

/// `Mon, 21 Sep 2026 14:13:50 GMT` in seconds since 1970. The two older forms are not in use any more.
fn http_date_unix_s(text: &str) -> Option<i64> {
    let (_, date) = text.split_once(", ")?;
    let mut parts = date.split(' ');
    let day: i64 = parts.next()?.parse().ok()?;
    let month = parts.next()?;
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = months.iter().position(|name| *name == month)? as i64 + 1;
    let year: i64 = parts.next()?.parse().ok()?;
    let mut clock = parts.next()?.split(':').map(str::parse::<i64>);
    let (hour, minute, second) = (clock.next()?.ok()?, clock.next()?.ok()?, clock.next()?.ok()?);
    (parts.next() == Some("GMT")).then_some(())?;
    // Days by the civil calendar: years that begin in March put the leap day last.
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days =
        365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year - 719_468;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::{delay_in_text_ms, http_date_unix_s};

    #[test]
    fn dates_are_read() {
        assert_eq!(http_date_unix_s("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(http_date_unix_s("Thu, 29 Feb 2024 12:00:00 GMT"), Some(1_709_208_000));
        assert_eq!(http_date_unix_s("soon"), None);
    }

    #[test]
    fn delays_are_found_in_sentences() {
        assert_eq!(delay_in_text_ms("Please try again in 2s."), Some(2_000));
        assert_eq!(delay_in_text_ms("Please try again in 1m2.5s. Thanks"), Some(62_500));
        assert_eq!(delay_in_text_ms("Please retry after 7 seconds."), Some(7_000));
        assert_eq!(delay_in_text_ms("Please retry after a while"), None);
    }
}
