//! The reconcilers that come with the host.

use super::*;

#[test]
fn built_in_reconcilers_load() {
    let registry = Registry::offline(&Builtins::default()).expect("they load");
    let live = registry.live();
    let kind = |group, kind| GroupKind::new(group, kind);
    for (kind, name) in [
        (kind("gateway.networking.k8s.io", "Gateway"), "gateway"),
        (kind("gateway.networking.k8s.io", "HTTPRoute"), "route"),
        (kind("chiton.dev", "API"), "api"),
    ] {
        assert_eq!(live.for_kind(&kind).expect("a module").name, name);
    }
    for name in ["headers", "cors", "rate-limit", "api-key"] {
        assert!(matches!(live.policy(name), PolicyModule::Live(_)), "{name}");
    }
    let PolicyModule::Live(keys) = live.policy("api-key") else {
        panic!("it is live");
    };
    assert_eq!(keys.failure_policy, FailurePolicy::FailClosed);
}

#[test]
fn built_in_reconcilers_can_be_chosen_and_replaced() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("hello.wasm"), version(201)).unwrap();
    std::fs::write(dir.path().join("README"), "no module").unwrap();
    let builtins = |enabled: Option<&str>| Builtins {
        enabled: enabled.map(|name| vec![name.to_owned()]),
        dir: Some(dir.path().to_owned()),
    };
    let registry = Registry::offline(&builtins(None)).unwrap();
    assert_eq!(registry.list().len(), 1);
    assert!(registry.list()[0].source.ends_with("hello.wasm"));
    assert_eq!(
        Registry::offline(&builtins(Some("bye")))
            .unwrap_err()
            .to_string(),
        "there is no built-in reconciler `bye`; there are: hello"
    );
    std::fs::write(dir.path().join("hello.wasm"), b"").unwrap();
    assert_eq!(
        Registry::offline(&builtins(None)).unwrap_err().to_string(),
        "the reconciler `hello` is refused: the component is empty (0 bytes)"
    );
}
