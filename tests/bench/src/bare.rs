//! The floor: a bare loop that sends a proxy given bytes over delta ADS with VHDS.
//!
//! It reads nothing, decides nothing and keeps nothing but the newest bytes of each name. It answers
//! each subscription at once, and has one response of a type under way; what changes meanwhile is
//! folded, as the host does.

use crate::seen::Resources;
use crate::wire::{self, Answer, Any, DeltaRequest, DeltaResponse, Resource, Responses};
use prost::Message as _;
use prost::bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::task::AbortHandle;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Status, Streaming};

/// A running loop.
#[derive(Debug)]
pub struct Bare {
    shared: Shared,
    task: AbortHandle,
}

impl Bare {
    /// Starts to listen on a port of 127.0.0.1, with everything at hand.
    pub async fn start(port: u16, resources: Resources) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        let shared = Shared(Arc::new(Mutex::new(State {
            resources,
            ..State::default()
        })));
        let task = tokio::spawn(wire::serve(listener, shared.clone())).abort_handle();
        Ok(Self { shared, task })
    }

    /// Changes resources of a type and sends them, now or after the response that is under way.
    pub fn put(&self, type_url: &str, changed: Vec<(String, Bytes)>) {
        self.shared.with(|state| {
            let dirty = state.dirty.entry(type_url.to_owned()).or_default();
            dirty.extend(changed.iter().map(|(name, _)| name.clone()));
            let of_type = state.resources.entry(type_url.to_owned()).or_default();
            of_type.extend(changed);
            state.send_dirty(type_url);
        });
    }

    /// The newest bytes of a resource.
    pub fn get(&self, type_url: &str, name: &str) -> Bytes {
        self.shared.with(|state| {
            let of_type = state.resources.get(type_url);
            of_type
                .and_then(|of_type| of_type.get(name))
                .cloned()
                .unwrap_or_default()
        })
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Clone, Debug)]
struct Shared(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    resources: Resources,
    /// Names that changed while a response was under way.
    dirty: BTreeMap<String, BTreeSet<String>>,
    /// Types that were asked for, of the newest stream.
    asked: BTreeSet<String>,
    /// Types with a response under way.
    under_way: BTreeSet<String>,
    nonce: u64,
    to_proxy: Option<UnboundedSender<Result<Bytes, Status>>>,
}

impl Shared {
    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Answer for Shared {
    fn open(&self, mut requests: Streaming<Bytes>) -> Responses {
        let (to_proxy, responses) = mpsc::unbounded_channel();
        self.with(|state| {
            state.to_proxy = Some(to_proxy);
            state.asked.clear();
            state.under_way.clear();
        });
        let shared = self.clone();
        tokio::spawn(async move {
            while let Some(Ok(request)) = requests.next().await {
                if let Ok(request) = DeltaRequest::decode(request) {
                    shared.with(|state| state.answer(&request));
                }
            }
        });
        Box::pin(UnboundedReceiverStream::new(responses))
    }
}

impl State {
    fn answer(&mut self, request: &DeltaRequest) {
        let type_url = &request.type_url;
        if !request.nonce.is_empty() {
            self.under_way.remove(type_url);
        }
        let first = self.asked.insert(type_url.clone());
        let wanted = request.subscribe.iter().filter(|name| *name != "*");
        let mut names: BTreeSet<String> = wanted.cloned().collect();
        if first && names.is_empty() {
            // Everything: clusters, listeners, and virtual hosts, which are never asked for by name.
            let of_type = self.resources.get(type_url);
            names.extend(
                of_type
                    .into_iter()
                    .flat_map(|of_type| of_type.keys())
                    .cloned(),
            );
        }
        if names.is_empty() {
            self.send_dirty(type_url);
        } else {
            // A subscription is answered whatever is under way.
            self.send(type_url, &names);
        }
    }

    fn send_dirty(&mut self, type_url: &str) {
        if self.under_way.contains(type_url) || !self.asked.contains(type_url) {
            return;
        }
        let names = self.dirty.remove(type_url).unwrap_or_default();
        if !names.is_empty() {
            self.send(type_url, &names);
        }
    }

    fn send(&mut self, type_url: &str, names: &BTreeSet<String>) {
        self.nonce += 1;
        let version = self.nonce.to_string();
        let of_type = self.resources.get(type_url);
        let resource = |name: &String| {
            Some(Resource {
                version: version.clone(),
                body: Some(Any {
                    type_url: type_url.to_owned(),
                    value: of_type?.get(name)?.clone(),
                }),
                name: name.clone(),
            })
        };
        let response = DeltaResponse {
            resources: names.iter().filter_map(resource).collect(),
            type_url: type_url.to_owned(),
            nonce: self.nonce.to_string(),
            removed: Vec::new(),
        };
        self.under_way.insert(type_url.to_owned());
        if let Some(to_proxy) = &self.to_proxy {
            // The proxy may have gone.
            let _ = to_proxy.send(Ok(response.encode_to_vec().into()));
        }
    }
}
