//! The scenarios of the public xDS test harness, each by itself.
//!
//! They wait in real time and hardly work, so they run side by side, each with a process and a
//! server of its own. That takes a feature file for each: the outlines of the harness's files are
//! filled in with their examples here, which is what the harness would do.

use crate::adapter::{Adapter, Front};
use crate::program;
use crate::support::{PATIENCE, Running};
use chiton_xds::Options;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_server::AggregatedDiscoveryServiceServer;
use serde_json::Value;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::process::Command;
use tonic::transport::server::TcpIncoming;

/// A feature file with one scenario.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Title, with the values of its example.
    pub name: String,
    tags: String,
    steps: Vec<String>,
}

impl Scenario {
    /// All scenarios of a variant of the protocol, `sotw` or `incremental`, over aggregated streams.
    pub fn all(variant: &str) -> Vec<Self> {
        let features =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/xds/harness/features");
        let mut scenarios = Vec::new();
        for file in ["subscribing", "unsubcribing", "delta"] {
            let path = features.join(format!("{file}.feature"));
            scenarios.extend(parse(
                &std::fs::read_to_string(path).expect("a feature file"),
            ));
        }
        let has = |scenario: &Self, tag: &str| scenario.tags.split(' ').any(|other| other == tag);
        scenarios.retain(|scenario| {
            has(scenario, &format!("@{variant}")) && has(scenario, "@aggregated")
        });
        scenarios
    }

    /// Runs the harness on it against a fresh server; what failed, if something did.
    pub async fn run(&self, variant: &str) -> Result<(), String> {
        let folder = tempfile::tempdir().expect("a folder");
        let features = folder.path().join("features");
        std::fs::create_dir(&features).expect("a folder");
        let feature = format!(
            "Feature: one\n\n{}\nScenario: {}\n{}\n",
            self.tags,
            self.name,
            self.steps.join("\n")
        );
        std::fs::write(features.join("one.feature"), feature).expect("the feature");

        let server = Running::start(Options::default()).await;
        let labels = Arc::default();
        let adapter = Adapter::new(server.clone(), &labels);
        let front = AggregatedDiscoveryServiceServer::new(Front {
            address: server.tcp(),
            labels,
        });
        let address = serve(
            tonic::transport::Server::builder()
                .add_service(adapter)
                .add_service(front),
        )
        .await;
        let port = format!(":{}", address.port());
        let output = Command::new(program::path("xds-test-harness"))
            .args(["-A", &port, "-T", &port, "-N", "harness"])
            .args(["-V", &format!("{variant} aggregated")])
            .current_dir(folder.path())
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(PATIENCE + Duration::from_mins(1), output).await;
        let output = output.map_err(|_| "it does not end")?.expect("it runs");
        self.judge(folder.path())
            .map_err(|text| format!("{text}\n{}", String::from_utf8_lossy(&output.stderr)))
    }

    /// Reads what the harness wrote: all steps passed, and none was left out.
    fn judge(&self, folder: &Path) -> Result<(), String> {
        let results = std::fs::read(folder.join("results.json"))
            .map_err(|error| format!("no results: {error}"))?;
        let results: Value = serde_json::from_slice(&results).map_err(|error| error.to_string())?;
        let expected = self.steps.len();
        if results["Total"] == expected && results["Passed"] == expected {
            return Ok(());
        }
        Err(results["ResultsByVariant"][0]["failedScenarios"].to_string())
    }
}

async fn serve(router: tonic::transport::server::Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(router.serve_with_incoming(TcpIncoming::from(listener)));
    address
}

/// The outlines of a feature file, filled in.
fn parse(feature: &str) -> Vec<Scenario> {
    let mut scenarios = Vec::new();
    let (mut tags, mut title, mut steps) = (String::new(), String::new(), Vec::new());
    let mut header: Option<Vec<&str>> = None;
    for line in feature.lines().map(str::trim) {
        if line.starts_with('@') {
            line.clone_into(&mut tags);
        } else if let Some(rest) = line.strip_prefix("Scenario Outline:") {
            rest.trim().clone_into(&mut title);
            steps.clear();
            header = None;
        } else if ["Given ", "When ", "Then ", "And "]
            .iter()
            .any(|word| line.starts_with(word))
        {
            steps.push(line.to_owned());
        } else if line.starts_with('|') {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let Some(names) = &header else {
                header = Some(cells);
                continue;
            };
            let fill = |text: &str| {
                names
                    .iter()
                    .zip(&cells)
                    .fold(text.to_owned(), |text, (name, value)| {
                        text.replace(&format!("<{name}>"), value)
                    })
            };
            scenarios.push(Scenario {
                name: fill(&title),
                tags: tags.clone(),
                steps: steps.iter().map(|step| fill(step)).collect(),
            });
        }
    }
    scenarios
}
