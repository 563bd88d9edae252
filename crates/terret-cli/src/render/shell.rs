//! Words as a shell takes them.

/// The word, quoted where a shell would read it otherwise.
pub(crate) fn quoted(word: &str) -> String {
    let is_bare = |c: char| c.is_alphanumeric() || "-_./:=@%+,".contains(c);
    match !word.is_empty() && word.chars().all(is_bare) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_shell_reads_the_same_word() {
        assert_eq!(quoted("max_retries=0"), "max_retries=0");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
