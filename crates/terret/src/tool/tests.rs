#![allow(clippy::unwrap_used)]
// Without the built-in tools half of it has no test.
#![cfg_attr(not(feature = "tools"), allow(dead_code, unused_imports))]

pub(in crate::tool) mod support;

use super::*;

#[cfg(feature = "tools")]
#[test]
fn the_builtin_tools_come_in_a_fixed_order_with_the_same_bytes() {
    let specs: Vec<_> = builtin().iter().map(|tool| tool.spec()).collect();
    let names: Vec<_> = specs.iter().map(|spec| spec.name.as_str()).collect();
    assert_eq!(names, ["shell", "read", "write", "edit", "glob", "grep"]);
    assert_eq!(specs, builtin().iter().map(|tool| tool.spec()).collect::<Vec<_>>());
    for spec in &specs {
        assert!(guidance().contains(&spec.name), "{}", spec.name);
        assert!(spec.parameters.get().contains(r#""additionalProperties":false"#), "{}", spec.name);
        assert!(!spec.parameters.get().contains("$schema"), "{}", spec.name);
    }
}

#[cfg(feature = "tools")]
#[test]
fn who_only_looks_may_run_beside_others() {
    let arguments = [
        r#"{"command":"x"}"#,
        r#"{"path":"x"}"#,
        r#"{"path":"x","content":""}"#,
        r#"{"path":"x","old":"a","new":"b"}"#,
        r#"{"pattern":"x"}"#,
        r#"{"pattern":"x"}"#,
    ];
    let looks = [false, true, false, false, true, true];
    for ((tool, arguments), looks) in builtin().iter().zip(arguments).zip(looks) {
        let name = tool.spec().name;
        assert_eq!(tool.effect() == EffectClass::Read, looks, "{name}");
        assert_eq!(tool.mode(arguments) == CallMode::Parallel, looks, "{name}");
        assert_eq!(tool.mode("{}"), CallMode::Exclusive, "{name}");
    }
}
