//! What outlives a restart, and what waits for the first epoch.

use super::*;
use std::os::unix::fs::PermissionsExt;

#[test]
fn what_was_live_outlives_a_restart_and_a_refused_version() {
    let dir = tempfile::tempdir().unwrap();
    let mut host = Host::on_disk(dir.path());
    host.put(policy("p"));
    host.put(offer("m", &manifest("1.0.0"), &version(201)));
    host.put(offer("m", &manifest("2.0.0"), b"rubbish"));
    assert_eq!(host.status(), Some(201));
    drop(host);

    let mut host = Host::on_disk(dir.path());
    host.store
        .commit(&[Change::Put(offer("m", &manifest("2.0.0"), b"rubbish"))]);
    host.put(policy("p"));
    assert_eq!(host.status(), Some(201));
    assert_eq!(host.live_version().as_deref(), Some("1.0.0"));
    assert!(
        host.refusal()
            .starts_with("this is not a WebAssembly component")
    );
    let saved = dir.path().join("modules");
    for file in std::fs::read_dir(&saved).unwrap() {
        let mode = file.unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    assert_eq!(std::fs::read_dir(&saved).unwrap().count(), 2);

    host.delete("m");
    assert_eq!(std::fs::read_dir(&saved).unwrap().count(), 1);
    drop(host);
    let mut host = Host::on_disk(dir.path());
    host.put(policy("p"));
    host.put(offer("m", &manifest("2.0.0"), b"rubbish"));
    assert_eq!(host.status(), None);
}

#[test]
fn a_damaged_saved_module_is_not_used() {
    let dir = tempfile::tempdir().unwrap();
    let mut host = Host::on_disk(dir.path());
    host.put(offer("m", &manifest("1.0.0"), &version(201)));
    drop(host);
    let digest = crate::sandbox::digest(&version(201));
    let file = dir.path().join("modules").join(format!("{digest}.wasm"));
    std::fs::write(&file, version(209)).unwrap();
    let mut host = Host::on_disk(dir.path());
    host.store
        .commit(&[Change::Put(offer("m", &manifest("2.0.0"), b"rubbish"))]);
    host.put(policy("p"));
    assert_eq!(host.status(), None);
    host.put(offer("m", &manifest("1.0.0"), &version(201)));
    assert_eq!(host.status(), Some(201));
}

#[test]
fn before_the_first_epoch_a_replacement_waits() {
    let builtin = Guest::policy("hello", &responding(200)).build();
    let registry = Registry::bare(None, Some(("hello", builtin)));
    let host = Host::with(registry);
    host.store
        .commit(&[Change::Put(offer("m", &manifest("9"), &version(209)))]);
    let none = ArcSwap::from_pointee(World::default());
    assert!(host.registry.load_all(&host.store.snapshot(), &none));
    assert_eq!(
        host.info(ModuleState::Compiled).unwrap().reason,
        "waits for the first epoch, to be tried on its objects"
    );
    let mut host = host;
    host.put(policy("p"));
    assert_eq!(host.status(), Some(209));
    // The built-in one takes over again.
    host.delete("m");
    assert_eq!(host.status(), Some(200));
    assert_eq!(host.info(ModuleState::Live).unwrap().source, "built-in");
}
