//! JSON without the blanks between its tokens. Order, number text and escapes stay as they are.

use std::borrow::Cow;

/// The same JSON text without blanks outside strings.
pub fn compact(json: &str) -> Cow<'_, str> {
    let blank = |c: char| matches!(c, ' ' | '\t' | '\n' | '\r');
    if !json.contains(blank) {
        return Cow::Borrowed(json);
    }
    let mut text = String::with_capacity(json.len());
    let (mut in_string, mut escaped) = (false, false);
    for c in json.chars() {
        if in_string || !blank(c) {
            text.push(c);
        }
        match c {
            '"' if !escaped => in_string = !in_string,
            '\\' if in_string && !escaped => {
                escaped = true;
                continue;
            }
            _ => {}
        }
        escaped = false;
    }
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use super::compact;

    #[test]
    fn only_blanks_between_tokens_go() {
        let json = "{ \"a b\" : [ 1.0e5 ,\n\"c \\\" d\\\\\" , true ] }";
        assert_eq!(compact(json), "{\"a b\":[1.0e5,\"c \\\" d\\\\\",true]}");
        assert_eq!(compact("{}"), "{}");
    }
}
