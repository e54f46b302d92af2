//! What is refused before it is ever called with an object.

use super::*;

#[test]
fn what_is_no_component_is_refused() {
    let good = Guest::policy("good", DOCUMENT).build();
    let terms = Terms::default();
    assert_eq!(refusal_of(b"", &terms), "the component is empty (0 bytes)");
    assert_eq!(
        refusal_of(b"#!/bin/sh", &terms),
        "this is not a WebAssembly component: it does not begin with the magic number of one"
    );
    assert_eq!(
        refusal_of(&good[..6], &terms),
        "the component is truncated or damaged: it ends within its header"
    );
    let cut = refusal_of(&good[..good.len() / 2], &terms);
    assert!(
        cut.starts_with("the component is truncated or damaged: "),
        "{cut}"
    );
    assert_eq!(
        refusal_of(&Guest::policy("core", DOCUMENT).core(), &terms),
        "this is a core module; wrap it with `xtask componentize`"
    );
    let mut large = good;
    large.resize(MAX_COMPONENT + 1, 0);
    assert_eq!(
        refusal_of(&large, &terms),
        "the component has 16777217 bytes; at most 16777216 are allowed"
    );
}

#[test]
fn unknown_imports_are_named() {
    let mut guest = Guest::doing("clock", "call $now drop");
    guest.contract = format!(
        "{}\npackage wasi:clocks@0.2.0 {{ interface wall-clock {{ now: func() -> u64; }} }}",
        crate::sandbox::testing::CONTRACT.replace(
            "world policy {",
            "world policy { import wasi:clocks/wall-clock@0.2.0;"
        )
    );
    guest.extra =
        "(import \"wasi:clocks/wall-clock@0.2.0\" \"now\" (func $now (result i64)))".into();
    assert_eq!(
        refusal(guest),
        "the component imports wasi:clocks/wall-clock@0.2.0, which no reconciler may: a reconciler has no clock, file, network or environment of its own"
    );
}

#[test]
fn another_version_of_the_contract_is_named() {
    let mut guest = Guest::policy("new", DOCUMENT);
    guest.contract = crate::sandbox::testing::CONTRACT.replace("@0.1.0", "@0.2.0");
    guest.contract_version = "0.2.0".into();
    assert_eq!(
        refusal(guest),
        "the component was built for chiton:reconcile@0.2.0; this host serves chiton:reconcile@0.1.0: build it again with the SDK of this version"
    );
}

#[test]
fn a_component_without_a_reconciler_is_refused() {
    let mut guest = Guest::policy("nothing", DOCUMENT);
    guest.contract = crate::sandbox::testing::CONTRACT.replace("    export reconciler;\n", "");
    guest.exports_reconciler = false;
    assert_eq!(
        refusal(guest),
        "the component does not export chiton:reconcile/reconciler@0.1.0"
    );
}

#[test]
fn another_shape_under_the_same_name_is_refused() {
    let mut guest = Guest::new("shape", Role::Policy);
    guest.contract = crate::sandbox::testing::CONTRACT.replace(
        "log: func(level: level, message: string);",
        "log: func(message: string);",
    );
    guest.import("logging", "log", 2);
    guest.body = format!("(call $log (i32.const 0) (i32.const 0)) {}", guest.body);
    let sentence = refusal(guest);
    assert!(
        sentence.starts_with("the component does not fit the contract: "),
        "{sentence}"
    );
}

#[test]
fn imports_depend_on_the_role() {
    let mut guest = Guest::new("climbs", Role::Policy);
    guest.contract = crate::sandbox::testing::CONTRACT
        .replace("world policy {", "world policy { import outputs;");
    guest.import("outputs", "output", 11);
    guest.body = format!(
        "(call $output {}) {}",
        "(i32.const 0) ".repeat(11),
        guest.body
    );
    assert_eq!(
        refusal(guest),
        "the component imports chiton:reconcile/outputs@0.1.0, which a module of the role policy may not"
    );
}

#[test]
fn describing_has_limits_too() {
    let mut guest = Guest::policy("slow", DOCUMENT);
    guest.before_describe = "(loop $again br $again)".into();
    let terms = Terms {
        limits: Limits {
            time: Duration::from_millis(20),
            ..Limits::default()
        },
        ..Terms::default()
    };
    let sentence = refusal_of(&guest.build(), &terms);
    assert!(
        sentence.starts_with(
            "the component could not describe itself: it was not done when its 20 ms had passed"
        ),
        "{sentence}"
    );
    let mut guest = Guest::policy("asks", DOCUMENT);
    guest.before_describe = guest.get(&ObjectRef::new("", "Secret", "a", "b"));
    assert_eq!(
        refusal(guest),
        "the component could not describe itself: it read Secret, which it was not granted: name the kind in `reads` of the module and of its manifest"
    );
}

#[test]
fn descriptions_are_checked() {
    let mut guest = Guest::policy("Not a name", DOCUMENT);
    assert_eq!(
        refusal(guest),
        "the component describes itself wrongly: its name \"Not a name\" is not a DNS label (lower-case letters, digits and `-`, at most 63)"
    );
    guest = Guest::policy("schema", DOCUMENT);
    guest.schema = "{".into();
    assert!(refusal(guest).contains("its settings-schema is not JSON: "));
    guest = Guest::policy("schema", DOCUMENT);
    guest.schema = r#"{"type":"nonsense"}"#.into();
    assert!(refusal(guest).contains("its settings-schema is not a JSON schema: "));
}

#[test]
fn the_terms_must_be_met() {
    let mut guest = Guest::policy("one", DOCUMENT);
    guest.reads = vec![GroupKind::new("", "ConfigMap")];
    let bytes = guest.build();
    let terms = |change: &dyn Fn(&mut Terms)| {
        let mut terms = Terms::default();
        change(&mut terms);
        terms
    };
    assert_eq!(
        refusal_of(&bytes, &terms(&|terms| terms.name = Some("two".into()))),
        "the component calls itself `one`, its manifest `two`"
    );
    assert_eq!(
        refusal_of(&bytes, &terms(&|terms| terms.role = Some(Role::Route))),
        "the component has the role policy, not route"
    );
    assert_eq!(
        refusal_of(
            &bytes,
            &terms(&|terms| terms.granted = Some(BTreeSet::new()))
        ),
        "the component asks to read ConfigMap, which its manifest does not grant: name the kind under `reads`"
    );
    let mut guest = Guest::policy("spy", DOCUMENT);
    guest.reads = vec![GroupKind::new("", "Secret")];
    assert_eq!(
        refusal(guest),
        "the component asks to read Secret, which its manifest does not grant: name the kind under `reads`"
    );
}

#[test]
fn a_cache_that_others_may_write_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let engine = Engine::new(Some(&cache)).expect("a new folder");
    let mode = std::fs::metadata(&cache).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let bytes = Guest::policy("good", DOCUMENT).build();
    for _ in 0..2 {
        Component::load(&engine, &bytes, &Terms::default()).expect("a component");
    }
    std::fs::set_permissions(&cache, std::fs::Permissions::from_mode(0o777)).unwrap();
    let error = Engine::new(Some(&cache)).expect_err("an open folder");
    assert!(error.to_string().contains("others may write there"));
}
