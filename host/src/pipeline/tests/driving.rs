//! The driver: from a commit of the store to a batch of events.

use super::super::channel::Event;
use super::super::metrics::Outcome;
use super::super::now;
use super::super::testing::Driven;
use super::fake::Fake;
use super::{Rig, key, object};
use crate::modules::Modules;
use crate::sandbox::Role;
use crate::store::{Change, Store};
use serde_json::json;
use std::sync::Arc;

#[tokio::test]
async fn changes_modules_and_times_lead_to_batches() {
    let rig = Rig::new();
    let metrics = rig.metrics.clone();
    let store = Arc::new(Store::new());
    let driven = Driven::start(&store, rig.engine, rig.modules.clone());
    let events = &driven.events;

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
    driven.modules.send_replace(Arc::new(new));
    let batch = events.next().await;
    let document = &batch
        .world
        .outputs
        .get(&key("Gateway/g"))
        .expect("a result")
        .documents;
    assert!(document.gateway.as_ref().expect("a gateway").addresses[0].contains("v2"));

    driven.end().await;
}
