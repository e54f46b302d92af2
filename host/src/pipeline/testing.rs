//! A driver that runs, for tests.

#![allow(clippy::expect_used)]

use super::channel::Events;
use super::{Driver, Engine};
use crate::modules::Modules;
use crate::store::Store;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A driver on a store and an engine.
pub(crate) struct Driven {
    pub events: Arc<Events>,
    pub modules: watch::Sender<Arc<Modules>>,
    stop: CancellationToken,
    task: JoinHandle<anyhow::Result<()>>,
}

impl Driven {
    pub fn start(store: &Arc<Store>, engine: Engine, modules: Arc<Modules>) -> Self {
        let events = Arc::new(Events::default());
        let modules = watch::Sender::new(modules);
        let stop = CancellationToken::new();
        let driver = Driver {
            store: store.clone(),
            modules: modules.subscribe(),
            events: events.clone(),
            engine,
        };
        Self {
            events,
            modules,
            task: tokio::spawn(driver.run(stop.clone())),
            stop,
        }
    }

    pub async fn end(self) {
        self.stop.cancel();
        self.task.await.expect("no panic").expect("no error");
    }
}
