//! From a folder of manifests to Envoy resources, once, without a network.

use crate::config::Config;
use crate::modules::{ModuleInfo, ModuleState, Registry};
use crate::pipeline::{self, Engine, Metrics, World};
use crate::status::{self, ObjectStatus};
use crate::store::{Change, Key, Object, Store};
use crate::synchronizer::{self, Delta, Synchronizer};
use crate::watcher::files::{self, Problem};
use anyhow::Context as _;
use chiton_ir::identity::names::GATEWAY_GROUP;
use serde_json::Value;

/// What a folder leads to.
#[derive(Debug)]
pub struct Offline {
    /// What is wrong with files.
    pub problems: Vec<Problem>,
    /// Modules that were refused.
    pub refused: Vec<ModuleInfo>,
    /// Resources of the default fleet and findings.
    pub delta: Delta,
    world: World,
}

impl Offline {
    /// Status of every object; `Programmed` is unknown without proxies.
    #[must_use]
    pub fn objects(&self) -> Vec<ObjectStatus> {
        let findings = self.delta.findings.iter();
        let findings = findings.filter_map(|(key, findings)| Some((key, findings.as_deref()?)));
        status::all(&self.world, findings.collect(), None)
    }
}

impl Offline {
    /// Gateways of classes that are not in the folder, with the class. The Gateway API has nobody set
    /// conditions on them, since they may be somebody else's.
    pub fn without_class(&self) -> impl Iterator<Item = (&Object, String)> {
        let inputs = &self.world.inputs;
        let gateways = inputs
            .objects()
            .filter(|it| it.key.is(GATEWAY_GROUP, "Gateway"));
        gateways.filter_map(|gateway| {
            let body: Value = serde_json::from_slice(&gateway.body).ok()?;
            let class = body.pointer("/spec/gatewayClassName")?.as_str()?;
            let key = Key::new(GATEWAY_GROUP, "GatewayClass", "", class);
            let is_missing = inputs.get(&key).is_none();
            is_missing.then(|| (&**gateway, class.to_owned()))
        })
    }

    /// File and line of an object, by its kind, namespace and name as they are displayed.
    #[must_use]
    pub fn origin(&self, object: &str) -> Option<String> {
        self.world
            .inputs
            .objects()
            .find(|input| input.key.to_string() == object)
            .and_then(|input| input.origin.as_ref())
            .map(|origin| format!("{}:{}", origin.path.display(), origin.line))
    }
}

/// Reads and reconciles a folder.
pub fn run(config: &Config) -> anyhow::Result<Offline> {
    let loaded = files::load(&config.manifests)?;
    let store = Store::new();
    let mut changes: Vec<Change> = loaded.objects.iter().cloned().map(Change::Put).collect();
    changes.extend(files::synced(
        loaded.objects.iter().map(|object| object.key.group_kind()),
    ));
    changes.extend(files::synced(
        files::KINDS.iter().map(files::Known::group_kind),
    ));
    store.commit(&changes);
    let inputs = store.snapshot();

    let mut engine = Engine::new(
        pipeline::Options::default(),
        Metrics::new(&prometheus::Registry::new())?,
    )
    .context("cannot start threads for reconcilers")?;
    let registry = Registry::offline(&config.reconcilers.clone().into())?;
    let waits = registry.load_all(&inputs, &engine.world());
    engine.run_to_rest(&inputs, &registry.live(), pipeline::now());
    if waits {
        // What replaces a built-in reconciler is tried against what that one returned.
        registry.load_all(&inputs, &engine.world());
        engine.run_to_rest(&inputs, &registry.live(), pipeline::now());
    }

    let world = World::clone(&engine.world().load());
    let batch = synchronizer::everything(world.clone());
    let delta = Synchronizer::new(super::options(config)).apply(&batch);
    let refused = registry
        .list()
        .into_iter()
        .filter(|module| module.state == ModuleState::Refused)
        .collect();
    Ok(Offline {
        problems: loaded.problems,
        refused,
        delta,
        world,
    })
}
