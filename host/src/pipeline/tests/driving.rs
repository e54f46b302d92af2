//! The driver: from a commit of the store to a batch of events.

use super::super::channel::{Event, Events};
use super::super::metrics::Outcome;
use super::super::{Driver, now};
use super::fake::Fake;
use super::{Rig, key, object};
use crate::modules::Modules;
use crate::sandbox::Role;
use crate::store::{Change, Store};
use serde_json::json;
use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn changes_modules_and_times_lead_to_batches() {
    let rig = Rig::new();
    let metrics = rig.metrics.clone();
    let store = Arc::new(Store::new());
    let events = Arc::new(Events::default());
    let (sender, modules) = watch::channel(rig.modules.clone());
    let stop = CancellationToken::new();
    let driver = Driver {
        store: store.clone(),
        modules,
        events: events.clone(),
        engine: rig.engine,
    };
    let task = tokio::spawn(driver.run(stop.clone()));

    let wake = now().as_secs() + 2;
    let spec = json!({"steps": [{"time": wake}]});
    let gateway = object("Gateway/g", &[], &spec);
    store.commit(&[Change::Put(Arc::new(gateway))]);
    let batch = events.next().await;
    assert_eq!(batch.events.get(&key("Gateway/g")), Some(&Event::Create));
    assert_eq!(batch.world.epoch, 1);

    let batch = events.next().await;
    assert_eq!(batch.events.get(&key("Gateway/g")), Some(&Event::Update));
    assert!(now().as_secs() >= wake, "woken by the time it asked for");
    // Waiting has cost nothing: one run before it and one after.
    assert_eq!(metrics.count("gateway", Outcome::Done), 2);
    assert_eq!(metrics.epochs(), 2);

    let new = Modules::new([Arc::new(Fake::new(Role::Gateway).version("2").live())]);
    sender.send_replace(Arc::new(new));
    let batch = events.next().await;
    let document = &batch
        .world
        .outputs
        .get(&key("Gateway/g"))
        .expect("a result")
        .documents;
    assert!(document.gateway.as_ref().expect("a gateway").addresses[0].contains("v2"));

    stop.cancel();
    task.await.expect("no panic").expect("no error");
}
