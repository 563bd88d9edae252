#![allow(clippy::unwrap_used)]

use super::*;

fn captured(pieces: &[&[u8]]) -> (String, u64) {
    let mut capture = Capture::new(8, 8);
    for piece in pieces {
        capture.push(piece);
        assert!(capture.head.len() <= 8 && capture.tail.len() <= 8);
    }
    capture.finish()
}

#[test]
fn what_fits_is_whole() {
    assert_eq!(captured(&[]), (String::new(), 0));
    assert_eq!(captured(&[b"0123456", "\u{e9}789abcd".as_bytes()]), ("0123456\u{e9}789abcd".to_owned(), 0));
}

#[test]
fn the_middle_is_cut_and_counted() {
    let (text, cut) = captured(&[b"0123456789", b"abcdefghij", b"ABCDEFG"]);
    assert_eq!((text.as_str(), cut), ("01234567\n[... 11 bytes cut ...]\njABCDEFG", 11));
    let one_by_one: Vec<&[u8]> = b"0123456789abcdefghijABCDEFG".chunks(1).collect();
    assert_eq!(captured(&one_by_one), (text, cut));
}

#[test]
fn a_cut_breaks_no_character() {
    // The euro sign has three bytes; both cuts would go through one.
    let (text, cut) = captured(&["\u{20ac}\u{20ac}\u{20ac}\u{20ac}\u{20ac}\u{20ac}\u{20ac}".as_bytes()]);
    assert_eq!((text.as_str(), cut), ("\u{20ac}\u{20ac}\n[... 9 bytes cut ...]\n\u{20ac}\u{20ac}", 9));
}

#[test]
fn broken_bytes_become_marks() {
    assert_eq!(captured(&[b"a\xff\xf0b\0"]), ("a\u{fffd}\u{fffd}b\0".to_owned(), 0));
    let (text, cut) = captured(&[&[0x80; 40]]);
    assert!(text.contains('\u{fffd}') && cut == 27, "{text:?} {cut}");
}
