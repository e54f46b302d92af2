//! Swaps that are undone.

use super::*;

#[test]
fn a_swap_is_undone_once_and_the_version_is_refused_also_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let mut host = Host::on_disk(dir.path());
    host.put(policy("p"));
    host.put(offer("m", &manifest("1.0.0"), &version(201)));
    assert!(
        !host.registry.roll_back("hello", "no"),
        "it replaced nothing"
    );
    host.put(offer("m", &manifest("2.0.0"), &version(202)));
    assert!(!host.registry.roll_back("other", "no"));
    assert!(host.registry.roll_back("hello", "proxies say no"));
    assert!(!host.registry.roll_back("hello", "proxies say no"), "once");
    host.settle();
    assert_eq!(host.status(), Some(201));
    let reason = "it was live and was taken back: proxies say no";
    assert_eq!(host.refusal(), reason);
    assert!(host.info(ModuleState::Retired).is_none());
    drop(host);

    let mut host = Host::on_disk(dir.path());
    host.store
        .commit(&[Change::Put(offer("m", &manifest("2.0.0"), &version(202)))]);
    host.put(policy("p"));
    assert_eq!(host.status(), Some(201));
    assert_eq!(host.refusal(), reason);
    host.put(offer("m", &manifest("3.0.0"), &version(203)));
    assert_eq!(host.status(), Some(203));
}

#[test]
fn a_built_in_reconciler_takes_over_again_and_goes_on_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let host = || {
        let builtin = Guest::policy("hello", &responding(200)).build();
        Host::with(Registry::bare(Some(dir.path()), Some(("hello", builtin))))
    };
    let is_built_in = |host: &Host| {
        assert_eq!(host.status(), Some(200));
        assert_eq!(host.info(ModuleState::Live).unwrap().source, "built-in");
        assert_eq!(host.refusal(), "it was live and was taken back: no");
    };
    let mut first = host();
    first.put(policy("p"));
    first.put(offer("m", &manifest("9"), &version(209)));
    assert_eq!(first.status(), Some(209));
    assert!(first.registry.roll_back("hello", "no"));
    first.settle();
    is_built_in(&first);
    drop(first);

    let mut next = host();
    next.store
        .commit(&[Change::Put(offer("m", &manifest("9"), &version(209)))]);
    next.put(policy("p"));
    is_built_in(&next);
    next.put(offer("m", &manifest("10"), &version(210)));
    assert_eq!(next.status(), Some(210));
}
