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
    let (mut p, mut n) = (pattern.split('.'), name.split('.'));
    loop {
        match (p.next(), n.next()) {
            (None, None) => return true,
            (Some("*"), Some(part)) if !part.is_empty() => {}
            (Some(want), Some(part)) if want == part => {}
            _ => return false,
        }
    }
}

/// The key whose name is nearest to `name`, in the words of `name` where the pattern leaves them open.
pub(super) fn nearest(name: &str) -> Option<String> {
    let words: Vec<&str> = name.split('.').collect();
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
