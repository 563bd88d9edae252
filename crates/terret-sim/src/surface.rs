//! Summaries in the place of history: what a plugin tries, and what may be replaced, worked out without the code that
//! decides it.

use std::collections::BTreeMap;

use terret::core::fact::{Fact, SurfaceReplaced};
use terret::core::id::Seq;
use terret::core::line::Event;
use terret::core::message::{Block, Form, Message, Source};
use terret::core::project::Messages;

use crate::world::State;

/// The conversation by the steps its messages entered in.
#[derive(Default)]
struct Past {
    steps: BTreeMap<(u32, u32), Vec<Seq>>,
    open: Option<(u32, u32)>,
    at: (u32, u32),
    admits: usize,
    entering: Vec<Seq>,
    results: Vec<Seq>,
}

impl Past {
    fn of(events: &[Event]) -> Self {
        let mut past = Past::default();
        events.iter().for_each(|event| past.fold(event));
        past
    }

    fn fold(&mut self, event: &Event) {
        match &event.fact {
            Fact::StepStart(start) => {
                self.at = (start.turn, start.step);
                (self.open, self.admits) = (Some(self.at), start.admits as usize);
                (self.entering, self.results) = (Vec::new(), Vec::new());
            }
            Fact::UserMessage(_) => {
                self.entering.push(event.seq);
                if self.entering.len() == self.admits {
                    let entered = std::mem::take(&mut self.entering);
                    self.enters(entered);
                }
            }
            Fact::AssistantMessage(answer) if !answer.message.content.is_empty() => {
                self.enters(vec![event.seq]);
            }
            Fact::ToolResult(_) => self.results.push(event.seq),
            Fact::StepEnd(_) => {
                let results = std::mem::take(&mut self.results);
                self.enters(results);
                self.open = None;
            }
            Fact::SurfaceReplaced(replaced) => {
                let [first, last] = replaced.range;
                let touched = self.touched(replaced.range);
                for step in &touched {
                    self.steps.entry(*step).or_default().retain(|seq| !(first..=last).contains(seq));
                }
                if let Some(step) = touched.first() {
                    self.steps.entry(*step).or_default().insert(0, first);
                }
            }
            _ => {}
        }
    }

    fn enters(&mut self, seqs: Vec<Seq>) {
        self.steps.entry(self.at).or_default().extend(seqs);
    }

    /// The steps that have a message in this range.
    fn touched(&self, [first, last]: [Seq; 2]) -> Vec<(u32, u32)> {
        let inside = |seqs: &Vec<Seq>| seqs.iter().any(|seq| (first..=last).contains(seq));
        self.steps.iter().filter(|(_, seqs)| inside(seqs)).map(|(step, _)| *step).collect()
    }

    /// Whether this range begins and ends with a message and holds whole closed steps.
    fn is_whole(&self, range: [Seq; 2]) -> bool {
        let [first, last] = range;
        let all = || self.steps.values().flatten();
        let whole = |step: &(u32, u32)| {
            self.open != Some(*step) && self.steps[step].iter().all(|seq| (first..=last).contains(seq))
        };
        all().any(|seq| *seq == first)
            && all().any(|seq| *seq == last)
            && self.touched(range).iter().all(whole)
    }
}

impl State {
    /// A replacement somebody tries: of whole steps as often as of any range, and now and then without a word.
    pub(crate) fn replacement(&mut self) -> Option<SurfaceReplaced> {
        let past = Past::of(&self.witness.events);
        let steps: Vec<Vec<Seq>> = past.steps.into_values().filter(|seqs| !seqs.is_empty()).collect();
        let (from, to) = (self.dice.below(steps.len() as u32), self.dice.below(steps.len() as u32));
        let (from, to) = (steps.get(from.min(to) as usize)?, steps.get(from.max(to) as usize)?);
        let range = match self.dice.half() {
            true => [*from.iter().min()?, *to.iter().max()?],
            false => [*self.dice.pick(from), *self.dice.pick(to)],
        };
        let n = self.fresh();
        let content = match self.dice.below(8) {
            0 => Vec::new(),
            1 => vec![Block::text(" ")],
            _ => vec![Block::text(format!("summary {n}"))],
        };
        let source = Source::Plugin { plugin: "compact".to_owned(), form: Form::Recall };
        let message = Message { content, source, ..Message::user(format!("summary-{n}").as_str(), "") };
        Some(SurfaceReplaced { range, message, by: "compact".to_owned() })
    }

    /// A replacement reaches the log.
    pub(crate) fn check_replaced(&mut self, replaced: &SurfaceReplaced) {
        let [first, last] = replaced.range;
        if replaced.message.text().trim().is_empty() {
            self.fault(format!("{first} to {last} were replaced by nothing"));
        }
        if !Past::of(&self.witness.events).is_whole(replaced.range) {
            self.fault(format!("{first} to {last} were replaced, and they are not whole closed steps"));
        }
    }
}

/// Whether each call of a conversation has its result behind it, and each result its call before it, once.
pub(crate) fn is_paired(messages: &Messages) -> bool {
    let mut open = Vec::new();
    let mut blocks = messages.list().iter().flat_map(|projected| &projected.message.content);
    let paired = blocks.all(|block| match block {
        Block::ToolCall { call: Some(call), .. } => {
            open.push(*call);
            true
        }
        Block::ToolResult { call, .. } => {
            open.iter().position(|asked| asked == call).map(|at| open.swap_remove(at)).is_some()
        }
        _ => true,
    });
    paired && open.is_empty()
}
