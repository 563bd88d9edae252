//! Medians: the only statistic this project trusts on a shared machine.

/// The middle of the sample; the mean of both middles when their number is even. `None` for no sample.
pub(crate) fn median(sample: &[f64]) -> Option<f64> {
    let mut sorted = sample.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        even if even % 2 == 0 => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
        _ => Some(sorted[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn middle_or_mean_of_the_middles() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }
}
