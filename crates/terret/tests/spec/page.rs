//! A page: prose around scenarios, each a heading and its fenced blocks.

/// A page, cut into what the tests need.
pub(crate) struct Page {
    lines: Vec<String>,
    pub(crate) scenarios: Vec<Scenario>,
}

/// What one heading tells.
pub(crate) struct Scenario {
    pub(crate) name: String,
    pub(crate) script: Block,
    pub(crate) actions: Block,
    log: Block,
    request: Option<Block>,
}

/// The inside of a fenced block.
pub(crate) struct Block {
    kind: String,
    pub(crate) text: String,
    /// Its first line, counted from 0.
    pub(crate) start: usize,
    /// The line of its closing fence.
    end: usize,
}

impl Scenario {
    /// The blocks that show what happened: the log, the last request.
    pub(crate) fn shown(&self) -> impl Iterator<Item = Option<&Block>> {
        [Some(&self.log), self.request.as_ref()].into_iter()
    }
}

impl Page {
    pub(crate) fn parse(text: &str) -> Result<Page, String> {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let mut scenarios = Vec::new();
        let (mut heading, mut blocks) = (String::new(), Vec::new());
        let mut at = 0;
        while at < lines.len() {
            let line = &lines[at];
            if line.starts_with('#') {
                scenarios.extend(scenario(&heading, std::mem::take(&mut blocks))?);
                heading = line.trim_start_matches('#').trim().to_owned();
            } else if line.starts_with("```") {
                let block = fenced(&lines, at)?;
                at = block.end;
                blocks.push(block);
            }
            at += 1;
        }
        scenarios.extend(scenario(&heading, blocks)?);
        Ok(Page { lines, scenarios })
    }

    /// The page with other text in these blocks.
    pub(crate) fn with(&self, mut blocks: Vec<(&Block, String)>) -> String {
        let mut lines = self.lines.clone();
        blocks.sort_by_key(|(block, _)| std::cmp::Reverse(block.start));
        for (block, text) in blocks {
            lines.splice(block.start..block.end, text.lines().map(str::to_owned));
        }
        lines.join("\n") + "\n"
    }
}

/// The block whose fence stands at this line. A longer fence closes only by one as long: what it shows is not
/// looked at.
fn fenced(lines: &[String], at: usize) -> Result<Block, String> {
    let kind = lines[at].trim_start_matches('`');
    let fence = &lines[at][..lines[at].len() - kind.len()];
    let length = lines[at + 1..].iter().position(|line| line == fence);
    let end = at + 1 + length.ok_or_else(|| format!("line {}: the block has no end", at + 1))?;
    let text = lines[at + 1..end].iter().map(|line| format!("{line}\n")).collect();
    let kind = if fence.len() > 3 { "" } else { kind };
    Ok(Block { kind: kind.to_owned(), text, start: at + 1, end })
}

fn scenario(name: &str, blocks: Vec<Block>) -> Result<Option<Scenario>, String> {
    let (mut script, mut actions, mut log, mut request) = (None, None, None, None);
    for block in blocks {
        let place = match block.kind.as_str() {
            "script" => &mut script,
            "do" => &mut actions,
            "log" => &mut log,
            "request" => &mut request,
            _ => continue,
        };
        if place.replace(block).is_some() {
            return Err(format!("\"{name}\" has a block twice: one scenario a heading"));
        }
    }
    match (script, actions, log) {
        (Some(script), Some(actions), Some(log)) => {
            Ok(Some(Scenario { name: name.to_owned(), script, actions, log, request }))
        }
        (None, None, None) if request.is_none() => Ok(None),
        _ => Err(format!("\"{name}\" needs a script, a do and a log block")),
    }
}
