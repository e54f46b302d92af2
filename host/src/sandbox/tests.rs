//! What a guest may do to the host: nothing. Each test ends with a call that must succeed.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::testing::{Guest, World, constant, engine, object, policy_object};
use super::*;
use chiton_ir::ConditionStatus;
use std::collections::BTreeSet;
use std::time::Duration;

const DOCUMENT: &str = r#"{"targets":[]}"#;

fn load(guest: Guest) -> Component {
    load_with(guest, Limits::default())
}

fn load_with(guest: Guest, limits: Limits) -> Component {
    let terms = Terms {
        limits,
        ..Terms::default()
    };
    Component::load(engine(), &guest.build(), &terms).expect("a component that loads")
}

fn refusal(guest: Guest) -> String {
    refusal_of(&guest.build(), &Terms::default())
}

fn refusal_of(bytes: &[u8], terms: &Terms) -> String {
    let error = Component::load(engine(), bytes, terms).expect_err("a component that is refused");
    a_good_call_works();
    error.to_string()
}

fn call(component: &Component) -> Result<Outcome, Failure> {
    component.reconcile(&policy_object("p", "{}"), b"{}", World::default().shared())
}

fn failure(component: &Component) -> Failure {
    let failure = call(component).expect_err("a call that fails");
    a_good_call_works();
    failure
}

fn module_failure(component: &Component) -> String {
    match failure(component) {
        Failure::Module(sentence) => sentence,
        other => panic!("{other:?}"),
    }
}

fn a_good_call_works() {
    let good = load(Guest::policy("good", DOCUMENT));
    assert_eq!(
        call(&good),
        Ok(Outcome::Done {
            documents: vec![("policy".into(), DOCUMENT.into())],
            conditions: Vec::new(),
        })
    );
}

#[test]
fn a_guest_describes_itself() {
    let mut guest = Guest::policy("good", DOCUMENT);
    guest.reads = vec![GroupKind::new("", "ConfigMap")];
    guest.schema = r#"{"type":"object"}"#.into();
    let component = load(guest);
    let description = component.description();
    assert_eq!(description.name, "good");
    assert_eq!(description.version, "1.0.0");
    assert_eq!(description.role, Role::Policy);
    assert_eq!(description.reads, [GroupKind::new("", "ConfigMap")]);
    assert!(description.settings_schema.is_some());
    assert!(
        component
            .granted()
            .contains(&GroupKind::new("", "ConfigMap"))
    );
    assert_eq!(component.digest().len(), 64);
}

#[test]
fn not_ready_and_an_error_of_the_module_come_out() {
    let mut guest = Guest::new("waits", Role::Policy);
    let at = guest.not_ready("Secret default/x is not there yet");
    guest.body = constant(at);
    assert_eq!(
        call(&load(guest)),
        Ok(Outcome::NotReady(
            "Secret default/x is not there yet".into()
        ))
    );
    let mut guest = Guest::new("fails", Role::Policy);
    let at = guest.failure("I do not know how");
    guest.body = constant(at);
    assert_eq!(module_failure(&load(guest)), "I do not know how");
}

#[test]
fn traps_are_the_modules_fault_and_say_why() {
    let cases = [
        (
            "unreachable",
            "it trapped: it reached `unreachable`, as a panic does (in function ",
        ),
        (
            "(drop (i32.div_u (i32.const 1) (i32.const 0)))",
            "it trapped: integer divide by zero (in function ",
        ),
        (
            "(drop (i32.load (i32.const -8)))",
            "it trapped: out of bounds memory access (in function ",
        ),
    ];
    for (instructions, expected) in cases {
        let sentence = module_failure(&load(Guest::doing("traps", instructions)));
        assert!(sentence.starts_with(expected), "{sentence}");
    }
}

#[test]
fn endless_recursion_ends() {
    let mut guest = Guest::doing("deep", "call $deep");
    guest.extra = "(func $deep call $deep)".into();
    let sentence = module_failure(&load(guest));
    assert!(
        sentence.starts_with("it trapped: call stack exhausted (in "),
        "{sentence}"
    );
}

#[test]
fn an_endless_loop_ends_at_the_deadline() {
    let limits = Limits {
        time: Duration::from_millis(50),
        ..Limits::default()
    };
    let component = load_with(Guest::doing("loops", "(loop $again br $again)"), limits);
    match failure(&component) {
        Failure::Host(sentence) => assert!(
            sentence.starts_with("it was not done when its 50 ms had passed (in function "),
            "{sentence}"
        ),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_memory_bomb_meets_its_limit() {
    let limits = Limits {
        memory: 1 << 20,
        ..Limits::default()
    };
    let bomb = "(loop $again (drop (memory.grow (i32.const 1))) br $again)";
    let sentence = module_failure(&load_with(Guest::doing("eats", bomb), limits));
    assert_eq!(
        sentence,
        "it asked for more memory than its limit of 1048576 bytes"
    );
}

#[test]
fn a_huge_output_is_refused() {
    let limits = Limits {
        output: 1_000,
        ..Limits::default()
    };
    let document = format!("{{\"targets\":[],\"x\":\"{}\"}}", "y".repeat(1_000));
    let sentence = module_failure(&load_with(Guest::policy("huge", &document), limits));
    assert_eq!(
        sentence,
        "it returned 1027 bytes, more than its output limit of 1000"
    );
}

#[test]
fn an_output_that_names_more_than_may_cross_is_refused() {
    let mut guest = Guest::new("huge", Role::Policy);
    // Documents that all point to one piece of memory: 40 times 192 KiB.
    let body = "z".repeat(192 << 10);
    let documents = vec![("policy", body.as_str()); 1];
    let one = guest.done(&documents);
    let list = u32::from_le_bytes(guest_word(&guest, one + 8));
    let words: Vec<u8> = guest_bytes(&guest, list as usize, 16).repeat(40);
    let many = guest.put(&words);
    let result: Vec<u8> = [0, 0, many, 40, 0, 0]
        .iter()
        .flat_map(|word| u32::try_from(*word).unwrap().to_le_bytes())
        .collect();
    let at = guest.put(&result);
    guest.body = constant(at);
    assert_eq!(
        module_failure(&load(guest)),
        "it handed over more than its output limit of 1048576 bytes"
    );
}

fn guest_word(guest: &Guest, at: usize) -> [u8; 4] {
    guest_bytes(guest, at, 4).try_into().unwrap()
}

fn guest_bytes(guest: &Guest, at: usize, len: usize) -> Vec<u8> {
    guest.bytes()[at..at + len].to_vec()
}

#[test]
fn pointers_out_of_memory_are_refused() {
    let mut guest = Guest::new("lies", Role::Policy);
    guest.body = constant(0x7fff_fff0);
    let sentence = module_failure(&load(guest));
    assert!(
        sentence.starts_with("it broke the contract: "),
        "{sentence}"
    );
}

#[test]
fn documents_of_another_role_are_refused() {
    let mut guest = Guest::new("wrong", Role::Policy);
    let at = guest.done(&[("route", "{}")]);
    guest.body = constant(at);
    assert_eq!(
        module_failure(&load(guest)),
        "it returned a document \"route\"; a module of the role policy returns `policy`"
    );
    let mut guest = Guest::new("twice", Role::Policy);
    let at = guest.done(&[("policy", "{}"), ("policy", "{}")]);
    guest.body = constant(at);
    assert_eq!(
        module_failure(&load(guest)),
        "it returned the document `policy` more than once"
    );
}

#[test]
fn conditions_are_checked() {
    let good = Condition::fails("Accepted", "Invalid", "no");
    let ok = |conditions: Vec<Condition>| {
        answer::check(
            Outcome::Done {
                documents: Vec::new(),
                conditions,
            },
            Role::Policy,
            1 << 20,
        )
    };
    assert!(ok(vec![good.clone()]).is_ok());
    assert_eq!(good.status, ConditionStatus::False);
    for wrong in [
        vec![good.clone(), good.clone()],
        vec![Condition::holds("", "Accepted")],
        vec![Condition::holds("Accepted", "not a word")],
        vec![Condition::holds(&"A".repeat(317), "Accepted")],
        (0..1_025)
            .map(|n| Condition::holds(&format!("A{n}"), "Accepted"))
            .collect(),
    ] {
        assert!(matches!(ok(wrong), Err(Failure::Module(_))));
    }
    let long = Condition::fails("Accepted", "Invalid", "é".repeat(20_000));
    let Ok(Outcome::Done { conditions, .. }) = ok(vec![long]) else {
        panic!("a long message is cut, not refused");
    };
    assert_eq!(conditions[0].message.len(), 32_768);
}

fn reads(name: &str, granted: &[GroupKind], wanted: &ObjectRef) -> Component {
    let mut guest = Guest::new(name, Role::Policy);
    let get = guest.get(wanted);
    guest.body = format!("{get} {}", guest.body);
    guest.reads = granted.to_vec();
    load(guest)
}

#[test]
fn reads_are_recorded_and_given() {
    let wanted = ObjectRef::new("", "ConfigMap", "default", "c");
    let component = reads("reads", &[wanted.group_kind()], &wanted);
    let world = World {
        objects: vec![object("", "ConfigMap", "c", r#"{"data":{}}"#)],
        ..World::default()
    }
    .shared();
    component
        .reconcile(&policy_object("p", "{}"), b"{}", world.clone())
        .expect("a good call");
    assert_eq!(world.lock().unwrap().asked, ["ConfigMap default/c"]);
}

#[test]
fn what_cannot_be_read_has_an_identity() {
    // Traps unless the answer is `some` of more than two bytes.
    let wanted = ObjectRef::new("", "ConfigMap", "default", "c");
    let mut guest = Guest::new("asks", Role::Policy);
    let get = guest.get(&wanted);
    let answer = guest.answer();
    guest.body = format!(
        "{get} (if (i32.lt_u (i32.load (i32.const {})) (i32.const 3)) (then unreachable)) {}",
        answer + 8,
        guest.body
    );
    guest.reads = vec![wanted.group_kind()];
    let component = load(guest);
    let broken = Object {
        problem: Some("over 1 MiB".into()),
        ..Object::clone(&object("", "ConfigMap", "c", ""))
    };
    let world = World {
        objects: vec![Arc::new(broken)],
        ..World::default()
    };
    component
        .reconcile(&policy_object("p", "{}"), b"{}", world.shared())
        .expect("a good call");
    let absent = component.reconcile(&policy_object("p", "{}"), b"{}", World::default().shared());
    assert!(matches!(absent, Err(Failure::Module(_))));
}

#[test]
fn what_was_not_granted_is_not_read() {
    for kind in ["Secret", "ConfigMap"] {
        let wanted = ObjectRef::new("", kind, "default", "c");
        let component = reads("nosy", &[], &wanted);
        let world = World::default().shared();
        let failure = component.reconcile(&policy_object("p", "{}"), b"{}", world.clone());
        assert_eq!(
            failure,
            Err(Failure::Module(format!(
                "it read {kind}, which it was not granted: name the kind in `reads` of the module and of its manifest"
            )))
        );
        assert!(world.lock().unwrap().asked.is_empty());
    }
    a_good_call_works();
}

#[test]
fn a_kind_that_is_not_synced_ends_the_call_as_it_is() {
    let wanted = ObjectRef::new("", "ConfigMap", "default", "c");
    let component = reads("early", &[wanted.group_kind()], &wanted);
    let world = World {
        unsynced: Some(wanted.group_kind()),
        ..World::default()
    };
    assert_eq!(
        component.reconcile(&policy_object("p", "{}"), b"{}", world.shared()),
        Err(Failure::NotSynced(wanted.group_kind()))
    );
    a_good_call_works();
}

#[test]
fn reading_too_much_is_refused() {
    let wanted = ObjectRef::new("", "ConfigMap", "default", "c");
    let mut guest = Guest::new("greedy", Role::Policy);
    let get = guest.get(&wanted);
    guest.body = format!("(loop $again {get} br $again) unreachable");
    guest.reads = vec![wanted.group_kind()];
    let limits = Limits {
        reads: 10_000,
        ..Limits::default()
    };
    let component = load_with(guest, limits);
    let world = World {
        objects: vec![object("", "ConfigMap", "c", &"x".repeat(3_000))],
        ..World::default()
    }
    .shared();
    assert_eq!(
        component.reconcile(&policy_object("p", "{}"), b"{}", world.clone()),
        Err(Failure::Module(
            "it read more than its limit of 10000 bytes a call".into()
        ))
    );
    assert_eq!(world.lock().unwrap().asked.len(), 4);
    a_good_call_works();
}

#[test]
fn a_flood_of_log_messages_is_cut() {
    let mut guest = Guest::new("chatty", Role::Policy);
    let log = guest.log("hello\nworld");
    guest.body = format!("{} {}", log.repeat(70), guest.body);
    let component = load(guest);
    let lines = logged(|| {
        call(&component).expect("a good call");
    });
    assert_eq!(lines.len(), 65);
    assert!(lines[0].contains("hello world"), "{}", lines[0]);
    assert!(lines[0].contains("chatty"), "{}", lines[0]);
    assert!(lines[0].contains("Policy default/p"), "{}", lines[0]);
    assert!(lines[64].contains("dropped=6"), "{}", lines[64]);
    a_good_call_works();
}

/// What is logged meanwhile, by line.
fn logged(work: impl FnOnce()) -> Vec<String> {
    let buffer = Arc::new(Mutex::new(Vec::new()));
    let writer = buffer.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || Buffer(writer.clone()))
        .finish();
    tracing::subscriber::with_default(subscriber, work);
    let bytes = buffer.lock().unwrap().clone();
    String::from_utf8(bytes)
        .unwrap()
        .lines()
        .map(ToOwned::to_owned)
        .collect()
}

struct Buffer(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn instances_are_fresh() {
    // Traps if the guest's memory remembers an earlier call.
    let body = "(if (i32.load (i32.const 64)) (then unreachable)) (i32.store (i32.const 64) (i32.const 1))";
    let component = load(Guest::doing("forgets", body));
    for _ in 0..20 {
        call(&component).expect("a fresh memory");
    }
}

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
        super::testing::CONTRACT.replace(
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
    guest.contract = super::testing::CONTRACT.replace("@0.1.0", "@0.2.0");
    guest.contract_version = "0.2.0".into();
    assert_eq!(
        refusal(guest),
        "the component was built for chiton:reconcile@0.2.0; this host serves chiton:reconcile@0.1.0: build it again with the SDK of this version"
    );
}

#[test]
fn a_component_without_a_reconciler_is_refused() {
    let mut guest = Guest::policy("nothing", DOCUMENT);
    guest.contract = super::testing::CONTRACT.replace("    export reconciler;\n", "");
    guest.exports_reconciler = false;
    assert_eq!(
        refusal(guest),
        "the component does not export chiton:reconcile/reconciler@0.1.0"
    );
}

#[test]
fn another_shape_under_the_same_name_is_refused() {
    let mut guest = Guest::new("shape", Role::Policy);
    guest.contract = super::testing::CONTRACT.replace(
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
    guest.contract =
        super::testing::CONTRACT.replace("world policy {", "world policy { import outputs;");
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

/// `cargo test -p chiton --lib sandbox::tests::timing -- --ignored --nocapture`
#[test]
#[ignore = "prints times; asserts nothing"]
fn timing() {
    let sum = "(local $i i32) (local $s i32)
        (loop $again
          (local.set $s (i32.add (i32.mul (local.get $s) (i32.const 31)) (i32.load8_u (i32.and (local.get $i) (i32.const 65535)))))
          (local.set $i (i32.add (local.get $i) (i32.const 1)))
          (br_if $again (i32.lt_u (local.get $i) (i32.const 10000000))))
        (i32.store (i32.const 64) (local.get $s))";
    for (name, guest, calls) in [
        (
            "fresh instance, nothing done",
            Guest::policy("good", DOCUMENT),
            20_000,
        ),
        ("ten million turns of a loop", Guest::doing("sums", sum), 10),
    ] {
        let component = load(guest);
        let start = std::time::Instant::now();
        for _ in 0..calls {
            call(&component).expect("a good call");
        }
        println!("{name}: {:?} a call", start.elapsed() / calls);
    }
}
