//! Prices as decimals. The packages write them as JSON numbers; their shortest decimal is what was meant.

use serde_json::Value;

/// Places a price per million tokens may have: a millionth of a dollar is below any price there is.
const PLACES: i32 = 6;

/// The number times ten to `shift`, as a plain decimal; `None` if it is no number from 0 up. What is finer than
/// [`PLACES`] is noise of somebody's binary arithmetic, and rounded.
pub(super) fn decimal(value: &Value, shift: i32) -> Option<String> {
    let text = value.as_number()?.to_string();
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().ok()?;
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits: u128 = format!("{whole}{part}").parse().ok()?;
    // digits × 10^power is the number in units of its last place.
    let power = exponent + shift + PLACES - i32::try_from(part.len()).ok()?;
    let scaled = match u32::try_from(power) {
        Ok(power) => digits.checked_mul(10_u128.checked_pow(power)?)?,
        Err(_) => {
            let by = 10_u128.checked_pow(power.unsigned_abs())?;
            (digits + by / 2) / by
        }
    };
    let one = 10_u128.pow(PLACES.unsigned_abs());
    let text = format!("{}.{:06}", scaled / one, scaled % one);
    Some(text.trim_end_matches('0').trim_end_matches('.').to_owned())
}
