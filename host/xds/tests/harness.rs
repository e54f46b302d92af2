//! The public xDS test harness (`tests/xds/harness`) against this server: all its scenarios for
//! aggregated streams, see `tests/xds/README.md`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "support/adapter.rs"]
mod adapter;
#[path = "support/program.rs"]
mod program;
#[path = "support/scenarios.rs"]
mod scenarios;
mod support;

use futures::future::join_all;
use scenarios::Scenario;

/// These wait half a minute to see that nothing comes.
fn is_slow(scenario: &Scenario) -> bool {
    scenario.name.contains("incrementally unsubscribe")
}

/// Runs scenarios side by side; panics with those that do not pass.
async fn pass(variant: &str, scenarios: &[Scenario]) {
    let results = join_all(scenarios.iter().map(|scenario| scenario.run(variant))).await;
    let failures: Vec<String> = std::iter::zip(scenarios, results)
        .filter_map(|(scenario, result)| Some(format!("{}: {}", scenario.name, result.err()?)))
        .collect();
    assert!(
        failures.is_empty(),
        "{} of {} scenarios failed:\n{}",
        failures.len(),
        scenarios.len(),
        failures.join("\n")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn state_of_the_world() {
    let scenarios = Scenario::all("sotw");
    assert_eq!(scenarios.len(), 26);
    pass("sotw", &scenarios).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn incremental() {
    let mut scenarios = Scenario::all("incremental");
    assert_eq!(scenarios.len(), 26);
    scenarios.retain(|scenario| !is_slow(scenario));
    pass("incremental", &scenarios).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "soak"]
async fn incremental_that_waits_long() {
    let mut scenarios = Scenario::all("incremental");
    scenarios.retain(is_slow);
    assert_eq!(scenarios.len(), 4);
    pass("incremental", &scenarios).await;
}
