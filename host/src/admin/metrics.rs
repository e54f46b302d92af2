//! Metrics in Prometheus' text format.
//!
//! Counters of the pipeline are counted where things happen, in the registry that is shared with it.
//! What others count already (proxies, modules) is read when metrics are asked for.

use super::Admin;
use chiton_xds::ResourceType;
use prometheus::{IntCounterVec, IntGaugeVec, Opts, Registry, TextEncoder};
use std::sync::{Mutex, PoisonError};

/// The metrics of a host.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    resources_sent: IntCounterVec,
    removals_sent: IntCounterVec,
    nacks: IntCounterVec,
    streams: IntGaugeVec,
    module_info: IntGaugeVec,
    /// Held while they are brought up to date and read: two who ask at once must not see each other's
    /// halves.
    reading: Mutex<()>,
}

impl Metrics {
    /// The metrics of `registry` and those that are read when asked for.
    pub fn new(registry: Registry) -> prometheus::Result<Self> {
        let gauge = |name: &str, help: &str, labels: &[&str]| {
            let gauge = IntGaugeVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(gauge.clone()))?;
            Ok::<_, prometheus::Error>(gauge)
        };
        let counter = |name: &str, help: &str| {
            let counter = IntCounterVec::new(Opts::new(name, help), &["type"])?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        Ok(Self {
            resources_sent: counter(
                "chiton_xds_resources_sent_total",
                "Resources sent to proxies",
            )?,
            removals_sent: counter(
                "chiton_xds_removals_sent_total",
                "Removals of resources sent to proxies",
            )?,
            nacks: counter("chiton_xds_nacks_total", "Responses that a proxy refused")?,
            streams: gauge("chiton_xds_streams", "Connected xDS streams", &[])?,
            module_info: gauge(
                "chiton_module_info",
                "1 for each module version that is known",
                &["module", "version", "digest", "state"],
            )?,
            reading: Mutex::default(),
            registry,
        })
    }

    /// All metrics as text.
    pub fn text(&self, admin: &Admin) -> prometheus::Result<String> {
        let _reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let counters = admin.xds.metrics();
        for kind in ResourceType::ALL {
            let name = &[kind.short_name()];
            raise(&self.resources_sent, name, counters.resources_sent(kind));
            raise(&self.removals_sent, name, counters.resources_removed(kind));
            raise(&self.nacks, name, counters.nacks(kind));
        }
        let streams = i64::try_from(counters.streams()).unwrap_or(i64::MAX);
        self.streams.with_label_values::<&str>(&[]).set(streams);
        self.module_info.reset();
        for module in admin.modules.list() {
            let labels = [
                &module.name,
                &module.version,
                &module.digest,
                &module.state.to_string(),
            ];
            self.module_info
                .with_label_values(&labels.map(String::as_str))
                .set(1);
        }
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }
}

/// Brings a counter up to what was counted elsewhere.
fn raise(counter: &IntCounterVec, labels: &[&str], value: u64) {
    let counter = counter.with_label_values(labels);
    counter.inc_by(value.saturating_sub(counter.get()));
}
