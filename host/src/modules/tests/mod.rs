//! The life of modules, with components that tests write.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod builtin;
mod doubles;
mod restart;
mod roll_back;
mod slow;

use super::*;
use crate::pipeline::{self, Engine, Metrics, World};
use crate::sandbox::testing::{Guest, World as Reads, constant, policy_object};
use crate::sandbox::{Outcome, Role};
use crate::store::{Change, Key, Object, Store};
use arc_swap::ArcSwap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chiton_ir::GroupKind;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// A `policy` document that answers with a status.
fn responding(status: u16) -> String {
    format!(
        r#"{{"targets":[{{"object":{{"group":"gateway.networking.k8s.io","kind":"Gateway","namespace":"default","name":"g"}}}}],"default":[{{"respond":{{"status":{status}}}}}]}}"#
    )
}

fn version(status: u16) -> Vec<u8> {
    Guest::policy("hello", &responding(status)).build()
}

fn manifest(version: &str) -> String {
    format!("name: hello\nversion: '{version}'\n")
}

/// A `ConfigMap` named `name` that offers a module.
fn offer(name: &str, manifest: &str, component: &[u8]) -> Arc<Object> {
    config_map(name, manifest, "module.wasm", component)
}

fn config_map(name: &str, manifest: &str, key: &str, bytes: &[u8]) -> Arc<Object> {
    let body = serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "labels": {"chiton.dev/module": "x"}},
        "data": {"module.yaml": manifest},
        "binaryData": {key: STANDARD.encode(bytes)},
    });
    Arc::new(Object {
        key: Key::new("", "ConfigMap", "default", name),
        api_version: "v1".into(),
        labels: [("chiton.dev/module", "x")].into_iter().collect(),
        generation: 0,
        created: None,
        body: serde_json::to_vec(&body).unwrap().into(),
        problem: None,
        origin: None,
    })
}

fn policy(name: &str) -> Arc<Object> {
    let body = serde_json::json!({
        "apiVersion": "chiton.dev/v1alpha1", "kind": "Policy",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"type": "hello", "targetRefs": [
            {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "g"}], "default": {}},
    });
    policy_object(name, &body.to_string())
}

/// A host in small: a store, an engine of epochs, and a registry without built-in reconcilers.
struct Host {
    store: Store,
    engine: Engine,
    registry: Registry,
}

impl Host {
    fn new() -> Self {
        Self::with(Registry::bare(None, None))
    }

    fn on_disk(dir: &Path) -> Self {
        Self::with(Registry::bare(Some(dir), None))
    }

    fn with(registry: Registry) -> Self {
        let store = Store::new();
        store.commit(&[
            Change::Synced(GroupKind::new("", "ConfigMap")),
            Change::Synced(GroupKind::new("chiton.dev", "Policy")),
        ]);
        let metrics = Metrics::new(&prometheus::Registry::new()).unwrap();
        Self {
            store,
            engine: Engine::new(pipeline::Options::default(), metrics).unwrap(),
            registry,
        }
    }

    fn put(&mut self, object: Arc<Object>) {
        self.store.commit(&[Change::Put(object)]);
        self.settle();
    }

    fn delete(&mut self, name: &str) {
        let key = Key::new("", "ConfigMap", "default", name);
        self.store.commit(&[Change::Delete(key)]);
        self.settle();
    }

    /// What the host does after a change, until nothing is left to do.
    fn settle(&mut self) {
        for _ in 0..2 {
            self.registry
                .load_all(&self.store.snapshot(), &self.engine.world());
            self.engine.run_to_rest(
                &self.store.snapshot(),
                &self.registry.live(),
                pipeline::now(),
            );
        }
    }

    /// What requests for the policy `p` are answered with.
    fn status(&self) -> Option<u16> {
        let world = self.engine.world().load_full();
        let result = world
            .outputs
            .get(&Key::new("chiton.dev", "Policy", "default", "p"))?
            .clone();
        let document = result.documents.policy.clone()?;
        match document.default.first()? {
            chiton_ir::policy::Effect::Respond(respond) => Some(respond.status),
            _ => None,
        }
    }

    fn info(&self, state: ModuleState) -> Option<ModuleInfo> {
        self.registry
            .list()
            .into_iter()
            .find(|it| it.name == "hello" && it.state == state)
    }

    fn refusal(&self) -> String {
        self.info(ModuleState::Refused).expect("a refusal").reason
    }

    fn live_version(&self) -> Option<String> {
        self.info(ModuleState::Live).map(|info| info.version)
    }
}

#[test]
fn a_module_goes_live_is_swapped_and_retired() {
    let mut host = Host::new();
    host.put(policy("p"));
    assert_eq!(host.status(), None);
    host.put(offer("m", &manifest("1.0.0"), &version(201)));
    assert_eq!(host.status(), Some(201));
    let live = host.info(ModuleState::Live).unwrap();
    assert_eq!(live.version, "1.0.0");
    assert_eq!(live.source, "ConfigMap default/m");
    assert_eq!(live.role.as_deref(), Some("policy"));
    assert_eq!((live.reconciles, live.failures), (1, 0));
    assert_eq!(live.digest, crate::sandbox::digest(&version(201)));

    host.put(offer("m", &manifest("2.0.0"), &version(202)));
    assert_eq!(host.status(), Some(202));
    assert_eq!(host.live_version().as_deref(), Some("2.0.0"));
    assert_eq!(
        host.info(ModuleState::Retired).unwrap().reason,
        "replaced by version 2.0.0"
    );

    host.delete("m");
    assert!(matches!(
        host.registry.live().policy("hello"),
        PolicyModule::Unknown
    ));
    assert_eq!(host.status(), None);
}

#[test]
fn what_does_not_load_leaves_the_old_version_and_says_why() {
    let mut host = Host::new();
    host.put(policy("p"));
    host.put(offer("m", &manifest("1.0.0"), &version(201)));
    let good = version(202);
    let sha = crate::sandbox::digest(b"other");
    let wrong_name = Guest::policy("bye", &responding(202)).build();
    let wrong_reads = {
        let mut guest = Guest::policy("hello", &responding(202));
        guest.reads = vec![GroupKind::new("", "Secret")];
        guest.build()
    };
    let wrong_handles = {
        let mut guest = Guest::policy("hello", &responding(202));
        guest.handles = vec![GroupKind::new("example.com", "Greeting")];
        guest.build()
    };
    let cases: [(String, &[u8], &str); 8] = [
        (manifest("2"), b"", "the component is empty (0 bytes)"),
        (
            manifest("2"),
            &good[..good.len() / 2],
            "the component is truncated or damaged: ",
        ),
        (
            manifest("2"),
            &Guest::policy("hello", "{}").core(),
            "this is a core module",
        ),
        (
            manifest("2"),
            &wrong_name,
            "the component calls itself `bye`, its manifest `hello`",
        ),
        (
            manifest("2"),
            &wrong_reads,
            "the component asks to read Secret, which its manifest does",
        ),
        (
            format!("{}sha256: {sha}\n", manifest("2")),
            &good,
            "the component has the sha256 ",
        ),
        (
            format!("{}handles: []\n", manifest("2")),
            &wrong_handles,
            "the component handles Greeting.example.com, which its manifest does not name",
        ),
        (
            format!("{}limit: 1\n", manifest("2")),
            &good,
            "module.yaml: limit: unknown field `limit`",
        ),
    ];
    for (manifest, component, expected) in cases {
        host.put(offer("m", &manifest, component));
        let reason = host.refusal();
        assert!(reason.starts_with(expected), "{reason}");
        assert_eq!(host.status(), Some(201), "{reason}");
        assert_eq!(host.live_version().as_deref(), Some("1.0.0"));
    }
    // A manifest that does not even give a name.
    host.put(offer("m", "name: [", &good));
    assert!(host.refusal().starts_with("module.yaml is not YAML: "));
    assert_eq!(host.status(), Some(201));
    // And back, and on.
    host.put(offer("m", &manifest("1.0.0"), &version(201)));
    assert!(host.info(ModuleState::Refused).is_none());
    host.put(offer("m", &manifest("2"), &good));
    assert_eq!(host.status(), Some(202));
}

#[test]
fn a_version_that_breaks_an_object_is_refused_by_its_trial() {
    let mut host = Host::new();
    host.put(policy("p"));
    host.put(policy("q"));
    host.put(offer("m", &manifest("1.0.0"), &version(201)));
    let trapping = Guest::doing("hello", "unreachable").build();
    host.put(offer("m", &manifest("2.0.0"), &trapping));
    let reason = host.refusal();
    assert!(
        reason.starts_with("in its trial on 2 objects it did worse than what is live on 2: Policy default/p: it fails: it trapped: it reached `unreachable`"),
        "{reason}"
    );
    assert_eq!(host.status(), Some(201));
    let rubbish = Guest::policy("hello", "{not json").build();
    host.put(offer("m", &manifest("3.0.0"), &rubbish));
    assert!(host.refusal().contains("Policy default/p: it fails: "));
    assert_eq!(host.status(), Some(201));
    let slow = format!("{}limits: {{timeMs: 20}}\n", manifest("4.0.0"));
    let looping = Guest::doing("hello", "(loop $again br $again)").build();
    host.put(offer("m", &slow, &looping));
    assert!(host.refusal().contains("Policy default/p: it fails: "));
    assert_eq!(host.status(), Some(201));
    assert_eq!(host.info(ModuleState::Refused).unwrap().version, "4.0.0");
}

#[test]
fn a_known_module_without_a_live_version_is_not_unknown() {
    let mut host = Host::new();
    host.put(policy("p"));
    let closed = format!("{}failurePolicy: fail-closed\n", manifest("1"));
    for text in [
        format!("{closed}unknown: 1\n"),
        closed.replace("closed", "close"),
    ] {
        host.put(offer("m", &text, b""));
        let PolicyModule::Refused { failure_policy, .. } = host.registry.live().policy("hello")
        else {
            panic!("it is refused");
        };
        assert_eq!(failure_policy, FailurePolicy::FailClosed);
    }
    host.put(offer("m", &closed, b""));
    match host.registry.live().policy("hello") {
        PolicyModule::Refused {
            failure_policy,
            reason,
        } => {
            assert_eq!(failure_policy, FailurePolicy::FailClosed);
            assert_eq!(
                reason,
                "the module `hello` is refused: the component is empty (0 bytes)"
            );
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(
        host.registry.live().policy("other"),
        PolicyModule::Unknown
    ));
}

#[test]
fn gzip_and_files_hold_components_too() {
    let component = version(203);
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(&component).unwrap();
    let mut host = Host::new();
    host.put(policy("p"));
    host.put(config_map(
        "m",
        &manifest("1"),
        "module.wasm.gz",
        &gzip.finish().unwrap(),
    ));
    assert_eq!(host.status(), Some(203));
    host.put(config_map("m", &manifest("2"), "module.wasm.gz", b"plain"));
    assert!(
        host.refusal()
            .starts_with("binaryData.module.wasm.gz is not gzip: ")
    );
    host.put(config_map("m", &manifest("2"), "module.zip", b"plain"));
    assert!(
        host.refusal()
            .starts_with("the ConfigMap has neither module.wasm nor")
    );

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("hello.wasm");
    std::fs::write(&path, version(204)).unwrap();
    let text = format!(
        "{}source: file://{}\nsha256: {}\n",
        manifest("3"),
        path.display(),
        crate::sandbox::digest(&version(204))
    );
    host.put(config_map("m", &text, "unused", b""));
    assert_eq!(host.status(), Some(204));
    let gone = text.replace("hello.wasm", "gone.wasm");
    host.put(config_map("m", &gone, "unused", b""));
    assert!(host.refusal().contains("gone.wasm cannot be read: "));
    assert_eq!(host.status(), Some(204));
}

#[test]
fn a_bomb_in_gzip_is_refused() {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(&vec![0; 64 << 20]).unwrap();
    let mut host = Host::new();
    host.put(config_map(
        "m",
        &manifest("1"),
        "module.wasm.gz",
        &gzip.finish().unwrap(),
    ));
    assert_eq!(
        host.refusal(),
        "the component has 16777217 bytes; at most 16777216 are allowed"
    );
}

#[test]
fn a_module_may_not_take_over_a_kind_under_another_name() {
    let mut routes = Guest::new("routes", Role::Route);
    routes.handles = vec![GroupKind::new("example.com", "Route")];
    let mut host = Host::with(Registry::bare(None, Some(("routes", routes.build()))));
    let mut hello = Guest::policy("hello", &responding(201));
    hello.handles = vec![GroupKind::new("example.com", "Route")];
    host.put(offer("m", &manifest("1"), &hello.build()));
    assert_eq!(
        host.refusal(),
        "Route.example.com is handled by the module `routes` already: use that name to replace it"
    );
    let kind = GroupKind::new("example.com", "Route");
    assert_eq!(host.registry.live().for_kind(&kind).unwrap().name, "routes");
}

#[test]
fn nothing_is_retired_while_config_maps_are_not_listed() {
    let mut host = Host::new();
    host.put(offer("m", &manifest("1.0.0"), &version(201)));
    let unlisted = Store::new();
    host.registry
        .load_all(&unlisted.snapshot(), &host.engine.world());
    assert_eq!(host.live_version().as_deref(), Some("1.0.0"));
}

#[test]
fn settings_and_limits_reach_the_module() {
    // Waits if it has no settings, else is done.
    let mut guest = Guest::new("hello", Role::Policy);
    let waits = guest.not_ready("no settings");
    let done = guest.body.clone();
    guest.body = format!(
        "(if (result i32) (i32.gt_u (local.get 11) (i32.const 2)) (then {done}) (else {}))",
        constant(waits)
    );
    let component = guest.build();
    let mut host = Host::new();
    let call = |host: &Host| match host.registry.live().policy("hello") {
        PolicyModule::Live(module) => module
            .reconcile(&policy("p"), Reads::default().shared())
            .unwrap(),
        other => panic!("{other:?}"),
    };
    host.put(offer("m", &manifest("1"), &component));
    assert_eq!(call(&host), Outcome::NotReady("no settings".into()));
    let with = format!("{}settings: {{a: 1}}\n", manifest("1"));
    host.put(offer("m", &with, &component));
    assert!(matches!(call(&host), Outcome::Done { .. }));
    let PolicyModule::Live(module) = host.registry.live().policy("hello") else {
        panic!("it is live");
    };
    assert_eq!(&*module.settings, br#"{"a":1}"#);
}

#[tokio::test]
async fn it_follows_the_store() {
    let registry = Arc::new(Registry::bare(None, None));
    let store = Arc::new(Store::new());
    store.commit(&[Change::Synced(GroupKind::new("", "ConfigMap"))]);
    let stop = tokio_util::sync::CancellationToken::new();
    let following = tokio::spawn(registry.clone().follow(store.clone(), stop.clone()));
    let mut live = registry.subscribe();
    store.commit(&[Change::Put(offer("m", &manifest("1"), &version(201)))]);
    live.wait_for(|modules| matches!(modules.policy("hello"), PolicyModule::Live(_)))
        .await
        .unwrap();
    let key = Key::new("", "ConfigMap", "default", "m");
    store.commit(&[Change::Delete(key)]);
    live.wait_for(|modules| matches!(modules.policy("hello"), PolicyModule::Unknown))
        .await
        .unwrap();
    stop.cancel();
    following.await.unwrap().unwrap();
}
