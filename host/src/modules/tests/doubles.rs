//! Two `ConfigMap`s that offer a module under one name.

use super::*;

impl Host {
    /// State and reason of what a `ConfigMap` offers, but for retired versions.
    fn said(&self, config_map: &str) -> (ModuleState, String) {
        let source = format!("ConfigMap default/{config_map}");
        let info = self
            .registry
            .list()
            .into_iter()
            .find(|it| it.source == source && it.state != ModuleState::Retired)
            .expect("an offer");
        (info.state, info.reason)
    }

    fn owner(&self) -> Option<String> {
        self.info(ModuleState::Live).map(|it| it.source)
    }
}

fn owned_by(name: &str) -> (ModuleState, String) {
    let reason = format!(
        "the module hello is that of ConfigMap default/{name}, which is live: rename one, or remove \
         one"
    );
    (ModuleState::Refused, reason)
}

#[test]
fn a_name_belongs_to_the_one_whose_version_is_live() {
    let mut host = Host::new();
    host.put(policy("p"));
    host.put(offer("b", &manifest("2"), &version(202)));
    host.put(offer("a", &manifest("1"), &version(201)));
    assert_eq!(host.status(), Some(202), "a is first by name, and late");
    assert_eq!(host.owner().as_deref(), Some("ConfigMap default/b"));
    assert_eq!(host.said("a"), owned_by("b"));
    // What its owner says counts, and nobody else.
    host.put(offer("a", &manifest("1.1"), &version(211)));
    assert_eq!(host.status(), Some(202));
    host.put(offer("b", &manifest("2.1"), &version(212)));
    assert_eq!(host.status(), Some(212));
    host.put(offer("b", &manifest("2.2"), b"rubbish"));
    assert_eq!(host.status(), Some(212));
    assert_eq!(host.said("a"), owned_by("b"));
    // Once it is gone the next one has its turn, also if it does worse.
    host.delete("b");
    assert_eq!(host.status(), Some(211));
    assert_eq!(host.owner().as_deref(), Some("ConfigMap default/a"));
    host.put(offer("b", &manifest("2"), &version(202)));
    assert_eq!(host.said("b"), owned_by("a"));
}

#[test]
fn the_next_one_is_not_tried_beside_one_that_is_gone() {
    let mut host = Host::new();
    host.put(policy("p"));
    host.put(offer("b", &manifest("2"), &version(202)));
    let trapping = Guest::doing("hello", "unreachable").build();
    host.put(offer("a", &manifest("1"), &trapping));
    host.delete("b");
    assert_eq!(host.owner().as_deref(), Some("ConfigMap default/a"));
    host.put(offer("c", &manifest("3"), b"rubbish"));
    host.delete("a");
    assert_eq!(host.owner(), None, "what is left cannot be used");
    assert_eq!(host.said("c").0, ModuleState::Refused);
    assert!(matches!(
        host.registry.live().policy("hello"),
        PolicyModule::Refused { .. }
    ));
}

#[test]
fn one_that_cannot_be_used_blocks_nobody() {
    let mut host = Host::new();
    host.put(policy("p"));
    host.put(offer("a", &manifest("1"), b"rubbish"));
    host.put(offer("b", &manifest("2"), b"rubbish too"));
    assert_eq!(host.status(), None);
    host.put(offer("c", &manifest("3"), &version(203)));
    assert_eq!(host.status(), Some(203));
    assert_eq!(host.owner().as_deref(), Some("ConfigMap default/c"));
    for name in ["a", "b"] {
        let (state, reason) = host.said(name);
        assert_eq!(state, ModuleState::Refused);
        assert!(reason.starts_with("this is not a WebAssembly"), "{reason}");
    }
    // Late usefulness is no claim.
    host.put(offer("a", &manifest("1"), &version(201)));
    assert_eq!(host.status(), Some(203));
    assert_eq!(host.said("a"), owned_by("c"));
    host.delete("c");
    assert_eq!(host.status(), Some(201));
}

#[test]
fn the_owner_is_remembered_over_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let mut host = Host::on_disk(dir.path());
    host.put(policy("p"));
    host.put(offer("a", &manifest("1"), b"rubbish"));
    host.put(offer("b", &manifest("2"), &version(202)));
    host.put(offer("a", &manifest("1"), &version(201)));
    assert_eq!(host.status(), Some(202));
    drop(host);

    let mut host = Host::on_disk(dir.path());
    host.store.commit(&[
        Change::Put(offer("a", &manifest("1"), &version(201))),
        Change::Put(offer("b", &manifest("2.1"), b"rubbish")),
    ]);
    host.put(policy("p"));
    assert_eq!(host.status(), Some(202), "its bytes are saved");
    assert_eq!(host.owner().as_deref(), Some("ConfigMap default/b"));
    assert_eq!(host.said("a"), owned_by("b"));
    drop(host);

    // Gone while nobody watched.
    let mut host = Host::on_disk(dir.path());
    host.store
        .commit(&[Change::Put(offer("a", &manifest("1"), &version(201)))]);
    host.put(policy("p"));
    assert_eq!(host.status(), Some(201));
    assert_eq!(host.owner().as_deref(), Some("ConfigMap default/a"));
}

#[test]
fn while_nothing_is_live_the_strictest_failure_policy_holds() {
    let mut host = Host::new();
    host.put(policy("p"));
    let closed = format!("{}failurePolicy: fail-closed\n", manifest("1"));
    for (a, b) in [(&closed, &manifest("1")), (&manifest("1"), &closed)] {
        host.put(offer("a", a, b"rubbish"));
        host.put(offer("b", b, b"rubbish"));
        let PolicyModule::Refused { failure_policy, .. } = host.registry.live().policy("hello")
        else {
            panic!("it is refused");
        };
        assert_eq!(failure_policy, FailurePolicy::FailClosed);
    }
}

/// A module that replaces nothing goes live also if it fails on objects: they have no result that
/// could be lost. But everybody can see it.
#[test]
fn a_new_module_that_fails_says_so() {
    let mut host = Host::new();
    host.put(policy("p"));
    let trapping = Guest::doing("hello", "unreachable").build();
    host.put(offer("m", &manifest("1"), &trapping));
    let live = host.info(ModuleState::Live).unwrap();
    assert_eq!((live.reconciles, live.failures), (1, 1));
    let world = host.engine.world().load_full();
    let key = Key::new("chiton.dev", "Policy", "default", "p");
    let result = world.outputs.get(&key).unwrap();
    let condition = &result.conditions[0];
    assert_eq!(
        (&*condition.r#type, &*condition.reason),
        ("Accepted", "ModuleFailed")
    );
    assert!(
        condition.message.contains("it trapped"),
        "{}",
        condition.message
    );
}
