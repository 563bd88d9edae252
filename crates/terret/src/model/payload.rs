//! Error payloads: the many shapes in which providers say that something went wrong.

use serde_json::Value;

use super::retry_hint::delay_in_text_ms;

/// What a provider said, taken out of its envelope.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ErrorWords {
    /// Its code: a word, or a number in text.
    pub code: String,
    /// Its type.
    pub kind: String,
    /// Its sentence.
    pub message: String,
    /// A delay given beside the words (Gemini).
    retry_delay_ms: Option<u64>,
}

impl ErrorWords {
    /// A sentence and nothing else.
    pub fn sentence(message: impl Into<String>) -> Self {
        ErrorWords { message: message.into(), ..ErrorWords::default() }
    }

    /// Reads the body of a bad response; `None` if it is no JSON we know.
    pub fn from_body(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        Self::from_envelope(&value).or_else(|| Self::from_bare(&value))
    }

    /// Reads an error out of a payload that may well be none: `None` if it is not one.
    pub fn from_envelope(value: &Value) -> Option<Self> {
        let Value::Object(object) = value else {
            return Self::from_envelope(value.as_array()?.first()?);
        };
        match object.get("error") {
            None | Some(Value::Null) => {}
            Some(error) => return Self::from_bare(error),
        }
        let text = |key: &str| object.get(key).map(plain).unwrap_or_default();
        if object.contains_key("error_type") || object.contains_key("error_message") {
            let message = text("error_message");
            return Some(ErrorWords { kind: text("error_type"), message, ..ErrorWords::default() });
        }
        if text("object") == "error" {
            return Self::from_bare(value);
        }
        let detail = object.get("detail")?;
        let inner = detail.as_str().and_then(Self::from_body);
        Some(inner.unwrap_or_else(|| ErrorWords::sentence(detail_text(detail))))
    }

    /// Reads the error object itself, without an envelope.
    pub fn from_bare(value: &Value) -> Option<Self> {
        let object = match value {
            Value::Object(object) => object,
            Value::String(text) => return Some(ErrorWords::sentence(text.as_str())),
            _ => return None,
        };
        let text = |key: &str| object.get(key).map(plain).unwrap_or_default();
        let metadata = object.get("metadata");
        // The router's own word is more exact than `type`; Gemini has its word in `status`.
        let kind = [metadata.and_then(|m| m.get("error_type")), object.get("type"), object.get("status")];
        let kind = kind.into_iter().flatten().map(plain).find(|word| !word.is_empty());
        let mut words = ErrorWords {
            code: text("code"),
            kind: kind.unwrap_or_default(),
            message: text("message"),
            retry_delay_ms: retry_delay_ms(object.get("details")),
        };
        if words.message.is_empty() {
            words.message = text("detail");
        }
        if words.code.is_empty() {
            // Anthropic's exact word; its type is too general, and its wording may change.
            words.code =
                object.get("details").and_then(|d| d.get("error_code")).map(plain).unwrap_or_default();
        }
        if let Some(inner) = object.get("innererror").and_then(|inner| inner.get("code")).map(plain)
            && words.code.is_empty()
        {
            words.code = inner;
        }
        Some(words)
    }

    /// The HTTP status its code stands for, if the code is one.
    pub fn status(&self) -> Option<u16> {
        self.code.parse().ok().filter(|status| (400..600).contains(status))
    }

    /// A delay the words themselves ask for.
    pub fn delay_ms(&self) -> Option<u64> {
        self.retry_delay_ms.or_else(|| delay_in_text_ms(&self.message))
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => String::new(),
    }
}

/// FastAPI's `detail`: a sentence, or a list of complaints each with a place and a sentence.
fn detail_text(detail: &Value) -> String {
    match detail {
        Value::String(text) => text.clone(),
        Value::Array(list) => {
            let complaints: Vec<String> =
                list.iter().map(|item| item.get("msg").map_or_else(|| item.to_string(), plain)).collect();
            complaints.join("; ")
        }
        other => other.to_string(),
    }
}

/// Gemini's `details: [{"retryDelay": "34s"}]`.
fn retry_delay_ms(details: Option<&Value>) -> Option<u64> {
    let delay = details?.as_array()?.iter().find_map(|detail| detail.get("retryDelay")?.as_str())?;
    super::retry_hint::go_duration_ms(delay).map(|ms| ms.ceil() as u64)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::ErrorWords;

    fn read(text: &str) -> (String, String, String) {
        let words = ErrorWords::from_body(text).unwrap();
        (words.code, words.kind, words.message)
    }

    fn words(code: &str, kind: &str, message: &str) -> (String, String, String) {
        (code.to_owned(), kind.to_owned(), message.to_owned())
    }

    #[test]
    fn every_envelope_is_opened() {
        assert_eq!(read(r#"{"error":{"message":"m","type":"t","code":"c"}}"#), words("c", "t", "m"));
        assert_eq!(read(r#"[{"error":{"message":"m","status":"S","code":429}}]"#), words("429", "S", "m"));
        assert_eq!(read(r#"{"error":"m"}"#), words("", "", "m"));
        assert_eq!(read(r#"{"object":"error","message":"m","type":"t","code":404}"#), words("404", "t", "m"));
        assert_eq!(read(r#"{"detail":[{"loc":["a"],"msg":"m"},{"msg":"n"}]}"#), words("", "", "m; n"));
        assert_eq!(
            read(r#"{"detail":"{\"error\":{\"code\":400,\"message\":\"m\"}}"}"#),
            words("400", "", "m")
        );
        assert_eq!(read(r#"{"message":"m"}"#), words("", "", "m"));
        assert_eq!(
            read(r#"{"type":"error","error":{"type":"t","message":"m","details":{"error_code":"c"}}}"#),
            words("c", "t", "m")
        );
        assert_eq!(read(r#"{"error":{"type":"t","message":"m","details":null}}"#), words("", "t", "m"));
        assert!(ErrorWords::from_body("<html>").is_none());
        assert!(ErrorWords::from_body("").is_none());
    }

    #[test]
    fn a_delay_may_stand_in_the_body() {
        let gemini = r#"{"error":{"code":503,"message":"m","details":[{"a":1},{"retryDelay":"34s"}]}}"#;
        assert_eq!(ErrorWords::from_body(gemini).unwrap().delay_ms(), Some(34_000));
        let azure = r#"{"error":{"message":"Please retry after 7 seconds."}}"#;
        assert_eq!(ErrorWords::from_body(azure).unwrap().delay_ms(), Some(7_000));
    }
}
