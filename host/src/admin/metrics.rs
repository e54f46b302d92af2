//! Metrics in Prometheus' text format.
//!
//! Counters of the pipeline are counted where things happen, in the registry that is shared with it.
//! What others count already (proxies, modules) is read when metrics are asked for.

use super::Admin;
use chiton_xds::ResourceType;
use prometheus::{IntGaugeVec, Opts, Registry, TextEncoder};

/// The metrics of a host.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    resources_sent: IntGaugeVec,
    nacks: IntGaugeVec,
    streams: IntGaugeVec,
    module_info: IntGaugeVec,
}

impl Metrics {
    /// The metrics of `registry` and those that are read when asked for.
    pub fn new(registry: Registry) -> prometheus::Result<Self> {
        let gauge = |name: &str, help: &str, labels: &[&str]| {
            let gauge = IntGaugeVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(gauge.clone()))?;
            Ok::<_, prometheus::Error>(gauge)
        };
        Ok(Self {
            resources_sent: gauge(
                "chiton_xds_resources_sent_total",
                "Resources sent to proxies, removals included",
                &["type"],
            )?,
            nacks: gauge(
                "chiton_xds_nacks_total",
                "Responses that a proxy refused",
                &["type"],
            )?,
            streams: gauge("chiton_xds_streams", "Connected xDS streams", &[])?,
            module_info: gauge(
                "chiton_module_info",
                "1 for each module version that is known",
                &["module", "version", "digest", "state"],
            )?,
            registry,
        })
    }

    /// All metrics as text.
    pub fn text(&self, admin: &Admin) -> prometheus::Result<String> {
        let counters = admin.xds.metrics();
        for kind in ResourceType::ALL {
            let sent = counters.resources_sent(kind) + counters.resources_removed(kind);
            set(&self.resources_sent, &[kind.short_name()], sent);
            set(&self.nacks, &[kind.short_name()], counters.nacks(kind));
        }
        set(&self.streams, &[], counters.streams());
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

fn set(gauge: &IntGaugeVec, labels: &[&str], value: u64) {
    gauge
        .with_label_values(labels)
        .set(i64::try_from(value).unwrap_or(i64::MAX));
}
