//! Every key there is, once: the reader, the environment and the reference page use this table.

/// One key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Dotted name; `*` stands for a name the person chooses.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// What holds when it is not set.
    pub default: &'static str,
    /// What it does.
    pub doc: &'static str,
}

/// What a key takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text.
    Text,
    /// A whole number, not negative.
    Number,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A list of texts.
    Texts,
    /// Text, true or false, or a list of texts: what it stands for decides.
    Column,
    /// `true` or `false`.
    Flag,
    /// A price, as text or number.
    Price,
}

const fn key(name: &'static str, kind: Kind, default: &'static str, doc: &'static str) -> Key {
    Key { name, kind, default, doc }
}

/// All keys, sorted by name.
pub const KEYS: &[Key] = &[
    key("idle_timeout_s", Kind::Number, "300", "Longest silence allowed on a model's stream, in seconds."),
    key("max_retries", Kind::Number, "5", "Retries a step may use after failures that may pass."),
    key("max_steps", Kind::Number, "none", "Steps a turn may take."),
    key("model", Kind::Text, "none", "The model to ask: `PROVIDER/MODEL`, `script:demo` or `script:FILE`."),
    key(
        "models.*.cache_read",
        Kind::Price,
        "by catalogue",
        "Price of input read from a cache, in US dollars per million tokens; as `input` where nobody says.",
    ),
    key(
        "models.*.cache_write",
        Kind::Price,
        "by catalogue",
        "Price of input written to a cache, in US dollars per million tokens; as `input` where nobody says.",
    ),
    key(
        "models.*.context_window",
        Kind::Number,
        "by catalogue",
        "Input and output together, in tokens, of the model `PROVIDER/MODEL`: `[models.\"openai/gpt-5\"]`.",
    ),
    key("models.*.images", Kind::Flag, "by catalogue", "Whether it sees images."),
    key("models.*.input", Kind::Price, "by catalogue", "Price of input, in US dollars per million tokens."),
    key("models.*.max_output_tokens", Kind::Number, "by catalogue", "The most it says in one answer."),
    key("models.*.output", Kind::Price, "by catalogue", "Price of output, in US dollars per million tokens."),
    key(
        "permissions",
        Kind::Choice(&["read-only", "workspace-write", "full"]),
        "workspace-write",
        "What tools may do without asking.",
    ),
    key(
        "providers.*.api_key_env",
        Kind::Text,
        "none",
        "Environment variable with the key. Never the key itself.",
    ),
    key(
        "providers.*.api_key_header",
        Kind::Text,
        "by wire",
        "The header that carries the key, for example `api-key`.",
    ),
    key("providers.*.base_url", Kind::Text, "by provider", "Where the server is."),
    key(
        "providers.*.dialect",
        Kind::Text,
        "generic",
        "Name of the dialect row: whose habits the server has.",
    ),
    key("providers.*.headers.*", Kind::Text, "none", "A further header."),
    key(
        "providers.*.quirks.*",
        Kind::Column,
        "none",
        "A column of the dialect row in which this server differs; `terret doctor --provider` shows all.",
    ),
    key(
        "providers.*.wire",
        Kind::Text,
        "openai-chat",
        "Protocol: `openai-chat`, `openai-responses` or `anthropic-messages`.",
    ),
    key("timeout_s", Kind::Number, "none", "Wall time of a run, in seconds."),
    key(
        "trusted",
        Kind::Texts,
        "[]",
        "Directories whose `.terret/config.toml` is read. Only in your own file.",
    ),
];

/// The key a dotted name belongs to.
pub(super) fn known(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| fits(key.name, name))
}

/// Whether `name` has the shape of `pattern`.
pub(super) fn fits(pattern: &str, name: &str) -> bool {
    let (mut p, mut n) = (pattern.split('.'), parts(name));
    loop {
        match (p.next(), n.next()) {
            (None, None) => return true,
            (Some("*"), Some(part)) if !bare(part).is_empty() => {}
            (Some(want), Some(part)) if want == part => {}
            _ => return false,
        }
    }
}

/// The parts of a dotted name, as TOML has them: a part in quotes may hold dots.
pub(super) fn parts(name: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(name);
    std::iter::from_fn(move || {
        let text = rest?;
        let quoted = text.strip_prefix('"').and_then(|inside| inside.find('"')).map_or(0, |at| at + 2);
        let end = text[quoted..].find('.').map(|at| quoted + at);
        rest = end.map(|end| &text[end + 1..]);
        Some(&text[..end.unwrap_or(text.len())])
    })
}

/// A part without its quotes.
pub(super) fn bare(part: &str) -> &str {
    part.strip_prefix('"').and_then(|part| part.strip_suffix('"')).unwrap_or(part)
}

/// A name as a part: in quotes where it has to be.
pub(super) fn quoted(name: &str) -> String {
    match name.contains(['.', '/', ':', ' ']) {
        true => format!("\"{name}\""),
        false => name.to_owned(),
    }
}

/// The key whose name is nearest to `name`, in the words of `name` where the pattern leaves them open.
pub(super) fn nearest(name: &str) -> Option<String> {
    let words: Vec<&str> = parts(name).collect();
    let candidate = |key: &Key| {
        let filled = key.name.split('.').enumerate();
        let parts: Vec<&str> =
            filled.map(|(i, p)| if p == "*" { words.get(i).copied().unwrap_or("NAME") } else { p }).collect();
        parts.join(".")
    };
    let scored = KEYS.iter().map(|key| {
        let candidate = candidate(key);
        (strsim::damerau_levenshtein(&candidate, name), candidate)
    });
    scored.min().filter(|(distance, _)| *distance <= 4).map(|(_, candidate)| candidate)
}
