//! Checksums and the chain, recomputed from the description of the format and from nothing else.

const CRC: &str = ",\"crc\":\"";
const H: &str = ",\"h\":\"";

/// The log with the checksum of every line made right; the chain is left as it is.
pub(crate) fn with_checksums(log: &str) -> String {
    log.lines().map(|line| sealed(body(line))).collect()
}

/// The log with every checksum and every link of the chain made right.
pub(crate) fn recomputed(log: &str) -> String {
    let mut lines = log.lines();
    let mut out = sealed(body(lines.next().unwrap()));
    let mut h = *blake3::hash(b"terret log chain, format 1").as_bytes();
    let mut since = String::new();
    for line in lines {
        match body(line).rsplit_once(H).filter(|(_, tail)| tail.len() == 65) {
            Some((before, _)) => {
                since.push_str(before);
                h = *blake3::Hasher::new().update(&h).update(since.as_bytes()).finalize().as_bytes();
                since.clear();
                let hex: String = h.iter().map(|byte| format!("{byte:02x}")).collect();
                out.push_str(&sealed(&format!("{before}{H}{hex}\"")));
            }
            None => {
                let line = sealed(body(line));
                since.push_str(&line);
                out.push_str(&line);
            }
        }
    }
    out
}

/// A line before its checksum.
fn body(line: &str) -> &str {
    line.rsplit_once(CRC).unwrap().0
}

fn sealed(body: &str) -> String {
    format!("{body}{CRC}{:08x}\"}}\n", crc32c::crc32c(body.as_bytes()))
}
