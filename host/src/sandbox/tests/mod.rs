//! What a guest may do to the host: nothing. Each test ends with a call that must succeed.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod door;

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
