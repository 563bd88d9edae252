//! Gives changed lines what a reader looks at first, so that the change itself is looked at.

use blake3::Hasher;

const CRC: &[u8] = br#","crc":""#;
const H: &[u8] = br#","h":""#;
const SEQ: &[u8] = br#"{"seq":"#;
const BOOT: &[u8] = br#""boot":"HERE""#;
/// Bytes of a line's end from its checksum on, and of its link before that.
const CRC_TAIL: usize = CRC.len() + 10;
const H_TAIL: usize = H.len() + 65;

/// The log as it is; with every checksum and every link of the chain made right, where a line has the place for it;
/// and with the lines numbered, too. The last two as if written on this boot of the machine.
pub(crate) fn versions(log: &[u8], boot: &str) -> [Vec<u8>; 3] {
    [log.to_vec(), mend(log, boot, false), mend(log, boot, true)]
}

fn mend(log: &[u8], boot: &str, number: bool) -> Vec<u8> {
    let mut lines = log.split_inclusive(|b| *b == b'\n');
    let mut out = lines.next().map(|header| with_checksum(header.to_vec())).unwrap_or_default();
    let mut link = *blake3::hash(b"terret log chain, format 1").as_bytes();
    let mut since = Hasher::new();
    since.update(&link);
    for (seq, line) in lines.enumerate() {
        let mut line = replaced(line, BOOT, format!(r#""boot":"{boot}""#).as_bytes());
        if number && line.starts_with(SEQ) {
            let digits = line[SEQ.len()..].iter().take_while(|b| b.is_ascii_digit()).count();
            line.splice(SEQ.len()..SEQ.len() + digits, seq.to_string().into_bytes());
        }
        match place_of_link(&line) {
            Some(at) => {
                link = *since.update(&line[..at]).finalize().as_bytes();
                let hex: String = link.iter().map(|byte| format!("{byte:02x}")).collect();
                line[at + H.len()..at + H.len() + 64].copy_from_slice(hex.as_bytes());
                line = with_checksum(line);
                since.reset();
                since.update(&link);
            }
            None => {
                line = with_checksum(line);
                since.update(&line);
            }
        }
        out.extend_from_slice(&line);
    }
    out
}

fn with_checksum(mut line: Vec<u8>) -> Vec<u8> {
    let end = line.len() - usize::from(line.ends_with(b"\n"));
    if let Some(at) = end.checked_sub(CRC_TAIL).filter(|at| line[*at..].starts_with(CRC)) {
        let crc = format!("{:08x}", crc32c::crc32c(&line[..at]));
        line[at + CRC.len()..end - 2].copy_from_slice(crc.as_bytes());
    }
    line
}

fn place_of_link(line: &[u8]) -> Option<usize> {
    let end = line.len() - usize::from(line.ends_with(b"\n"));
    end.checked_sub(CRC_TAIL + H_TAIL).filter(|at| line[*at..].starts_with(H))
}

fn replaced(line: &[u8], word: &[u8], by: &[u8]) -> Vec<u8> {
    match line.windows(word.len()).position(|found| found == word) {
        Some(at) => [&line[..at], by, &line[at + word.len()..]].concat(),
        None => line.to_vec(),
    }
}
