#![allow(clippy::unwrap_used)]

use super::*;

fn check(schema: &str) -> Result<Check, String> {
    Check::new(&Raw::parse(schema).unwrap())
}

#[test]
fn what_is_no_schema_is_refused_with_its_place() {
    for (schema, says) in [
        (r#"{"properties":{"a":{"type":"strin"}}}"#, "at `/properties/a/type`"),
        (r#"{"items":{"pattern":"(a"}}"#, "at `/items/pattern`"),
        (r##"{"$ref":"#/$defs/none"}"##, "/$defs/none"),
        ("[1]", "[1]"),
        (r#"{"$schema":"https://example.com/my-own"}"#, "https://example.com/my-own"),
    ] {
        let refused = check(schema).err().unwrap();
        assert!(refused.contains(says), "{refused}");
    }
    let large = format!(r#"{{"description":"{}"}}"#, "x".repeat(MAX_OUTPUT_SCHEMA_BYTES));
    assert!(check(&large).err().unwrap().contains("too large"));
}

#[test]
fn no_schema_is_looked_for_elsewhere() {
    for uri in ["https://example.com/x.json", "file:///etc/passwd", "x.json#/a"] {
        let refused = check(&format!(r#"{{"properties":{{"a":{{"$ref":"{uri}"}}}}}}"#)).err().unwrap();
        assert!(refused.contains("its own parts only"), "{refused}");
        assert!(refused.contains(uri), "{refused}");
    }
    // A property, or a value, that is only called like it refers to nothing.
    check(r#"{"properties":{"$ref":{"const":{"$ref":"https://example.com"}}}}"#).unwrap();
    check(r#"{"$id":"https://example.com/a","$defs":{"b":{"$id":"b"}},"$ref":"b"}"#).unwrap();
    check(r#"{"$schema":"http://json-schema.org/draft-07/schema#"}"#).unwrap();
}

#[test]
fn an_answer_is_json_with_nothing_around_it_but_one_fence() {
    let check = check(r#"{"type":"integer"}"#).unwrap();
    for answer in ["1", " 1\n", "```json\n1\n```", "```\n1\n```", "\n```json\n 1 ```\n"] {
        assert_eq!(check.read(answer).unwrap(), "1", "{answer}");
    }
    for answer in ["Here: 1", "1 2", "```json\n1\n```\nThere.", "```\n```json\n1\n```\n```", "```1```", "{1"]
    {
        assert!(check.read(answer).unwrap_err()[0].contains("not JSON"), "{answer}");
    }
    assert_eq!(check.read("```json\n```").unwrap_err(), ["there is no text"]);
}

#[test]
fn what_is_wrong_is_listed_by_its_place_and_bounded() {
    let schema = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["k"],"additionalProperties":{"type":"null"}}"#;
    let wrong = check(schema).unwrap().read(r#"{"n":"secret"}"#).unwrap_err();
    assert_eq!(wrong.len(), 2);
    assert!(wrong.iter().any(|l| l == "at `/n`: value is not of type \"integer\""), "{wrong:?}");
    assert!(wrong.iter().any(|l| l.starts_with("at the top") && l.contains("\"k\"")), "{wrong:?}");
    let list = check(&format!(r#"{{"items":{{"const":"{}"}}}}"#, "ü".repeat(1000))).unwrap();
    let wrong = list.read(&format!("[{}0]", "0,".repeat(99))).unwrap_err();
    assert_eq!(wrong.len(), MAX_VIOLATIONS + 1);
    assert_eq!(wrong.last().unwrap(), "and 80 more");
    assert!(wrong.iter().all(|line| line.len() <= MAX_VIOLATION_BYTES + "…".len()));
}

#[test]
fn a_schema_that_refers_to_itself_ends() {
    for schema in [
        r##"{"$ref":"#"}"##,
        r##"{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}"##,
        r##"{"allOf":[{"$ref":"#"}]}"##,
    ] {
        check(schema).unwrap().read("1").unwrap();
    }
    let list =
        r##"{"type":["object","null"],"properties":{"next":{"$ref":"#"}},"additionalProperties":false}"##;
    let nested = |depth| format!("{}null{}", r#"{"next":"#.repeat(depth), "}".repeat(depth));
    check(list).unwrap().read(&nested(100)).unwrap();
    assert!(check(list).unwrap().read(&nested(10_000)).unwrap_err()[0].contains("recursion limit"));
}

#[test]
fn a_schema_whose_references_multiply_is_refused() {
    let def = |n: u32| {
        format!(r##""d{n}":{{"allOf":[{{"$ref":"#/$defs/d{m}"}},{{"$ref":"#/$defs/d{m}"}}]}},"##, m = n + 1)
    };
    let schema = |depth: u32| {
        let defs: String = (0..depth).map(def).collect();
        check(&format!(r##"{{"$defs":{{{defs}"d{depth}":{{"type":"string"}}}},"$ref":"#/$defs/d0"}}"##))
    };
    assert_eq!(schema(8).unwrap().read("1").unwrap_err().len(), MAX_VIOLATIONS + 1);
    assert!(schema(40).err().unwrap().contains("multiply"));
}

#[test]
fn a_long_chain_of_references_is_followed_or_refused() {
    let chain = |length: usize| {
        let def = |n: usize| format!(r##""d{n}":{{"$ref":"#/$defs/d{}"}},"##, n + 1);
        let defs: String = (0..length).map(def).collect();
        check(&format!(r##"{{"$defs":{{{defs}"d{length}":{{"type":"string"}}}},"$ref":"#/$defs/d0"}}"##))
    };
    assert_eq!(chain(400).unwrap().read("1").unwrap_err().len(), 1);
    assert!(chain(4_000).err().unwrap().contains("multiply"));
}
