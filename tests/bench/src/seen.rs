//! What a proxy was sent and what it acknowledged, as its relay saw it.

use crate::relay::Passed;
use crate::wire::{DeltaRequest, DeltaResponse, Resource};
use anyhow::{Context as _, bail};
use prost::Message as _;
use prost::bytes::Bytes;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedReceiver;

/// How long anything may take.
pub const PATIENCE: Duration = Duration::from_mins(5);

/// A response that the proxy acknowledged.
#[derive(Debug)]
pub struct Acked {
    /// When it was acknowledged.
    pub at: Instant,
    /// Bytes of the response.
    pub bytes: usize,
    /// Type of the resources.
    pub type_url: String,
    /// What it held.
    pub resources: Vec<Resource>,
}

/// Messages that passed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Responses.
    pub responses: u64,
    /// Resources in them.
    pub resources: u64,
}

/// Resources by type and name.
pub type Resources = BTreeMap<String, HashMap<String, Bytes>>;

/// The relay's view of one proxy.
#[derive(Debug)]
pub struct Seen {
    passed: UnboundedReceiver<Passed>,
    /// By type and nonce.
    waiting: HashMap<(String, String), (usize, DeltaResponse)>,
    acked: Resources,
    counts: HashMap<String, Counts>,
}

impl Seen {
    /// Follows a relay.
    pub fn new(passed: UnboundedReceiver<Passed>) -> Self {
        Self {
            passed,
            waiting: HashMap::new(),
            acked: Resources::new(),
            counts: HashMap::new(),
        }
    }

    /// What the proxy has acknowledged and not been told to remove.
    pub fn acked(&self) -> &Resources {
        &self.acked
    }

    /// What the proxy has acknowledged of a type.
    pub fn acked_of(&self, type_url: &str) -> impl Iterator<Item = (&String, &Bytes)> {
        self.acked.get(type_url).into_iter().flatten()
    }

    /// What was sent of a type, from the start.
    pub fn counts(&self, type_url: &str) -> Counts {
        self.counts.get(type_url).copied().unwrap_or_default()
    }

    /// Waits until the proxy has opened a stream.
    pub async fn opened(&mut self) -> anyhow::Result<()> {
        while !matches!(self.next().await?, Passed::Opened) {}
        Ok(())
    }

    /// Waits for the next acknowledgement. Fails if the proxy refuses something.
    pub async fn next_acked(&mut self) -> anyhow::Result<Acked> {
        loop {
            let passed = self.next().await?;
            if let Some(acked) = self.take(passed)? {
                return Ok(acked);
            }
        }
    }

    /// Waits until an acknowledged response is the one that is looked for.
    pub async fn until(&mut self, is: impl Fn(&Acked) -> bool) -> anyhow::Result<Acked> {
        loop {
            let acked = self.next_acked().await?;
            if is(&acked) {
                return Ok(acked);
            }
        }
    }

    /// Waits until everything that was sent is acknowledged and that is enough. Returns when the
    /// last acknowledgement passed.
    pub async fn until_all(
        &mut self,
        mut enough: impl FnMut(&Self) -> bool,
    ) -> anyhow::Result<Instant> {
        loop {
            let acked = self.next_acked().await?;
            if self.waiting.is_empty() && enough(self) {
                return Ok(acked.at);
            }
        }
    }

    /// Waits until what is acknowledged is as it should be.
    pub async fn until_is(&mut self, is: impl Fn(&Self) -> bool) -> anyhow::Result<()> {
        while !is(self) {
            self.next_acked().await?;
        }
        Ok(())
    }

    /// Takes in what has passed already, without waiting.
    pub fn catch_up(&mut self) -> anyhow::Result<()> {
        while let Ok(passed) = self.passed.try_recv() {
            self.take(passed)?;
        }
        Ok(())
    }

    /// Waits until nothing has passed for a while and nothing is unanswered.
    pub async fn until_quiet(&mut self, quiet: Duration) -> anyhow::Result<()> {
        loop {
            match tokio::time::timeout(quiet, self.passed.recv()).await {
                Ok(passed) => {
                    self.take(passed.context("the relay has ended")?)?;
                }
                Err(_) if self.waiting.is_empty() => return Ok(()),
                Err(_) => {}
            }
        }
    }

    async fn next(&mut self) -> anyhow::Result<Passed> {
        let next = tokio::time::timeout(PATIENCE, self.passed.recv()).await;
        next.with_context(|| {
            let counts: Vec<_> = self.counts.iter().collect();
            format!("nothing passed for {PATIENCE:?}; so far: {counts:?}")
        })?
        .context("the relay has ended")
    }

    fn take(&mut self, passed: Passed) -> anyhow::Result<Option<Acked>> {
        match passed {
            Passed::Opened => Ok(None),
            Passed::Response(bytes) => {
                let length = bytes.len();
                let response = DeltaResponse::decode(bytes)?;
                let counts = self.counts.entry(response.type_url.clone()).or_default();
                counts.responses += 1;
                counts.resources += response.resources.len() as u64;
                let key = (response.type_url.clone(), response.nonce.clone());
                self.waiting.insert(key, (length, response));
                Ok(None)
            }
            Passed::Request(at, bytes) => {
                let request = DeltaRequest::decode(bytes)?;
                let type_url = request.type_url;
                let Some((length, response)) =
                    self.waiting.remove(&(type_url.clone(), request.nonce))
                else {
                    return Ok(None);
                };
                if let Some(error) = request.error {
                    bail!("the proxy refused {type_url}: {}", error.message);
                }
                let of_type = self.acked.entry(type_url.clone()).or_default();
                for resource in &response.resources {
                    of_type.insert(resource.name.clone(), resource.value());
                }
                for name in &response.removed {
                    of_type.remove(name);
                }
                Ok(Some(Acked {
                    at,
                    bytes: length,
                    type_url,
                    resources: response.resources,
                }))
            }
        }
    }
}
