//! What is written is read again; anything else is ignored.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::file::{self, ReadError};
use super::format::{self, Damage, State};
use super::keeper::{Keeper, Metrics};
use super::{Checkpoint, Fleet, load, read};
use crate::pipeline::{Documents, Outputs, Reconciled, RunState, World};
use crate::status::Board;
use crate::store::{Change, Key, Object, Origin, Store};
use crate::synchronizer::holding::AcceptedForms;
use chiton_ir::Condition;
use chiton_xds::{Resource, ResourceName, ResourceType, Server};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// One that is held and was never accepted.
fn accepted() -> AcceptedForms {
    serde_json::from_value(serde_json::json!({"objects": [{
        "group": "", "kind": "Service", "namespace": "default", "name": "held",
        "refused": "1234", "text": "bad", "accepted": null,
    }]}))
    .unwrap()
}

fn key(name: &str) -> Key {
    Key::new("gateway.networking.k8s.io", "HTTPRoute", "default", name)
}

fn result(text: &str, state: RunState) -> Arc<Reconciled> {
    let json = match text {
        "" => Vec::new(),
        text => vec![("route".to_owned(), Arc::from(text.as_bytes()))],
    };
    Arc::new(Reconciled {
        module: "route".into(),
        documents: Documents {
            json,
            ..Documents::default()
        },
        conditions: [Condition::holds("Accepted", "Accepted")].into(),
        state,
        generation: 7,
    })
}

fn served() -> BTreeMap<String, Vec<Resource>> {
    let default = vec![
        Resource::new(ResourceType::Cluster, "c", "cluster"),
        Resource::new(ResourceType::Secret, "s", "PRIVATE KEY"),
        Resource::new(ResourceType::VirtualHost, "rc/a", "host"),
        Resource::new(
            ResourceType::VirtualHost,
            "rc/keys",
            "type.googleapis.com/envoy.extensions.filters.http.api_key_auth.v3.ApiKeyAuthPerRoute KEY",
        ),
    ];
    let other = vec![Resource::new(ResourceType::Listener, "l", "listener")];
    [("default".to_owned(), default), ("other".to_owned(), other)].into()
}

fn file_object(kind: &str, line: usize) -> Arc<Object> {
    Arc::new(Object {
        key: Key::new("", kind, "default", "x"),
        api_version: "v1".into(),
        labels: [("label", kind)].into_iter().collect(),
        generation: 0,
        created: None,
        body: format!("{{\"data\":\"PRIVATE KEY of {kind}\"}}")
            .replace("PRIVATE KEY of Service", "port")
            .into_bytes()
            .into(),
        problem: None,
        origin: Some(Origin {
            path: Path::new("a/b.yaml").into(),
            line,
        }),
    })
}

fn world() -> World {
    let mut outputs = Outputs::default();
    let failed = || RunState::Failed("trap".into());
    outputs.set(key("good"), Some(result("{\"a\":1}", RunState::Good)));
    outputs.set(key("kept"), Some(result("{\"a\":2}", failed())));
    outputs.set(key("never-good"), Some(result("", failed())));
    outputs.set(key("invalid"), Some(result("", RunState::Good)));
    let inputs = Store::new();
    inputs.commit(&[file_object("Secret", 1), file_object("Service", 2)].map(Change::Put));
    World {
        epoch: 3,
        inputs: inputs.snapshot(),
        outputs,
        kept: [(key("kept"), result("{\"a\":2}", RunState::Good))]
            .into_iter()
            .collect(),
    }
}

fn bytes() -> Vec<u8> {
    let mut bytes = Vec::new();
    let state = State {
        served: &served(),
        world: &world(),
        accepted: &accepted(),
    };
    format::encode(state, &mut bytes).unwrap();
    bytes
}

fn contains(bytes: &[u8], text: &str) -> bool {
    memchr::memmem::find(bytes, text.as_bytes()).is_some()
}

#[test]
fn what_is_written_is_read_again_but_for_secrets() {
    let bytes = bytes();
    let read = format::decode(&bytes).unwrap();
    let all = served();
    let [default, other] = ["default", "other"].map(|name| &read.fleets[name]);
    assert_eq!(other.resources, all["other"]);
    assert_eq!(
        default.resources,
        [&all["default"][0], &all["default"][2]].map(Clone::clone)
    );
    let secret = ResourceName::new(ResourceType::Secret, "s");
    let keys = ResourceName::new(ResourceType::VirtualHost, "rc/keys");
    assert_eq!(
        default.withheld,
        [
            (secret, all["default"][1].version.clone()),
            (keys, String::new())
        ]
    );
    for secret in ["PRIVATE KEY", " KEY", &all["default"][3].version] {
        assert!(!contains(&bytes, secret), "{secret} is in it");
    }

    let results: Vec<_> = read.results.iter().map(|(key, _)| &*key.name).collect();
    assert_eq!(results, ["good", "kept"]);
    let saved = &read.results[1].1;
    assert_eq!(
        saved.documents,
        result("{\"a\":2}", RunState::Good).documents.json
    );
    assert_eq!((saved.module.as_str(), saved.generation), ("route", 7));
    assert_eq!(saved.conditions, [Condition::holds("Accepted", "Accepted")]);
    assert_eq!(read.accepted, accepted());
}

#[test]
fn objects_of_files_are_read_again_but_for_the_content_of_secrets() {
    let read = super::inputs::decode(&bytes()).unwrap();
    let secret = Object {
        labels: [("", ""); 0].into_iter().collect(),
        body: Arc::default(),
        ..Object::clone(&file_object("Secret", 1))
    };
    assert_eq!(read, [secret, Object::clone(&file_object("Service", 2))]);
}

#[test]
fn what_would_wait_for_a_secret_is_not_served_to_those_who_have_nothing() {
    let names = |name: &str| [&[u8::try_from(name.len()).unwrap()], name.as_bytes()].concat();
    let resource = |kind, name: &str, of: &str| Resource::new(kind, name, names(of));
    let withheld = |kind, name: &str| (ResourceName::new(kind, name), String::new());
    let fleet = Fleet {
        resources: vec![
            resource(ResourceType::Cluster, "c", "upstream"),
            resource(ResourceType::Listener, "https", "cert"),
            resource(ResourceType::Listener, "http-80", "http-80"),
            resource(ResourceType::Listener, "http-8080", "http-8080"),
            resource(ResourceType::VirtualHost, "http-8080/cert", "cert"),
        ],
        withheld: vec![
            withheld(ResourceType::Secret, "cert"),
            withheld(ResourceType::RouteConfiguration, "http-80"),
        ],
    };
    let left: Vec<_> = fleet
        .servable()
        .into_iter()
        .map(|it| it.name.name)
        .collect();
    assert_eq!(left, ["c", "http-8080", "http-8080/cert"]);
}

/// Where this fails, the format has changed: count [`format::FORMAT`] up.
#[test]
fn the_same_state_gives_the_same_bytes_on_every_host() {
    assert_eq!(bytes(), bytes());
    let digest = crate::sandbox::digest(&bytes());
    assert_eq!((format::FORMAT, &digest[..16]), (2, "88968265ff046127"));
}

#[test]
fn a_damaged_checkpoint_is_never_used_whichever_byte_it_is() {
    let good = bytes();
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1;
        let damage = format::decode(&bad).unwrap_err();
        let expected = match at {
            0..18 => Damage::Foreign,
            18..22 => Damage::Format(format::FORMAT ^ (1 << (8 * (at - 18)))),
            _ => Damage::Checksum,
        };
        assert_eq!(damage, expected, "byte {at}");
        let damage = format::decode(&good[..at]).unwrap_err();
        let expected = if at < 18 {
            Damage::Foreign
        } else {
            Damage::Checksum
        };
        assert_eq!(damage, expected, "{at} bytes of it");
    }
    let longer = [&*good, b"x"].concat();
    assert_eq!(format::decode(&longer).unwrap_err(), Damage::Checksum);
}

#[test]
fn a_file_is_for_its_owner_alone_and_replaced_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("checkpoint");
    assert!(read(&path).unwrap().is_none());
    // Left from a crash, and somebody else's to read.
    fs::write(path.with_extension("new"), "old").unwrap();
    fs::set_permissions(path.with_extension("new"), PermissionsExt::from_mode(0o644)).unwrap();
    for served in [served(), BTreeMap::new()] {
        let state = State {
            served: &served,
            world: &world(),
            accepted: &AcceptedForms::default(),
        };
        file::write(&path, state).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(read(&path).unwrap().unwrap().fleets.len(), served.len());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
    fs::write(&path, "rubbish").unwrap();
    assert!(matches!(
        read(&path),
        Err(ReadError::Damage(Damage::Foreign))
    ));
    assert!(load(&path).is_none());
}

/// A disk that is full, as the kernel says it.
#[test]
fn what_cannot_be_written_leaves_what_was_there() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("checkpoint");
    fs::write(&path, bytes()).unwrap();
    let mut full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let (served, world) = (served(), world());
    let state = State {
        served: &served,
        world: &world,
        accepted: &AcceptedForms::default(),
    };
    let error = format::encode(state, &mut full).unwrap_err();
    assert!(error.to_string().contains("No space left"), "{error}");
    // A folder in the way of the file is as good as any other obstacle.
    fs::create_dir_all(path.with_extension("new").join("x")).unwrap();
    file::write(&path, state).unwrap_err();
    assert_eq!(read(&path).unwrap().unwrap().accepted, accepted());
}

struct Saving {
    server: Server,
    board: Arc<Board>,
    changes: watch::Sender<Arc<AcceptedForms>>,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<anyhow::Result<()>>,
    failures: prometheus::Registry,
}

impl Saving {
    fn start(path: &Path, interval: Duration) -> Self {
        let server = Server::new(chiton_xds::Options::default());
        let board = Arc::new(Board::new(server.clone()));
        let changes = watch::Sender::default();
        let stop = CancellationToken::new();
        let failures = prometheus::Registry::new();
        let keeper = Keeper {
            path: path.to_owned(),
            interval,
            xds: server.clone(),
            board: board.clone(),
            changes: changes.subscribe(),
            metrics: Metrics::new(&failures).unwrap(),
        };
        let task = tokio::spawn(keeper.run(stop.clone()));
        Self {
            server,
            board,
            changes,
            stop,
            task,
            failures,
        }
    }

    fn serve(&self, body: &'static str, epoch: u64) {
        let cluster = Resource::new(ResourceType::Cluster, "c", body);
        self.server
            .publish("default", vec![chiton_xds::Change::Put(cluster)]);
        let world = World { epoch, ..world() };
        self.board
            .update(world, &crate::synchronizer::Delta::default());
        self.changes.send_modify(|_| ());
    }

    async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
    }

    fn metric(&self, name: &str) -> f64 {
        let found = self.failures.gather();
        let family = found.iter().find(|family| family.name() == name).unwrap();
        let metric = &family.get_metric()[0];
        metric.get_counter().get_value() + metric.get_gauge().get_value()
    }
}

/// What a checkpoint says of the one cluster.
fn cluster(path: &Path) -> String {
    let checkpoint: Checkpoint = read(path).unwrap().unwrap();
    let body = &checkpoint.fleets["default"].resources[0].body;
    String::from_utf8(body.to_vec()).unwrap()
}

async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn changes_are_folded_and_the_last_ones_are_saved_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("checkpoint");
    let saving = Saving::start(&path, Duration::from_hours(1));
    saving.serve("1", 1);
    until(|| path.exists()).await;
    until(|| saving.metric("chiton_checkpoint_epoch") >= 1.0).await;
    for body in ["2", "3", "4"] {
        saving.serve(body, 2);
        tokio::task::yield_now().await;
    }
    assert_eq!(cluster(&path), "1", "an hour has not passed");
    saving.stop().await;
    assert_eq!(cluster(&path), "4");
    let modified = fs::metadata(&path).unwrap().modified().unwrap();

    let idle = Saving::start(&path, Duration::ZERO);
    idle.stop().await;
    assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), modified);
}

#[tokio::test]
async fn what_cannot_be_saved_does_not_end_the_host() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("gone/checkpoint");
    let saving = Saving::start(&path, Duration::ZERO);
    saving.serve("1", 1);
    until(|| saving.metric("chiton_checkpoint_failures_total") >= 1.0).await;
    fs::create_dir(dir.path().join("gone")).unwrap();
    saving.stop().await;
    assert_eq!(cluster(&path), "1", "it is tried again at the end");
}
