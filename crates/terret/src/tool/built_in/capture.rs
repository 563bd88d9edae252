//! Output of any length in bounded memory: its start, its end, and how much is missing between.

use std::collections::VecDeque;

/// Keeps the first and the last bytes of a stream.
pub(super) struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_max: usize,
    tail_max: usize,
    total: u64,
}

impl Capture {
    pub(super) fn new(head_max: usize, tail_max: usize) -> Self {
        Capture { head: Vec::new(), tail: VecDeque::new(), head_max, tail_max, total: 0 }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = self.head_max - self.head.len();
        let (first, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(first);
        let rest = &rest[rest.len().saturating_sub(self.tail_max)..];
        let excess = (self.tail.len() + rest.len()).saturating_sub(self.tail_max);
        self.tail.drain(..excess);
        self.tail.extend(rest);
    }

    /// The text, and how many bytes were cut from its middle. What is not UTF-8 becomes U+FFFD; a cut never
    /// makes a broken character of a whole one.
    pub(super) fn finish(mut self) -> (String, u64) {
        let kept = (self.head.len() + self.tail.len()) as u64;
        if self.total == kept {
            self.head.extend(self.tail);
            return (String::from_utf8_lossy(&self.head).into_owned(), 0);
        }
        let mut cut = self.total - kept;
        let tail: Vec<u8> = self.tail.into();
        let torn_head = torn_end(&self.head);
        let torn_tail = tail.iter().take(3).take_while(|byte| (0x80..0xc0).contains(*byte)).count();
        cut += (torn_head + torn_tail) as u64;
        let head = String::from_utf8_lossy(&self.head[..self.head.len() - torn_head]);
        let tail = String::from_utf8_lossy(&tail[torn_tail..]);
        (format!("{head}\n[... {cut} bytes cut ...]\n{tail}"), cut)
    }
}

/// Bytes at the end that start a character and do not finish it.
fn torn_end(bytes: &[u8]) -> usize {
    let lead = (1..=bytes.len().min(4)).find(|back| !(0x80..0xc0).contains(&bytes[bytes.len() - back]));
    let Some(back) = lead else { return 0 };
    let torn = std::str::from_utf8(&bytes[bytes.len() - back..]).is_err_and(|e| e.error_len().is_none());
    if torn { back } else { 0 }
}

#[cfg(test)]
mod tests;
