//! L4: nobody sees half an epoch, nor half a commit, whoever looks at whatever moment.

use super::envoy::Envoy;
use super::host::{Host, options};
use super::manifests::{Does, Listener, Rule, Scope, Spec, Target, Thing, key};
use super::serving::{Answer, Request};
use crate::pipeline::World;
use crate::pipeline::testing::Driven;
use crate::store::{Change as StoreChange, Key, Snapshot, Store};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const ROUTES: [&str; 3] = ["r0", "r1", "r2"];
const COMMITS: u8 = 200;

fn policy(route: &'static str, value: u8) -> (Key, Thing) {
    let spec = Spec::Policy {
        targets: vec![Target::Route(route, false)],
        is_override: false,
        does: Does::Header(value),
    };
    (key("Policy", "default", route), spec.into())
}

/// The numbers in the policies, each once.
fn numbers(texts: impl Iterator<Item = String>) -> BTreeSet<String> {
    texts
        .filter_map(|text| {
            let (before, _) = text.split_once("-@").or_else(|| text.split_once("-0"))?;
            Some(before.rsplit('"').next()?.to_owned())
        })
        .collect()
}

fn of_inputs(inputs: &Snapshot) -> BTreeSet<String> {
    let policies = inputs
        .objects()
        .filter(|object| object.key.kind == "Policy");
    numbers(policies.map(|object| String::from_utf8_lossy(&object.body).into_owned()))
}

fn of_outputs(world: &World) -> BTreeSet<String> {
    let documents = world.outputs.iter().flat_map(|(_, it)| &it.documents.json);
    numbers(
        documents
            .filter(|(name, _)| name == "policy")
            .map(|(_, body)| String::from_utf8_lossy(body).into_owned()),
    )
}

/// All inputs are of one commit, and all outputs are of the inputs.
fn check(world: &World) {
    let inputs = of_inputs(&world.inputs);
    assert!(inputs.len() <= 1, "inputs of several commits: {inputs:?}");
    let outputs = of_outputs(world);
    assert_eq!(
        outputs, inputs,
        "outputs of other inputs in epoch {}",
        world.epoch
    );
}

fn start(store: &Store) {
    let gateway = Spec::Gateway(vec![Listener {
        name: "l0",
        port: 8000,
        hostname: None,
        scope: Scope::All,
    }]);
    let mut all: Vec<(Key, Thing)> = vec![
        (key("GatewayClass", "", "chiton"), Spec::Class.into()),
        (key("Gateway", "default", "g0"), gateway.into()),
        (key("Service", "default", "s0"), Spec::Service(80).into()),
    ];
    for (route, host) in ROUTES.into_iter().zip(["a.example", "b.example", "c.test"]) {
        let spec = Spec::Route {
            parents: vec![("g0", None)],
            hostnames: vec![host],
            rules: vec![Rule {
                path: "/",
                named: false,
                backend: ("default", "s0"),
            }],
        };
        all.push((key("HTTPRoute", "default", route), spec.into()));
    }
    let changes: Vec<_> = all
        .iter()
        .map(|(key, thing)| StoreChange::Put(thing.object(key)))
        .collect();
    store.commit(&changes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nobody_sees_half_an_epoch() {
    let host = Host::new(options());
    start(&host.store);
    let mut synchronizer = host.synchronizer;
    let store = Arc::new(host.store);
    let world = host.engine.world();
    let driven = Driven::start(&store, host.engine, host.modules);

    let done = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let (store, world, done) = (store.clone(), world.clone(), done.clone());
            std::thread::spawn(move || {
                let (mut epochs, mut last) = (0, 0);
                while !done.load(Ordering::SeqCst) {
                    assert!(of_inputs(&store.snapshot()).len() <= 1, "half a commit");
                    let world = world.load_full();
                    check(&world);
                    assert!(world.epoch >= last, "epochs go on only");
                    epochs += u64::from(world.epoch > last);
                    last = world.epoch;
                }
                epochs
            })
        })
        .collect();
    let committer = {
        let (store, world) = (store.clone(), world.clone());
        std::thread::spawn(move || {
            for number in 1..=COMMITS {
                let changes: Vec<_> = ROUTES
                    .map(|route| policy(route, number))
                    .iter()
                    .map(|(key, thing)| StoreChange::Put(thing.object(key)))
                    .collect();
                store.commit(&changes);
                // Now and then an epoch ends before the next commit, mostly not.
                while number % 8 == 0 && !of_outputs(&world.load()).contains(&number.to_string()) {
                    std::thread::yield_now();
                }
            }
        })
    };

    // What proxies have after each batch is of one commit too.
    let mut proxies = super::host::Proxies::new();
    let mut batches = 0;
    loop {
        let batch = driven.events.next().await;
        check(&batch.world);
        let delta = synchronizer.apply(&batch);
        for change in delta.resources.into_values().flatten() {
            change.apply(&mut proxies);
        }
        batches += 1;
        let envoy = Envoy::with(&proxies);
        let headers: BTreeSet<Option<String>> = ["a.example", "b.example", "c.test"]
            .map(|host| {
                let request = Request {
                    port: 8000,
                    host,
                    path: "/",
                };
                match envoy.answer(&request) {
                    Answer::Forwarded(_, _, treatment) => treatment.header,
                    other => panic!("{other:?}"),
                }
            })
            .into();
        assert_eq!(
            headers.len(),
            1,
            "proxies have several commits: {headers:?}"
        );
        if headers.contains(&Some(format!("{COMMITS}-0"))) {
            break;
        }
    }
    committer.join().expect("no panic");
    done.store(true, Ordering::SeqCst);
    for reader in readers {
        assert!(reader.join().expect("no panic") > 0, "it saw epochs go by");
    }
    assert!(batches > 1);
    driven.end().await;
}
