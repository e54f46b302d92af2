//! One reconcile of an `HTTPRoute` of about 1 kB by the built-in route reconciler.
//!
//! - native: the same Rust function, called in this process;
//! - fresh instance: as the host calls it, everything included (a new instance, copies in and out,
//!   limits, tracked reads);
//! - warm instance: an instance that is used again, which the host never does: what is left then is
//!   WebAssembly itself and the copies.

mod warm;

use super::Scope;
use crate::report::{Aim, Row, Unit};
use crate::stats::Summary;
use anyhow::Context as _;
use chiton::sandbox::{Component, Engine, Failure, Reads, Reconciler as _, Terms};
use chiton::store::Object;
use chiton::watcher::files;
use chiton_guest::testing::World;
use chiton_guest::{Context, Error, Output, Raw, Reconciler, Role};
use chiton_ir::gateway::{Gateway, LabelSelector, Listener, NamespaceScope, Protocol};
use chiton_ir::identity::names;
use chiton_ir::{GroupKind, ObjectRef};
use chiton_reconciler_route::HttpRoutes;
use serde_json::{Value, json};
use std::hint::black_box;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use warm::Warm;

/// Calls, once for all three in turn, so that they are measured under the same load.
const RUNS: usize = 20_000;

/// Calls before the first that counts.
const WARM_UP: usize = 500;

/// Takes the measure.
pub fn run(scope: &Scope) -> anyhow::Result<Vec<Row>> {
    let object = route();
    let component = std::fs::read(chiton_tests::paths::guest("route")?)?;
    let input = read(&object)?;
    let size = input.body.len();
    let document = gateway();
    let answers = Answers(serde_json::to_vec(&document)?.into());
    let fresh = Component::load(&Engine::new(None)?, &component, &Terms::default())?;
    let mut warm = Warm::load(&component, answers.clone())
        .map_err(|error| anyhow::anyhow!("the warm instance: {error:#}"))?;
    let world = World::new().output(&reference("Gateway", "bench"), &document);

    let mut times: [Vec<Duration>; 4] = Default::default();
    for run in 0..scope.runs(RUNS) + WARM_UP {
        let took = [
            time(|| black_box(world.reconcile_object::<HttpRoutes>(&object))).0,
            time(|| black_box(world.reconcile_object::<Nothing>(&object))).0,
            time(|| warm.reconcile(&input)).checked()?,
            time(|| fresh.reconcile(&input, b"{}", Arc::new(Mutex::new(answers.clone()))))
                .checked()?,
        ];
        if run >= WARM_UP {
            for (times, took) in times.iter_mut().zip(took) {
                times.push(took);
            }
        }
    }
    rows(size, &times)
}

/// The object as the host reads it from a file.
fn read(object: &Value) -> anyhow::Result<Arc<Object>> {
    let dir = tempfile::tempdir()?;
    std::fs::write(dir.path().join("route.json"), object.to_string())?;
    let loaded = files::load(dir.path())?;
    // Reading adds what is understood, for example the Namespace.
    let mut objects = loaded.objects.iter();
    let found = objects.find(|it| it.key.is(names::GATEWAY_GROUP, "HTTPRoute"));
    found
        .cloned()
        .with_context(|| format!("{:?}", loaded.problems))
}

fn rows(size: usize, times: &[Vec<Duration>; 4]) -> anyhow::Result<Vec<Row>> {
    let [native, harness, warm, fresh] = times;
    // What the native test harness itself takes: a reconciler that does nothing.
    let harness = Summary::seconds(harness).context("no runs")?.median;
    let native = native.iter().map(Duration::as_secs_f64);
    let native = Summary::of(native.map(|time| (time - harness).max(0.0)).collect());
    let row = |what: &str, times: &[Duration]| {
        let row = Row::new(what, size, Unit::Seconds, Summary::seconds(times))?;
        Some(row.floor(native.clone()))
    };
    let rows = [
        row("a reconcile in a fresh instance; floor: native", fresh)
            .map(|row| row.aim(Aim::RatioOfMedian(2.0))),
        row("a reconcile in a warm instance; floor: native", warm),
    ];
    let rows = rows.into_iter().flatten();
    Ok(rows.map(|row| row.note("size: bytes of JSON")).collect())
}

fn time<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let begin = Instant::now();
    let result = work();
    (begin.elapsed(), result)
}

/// A call that may fail.
trait Checked {
    /// How long it took, if it did not.
    fn checked(self) -> anyhow::Result<Duration>;
}

impl<T, E: std::fmt::Display> Checked for (Duration, Result<T, E>) {
    fn checked(self) -> anyhow::Result<Duration> {
        match self.1 {
            Ok(_) => Ok(self.0),
            Err(error) => anyhow::bail!("a reconcile failed: {error:#}"),
        }
    }
}

fn reference(kind: &str, name: &str) -> ObjectRef {
    ObjectRef::new(names::GATEWAY_GROUP, kind, "default", name)
}

fn gateway() -> Gateway {
    Gateway {
        listeners: vec![Listener {
            name: "http".into(),
            hostname: None,
            port: 80,
            protocol: Protocol::Http,
            tls: None,
            namespaces: NamespaceScope::All,
            kinds: vec![GroupKind::new(names::GATEWAY_GROUP, "HTTPRoute")],
            accepted: true,
        }],
        addresses: vec![],
    }
}

/// A route as people write it: a hostname, three rules with a match, a filter and a backend each.
fn route() -> Value {
    let rule = |number: usize| {
        json!({
            "matches": [{"path": {"type": "PathPrefix", "value": format!("/orders/v{number}")}, "method": "GET"}],
            "filters": [{"type": "ResponseHeaderModifier", "responseHeaderModifier": {
                "set": [{"name": "x-served-by", "value": format!("orders-{number}")}],
            }}],
            "backendRefs": [{"name": format!("orders-v{number}"), "port": 8080, "weight": 1}],
        })
    };
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": "r", "namespace": "default", "labels": {"app": "orders", "team": "shop"}},
        "spec": {
            "parentRefs": [{"name": "bench", "sectionName": "http"}],
            "hostnames": ["orders.shop.example.com"],
            "rules": (1..=3).map(rule).collect::<Vec<_>>(),
        },
    })
}

/// A reconciler that does nothing.
struct Nothing;

impl Reconciler for Nothing {
    const NAME: &'static str = "nothing";
    const VERSION: &'static str = "1.0.0";
    const ROLE: Role = Role::Route;
    const HANDLES: &'static [(&'static str, &'static str)] = &[];

    fn reconcile(_: &Raw, _: &mut Context) -> Result<Output, Error> {
        Ok(Output::none())
    }
}

/// What the reconciler can read: the Gateway's document.
#[derive(Clone)]
struct Answers(Arc<[u8]>);

impl Reads for Answers {
    fn get(&mut self, _: &ObjectRef) -> Result<Option<Arc<Object>>, Failure> {
        Ok(None)
    }

    fn list(
        &mut self,
        _: &GroupKind,
        _: Option<&str>,
        _: &LabelSelector,
    ) -> Result<Vec<Arc<Object>>, Failure> {
        Ok(Vec::new())
    }

    fn output(&mut self, object: &ObjectRef, _: &str) -> Result<Option<Arc<[u8]>>, Failure> {
        Ok((object.kind == "Gateway").then(|| self.0.clone()))
    }

    fn policies(&mut self, _: &ObjectRef, _: Option<&str>) -> Result<Vec<Arc<[u8]>>, Failure> {
        Ok(Vec::new())
    }

    fn time_reached(&mut self, _: u64) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is measured is the whole work, not a refusal.
    #[test]
    fn the_route_is_accepted_and_of_a_kilobyte() {
        let world = World::new().output(&reference("Gateway", "bench"), &gateway());
        let run = world.reconcile_object::<HttpRoutes>(&route());
        let document: Option<chiton_ir::route::Route> = run.document();
        assert_eq!(document.map(|route| route.rules.len()), Some(3), "{run:?}");
        let size = read(&route()).map(|object| object.body.len());
        assert!(matches!(size, Ok(900..1_200)), "{size:?}");
    }
}
