#![allow(clippy::unwrap_used)]

use super::*;

fn spliced(text: &str, old: &str, new: &str) -> String {
    splice(text, old, new, false).unwrap().text
}

#[test]
fn only_the_span_changes_whatever_the_line_ends() {
    let cases = [
        (
            "a = 1\r\nb = 2\r\nc = 3\r\n",
            "a = 1\nb = 2",
            "a = 1\nb = 22\nb2",
            "a = 1\r\nb = 22\r\nb2\r\nc = 3\r\n",
        ),
        ("alpha\nbeta\r\ngamma\r\n", "alpha", "ALPHA", "ALPHA\nbeta\r\ngamma\r\n"),
        // Untouched line ends inside the span, before and after what changes, and in between.
        ("alpha\nbeta\r\ngamma\r\n", "alpha\nbeta\n", "alpha\nBETA\n", "alpha\nBETA\r\ngamma\r\n"),
        ("alpha\nbeta\r\ngamma\r\n", "alpha\nbeta\ngamma", "ALPHA\nbeta\nGAMMA", "ALPHA\nbeta\r\nGAMMA\r\n"),
        // A new line takes the main kind.
        ("alpha\nbeta\r\ngamma\r\n", "alpha", "alpha\nnew", "alpha\r\nnew\nbeta\r\ngamma\r\n"),
        ("alpha\nbeta\ngamma\r\n", "gamma", "gamma\nnew", "alpha\nbeta\ngamma\nnew\r\n"),
        ("start\n10%\r50%\r100%\ndone\n", "done", "finished", "start\n10%\r50%\r100%\nfinished\n"),
        ("start\n10%\r50%\r100%\ndone\n", "10%\r50%", "60%", "start\n60%\r100%\ndone\n"),
        ("\u{feff}x = 1\r\n", "x = 1", "x = 2", "\u{feff}x = 2\r\n"),
        ("k\r\nv", "v", "w", "k\r\nw"),
        // CRLF in the arguments, on either kind of file.
        ("a\r\nb\r\n", "a\r\nb", "a\r\nc", "a\r\nc\r\n"),
        ("a\nb\n", "a\r\nb", "x\r\ny", "x\ny\n"),
        // Starting at a line end: the whole CRLF goes.
        ("a\r\nb\r\nc", "\nb", "", "a\r\nc"),
        ("a\r\nb\r\n", "b\n", "", "a\r\n"),
        ("\u{e9}\u{e8}", "\u{e9}", "\u{ea}", "\u{ea}\u{e8}"),
    ];
    for (text, old, new, expected) in cases {
        assert_eq!(spliced(text, old, new), expected, "{old:?} -> {new:?} in {text:?}");
    }
}

#[test]
fn all_of_them() {
    let done = splice("x\r\ny\r\nx\r\n", "x\n", "z\n\n", true).unwrap();
    assert_eq!(
        (done.text.as_str(), done.count, done.line, done.crlf),
        ("z\r\n\r\ny\r\nz\r\n\r\n", 2, 1, true)
    );
    assert_eq!(splice("aaaa", "aa", "b", true).unwrap().text, "bb");
}

#[test]
fn several_are_listed_also_when_they_overlap() {
    assert_eq!(splice("a\nb\na\n", "a", "c", false), Err(Missing::Several(vec![1, 3])));
    assert_eq!(splice("aaa", "aa", "c", false), Err(Missing::Several(vec![1, 1])));
}

#[test]
fn none_comes_with_a_hint() {
    let file = "fn main() {\n\tlet x = 1;\n\tprint(x);\n}\n";
    let said = |old: &str| match splice(file, old, "new", false) {
        Err(Missing::None(hint)) => hint,
        other => panic!("{other:?}"),
    };
    assert_eq!(said("    let x = 1;"), "Only blanks differ: line 2 of the file is \"\\tlet x = 1;\".");
    assert_eq!(
        said("fn main() {\n\tlet x = 2;"),
        "Its first line is line 1 of the file, but line 2 is \"\\tlet x = 1;\"."
    );
    assert_eq!(
        said("\tprint(x);\n}\nmore"),
        "Its first line is line 3 of the file, but line 5 is the end of the file."
    );
    assert!(said("nothing like it").starts_with("No line like its first one"));
    assert!(said("  \n  \n ").starts_with("Read the file again"));
}
