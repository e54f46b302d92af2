//! A module that takes its time.

use super::*;
use std::time::Duration;

/// An offer of `name` whose file is a pipe: reading it waits until somebody writes.
fn stuck(name: &str, pipe: &Path) -> Arc<Object> {
    if !pipe.exists() {
        nix::unistd::mkfifo(pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    }
    let text = format!(
        "name: {name}\nversion: '1'\nsha256: '{:064}'\nsource: file://{}\n",
        0,
        pipe.display()
    );
    config_map(name, &text, "other", b"")
}

async fn is_live(registry: &Registry) {
    let mut live = registry.subscribe();
    live.wait_for(|modules| matches!(modules.policy("hello"), PolicyModule::Live(_)))
        .await
        .unwrap();
}

fn stuck_state(registry: &Registry) -> ModuleState {
    let all = registry.list();
    all.iter()
        .find(|it| it.name == "a")
        .expect("an offer")
        .state
}

#[tokio::test]
async fn it_delays_no_other_whenever_that_comes() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    let registry = Arc::new(Registry::bare(None, None));
    let store = Arc::new(Store::new());
    store.commit(&[
        Change::Synced(GroupKind::new("", "ConfigMap")),
        Change::Put(stuck("a", &pipe)),
        Change::Put(offer("m", &manifest("1"), &version(201))),
    ]);
    let inputs = store.snapshot();
    assert!(!registry.load_within(&inputs, &registry.world, Duration::ZERO));
    assert_eq!(registry.loading()[0], "a");

    let stop = tokio_util::sync::CancellationToken::new();
    let following = tokio::spawn(registry.clone().follow(store.clone(), stop.clone()));
    is_live(&registry).await;
    let key = Key::new("", "ConfigMap", "default", "m");
    store.commit(&[Change::Delete(key)]);
    let mut live = registry.subscribe();
    live.wait_for(|modules| matches!(modules.policy("hello"), PolicyModule::Unknown))
        .await
        .unwrap();
    store.commit(&[Change::Put(offer("n", &manifest("2"), &version(202)))]);
    is_live(&registry).await;
    assert_eq!(stuck_state(&registry), ModuleState::Fetched);

    // At last it is there, and wrong.
    tokio::task::spawn_blocking(move || std::fs::write(pipe, ""))
        .await
        .unwrap()
        .unwrap();
    live.wait_for(|modules| match modules.policy("a") {
        PolicyModule::Refused { reason, .. } => reason.contains("is refused"),
        _ => false,
    })
    .await
    .unwrap();
    stop.cancel();
    following.await.unwrap().unwrap();
}

#[test]
fn what_is_live_goes_on_until_the_next_one_is_ready() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    let mut host = Host::new();
    host.put(policy("p"));
    host.put(offer("b", &manifest("1"), &version(201)));
    let text = format!(
        "{}sha256: '{:064}'\nsource: file://{}\n",
        manifest("2"),
        0,
        pipe.display()
    );
    stuck("c", &pipe);
    // The one is gone, the other not there yet.
    let key = Key::new("", "ConfigMap", "default", "b");
    let next = config_map("c", &text, "other", b"");
    host.store.commit(&[Change::Delete(key), Change::Put(next)]);
    for _ in 0..2 {
        let inputs = host.store.snapshot();
        let world = host.engine.world();
        assert!(!host.registry.load_within(&inputs, &world, Duration::ZERO));
        assert_eq!(host.live_version().as_deref(), Some("1"));
    }
    std::fs::write(&pipe, "").unwrap();
    host.settle();
    assert_eq!(host.live_version(), None);
    assert!(host.refusal().contains("sha256"), "{}", host.refusal());
}
