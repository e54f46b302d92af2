//! What is rendered is what a real Envoy accepts and has.

use crate::cases::{self, Case};
use crate::dump::{self, Resources};
use anyhow::Context as _;
use chiton_tests::{Host, envoy, wait};
use std::collections::BTreeSet;

/// One host with one Envoy serves case after case. Each case is there only when Envoy has acknowledged
/// everything of it, has every resource that was rendered, and nothing else.
#[tokio::test]
async fn case_after_case_is_found_in_envoy() -> anyhow::Result<()> {
    let mut cases = cases::all()?;
    cases.retain(|case| !cases::WITH_OWN_ADDRESSES.contains(&case.name.as_str()));
    let host = Host::start(&[]).await?;
    let mut previous: Option<String> = None;
    for case in &cases {
        // A file of its own: one that does not parse would keep the objects of the case before.
        let file = format!("{}.yaml", case.name);
        host.write(&file, &case.input()?)?;
        if let Some(previous) = previous.replace(file) {
            host.remove(&previous)?;
        }
        is_served(&host, case).await?;
    }
    host.stop().await
}

/// Here the host must not choose the address.
#[tokio::test]
async fn addresses_of_gateways_are_bound() -> anyhow::Result<()> {
    for name in cases::WITH_OWN_ADDRESSES {
        let case = cases::named(name)?;
        let host = Host::start_unbound(&[("in.yaml", &case.input()?)]).await?;
        is_served(&host, &case).await?;
        host.stop().await?;
    }
    Ok(())
}

/// Two hosts, one after the other on the same ports, give Envoy the same versions though the objects
/// stand in other files and in another order: an Envoy that goes from one to the other is sent nothing.
#[tokio::test]
async fn versions_do_not_depend_on_files() -> anyhow::Result<()> {
    let case = cases::named("policy-listener")?;
    let input = case.input()?.replace("18080", "18180");
    let mut documents: Vec<&str> = input.split("\n---\n").collect();
    documents.reverse();
    let (first, second) = documents.split_at(documents.len() / 2);
    let halves = [first.join("\n---\n"), second.join("\n---\n")];
    let whole = versions_of(&[("in.yaml", &input)]).await?;
    let split = versions_of(&[("a.yaml", &halves[0]), ("b.yaml", &halves[1])]).await?;
    assert_eq!(whole, split);
    Ok(())
}

/// Versions of everything that an Envoy has once all of it is acknowledged, by name.
async fn versions_of(files: &[(&str, &str)]) -> anyhow::Result<BTreeSet<(String, String)>> {
    let host = Host::start(files).await?;
    host.programmed("HTTPRoute", "r").await?;
    host.programmed("Policy", "p").await?;
    let dump = envoy::get(&host.data_dir(), "/config_dump").await?;
    let versions = dump::versions(&dump);
    anyhow::ensure!(versions.len() >= 3, "too few versions: {versions:?}");
    host.stop().await?;
    Ok(versions)
}

async fn is_served(host: &Host, case: &Case) -> anyhow::Result<()> {
    let expected = dump::of_render(&case.output()?)?;
    wait::until(&format!("{} is served", case.name), async || {
        check(host, &expected)
            .await
            .map_err(|error| format!("{error:#}"))
    })
    .await
    .with_context(|| host.output())?;
    let nacks = host.nacks().await?;
    anyhow::ensure!(nacks.is_empty(), "{}: {}", case.name, nacks.join("\n"));
    Ok(())
}

async fn check(host: &Host, expected: &Resources) -> anyhow::Result<()> {
    let dump = envoy::get(&host.data_dir(), "/config_dump?include_eds").await?;
    let actual = dump::of_envoy(&dump)?;
    for (kind, resources) in expected {
        for (name, resource) in resources {
            let found = actual
                .get(kind)
                .and_then(|all| all.get(name))
                .with_context(|| format!("Envoy has no {kind} {name}"))?;
            let missing = if kind == "ClusterLoadAssignment" {
                let (here, there) = (dump::addresses(resource), dump::addresses(found));
                (here != there).then(|| format!("{name}: {there:?}, not {here:?}"))
            } else {
                dump::missing(resource, found, name)
            };
            if let Some(missing) = missing {
                anyhow::bail!("{kind} {missing}");
            }
        }
    }
    let names = |resources: &Resources| -> BTreeSet<(String, String)> {
        let pairs = resources.iter().flat_map(|(kind, all)| {
            let names = all.keys().cloned();
            names.map(|name| (kind.clone(), name))
        });
        pairs.filter(|(kind, _)| is_removed_at_once(kind)).collect()
    };
    let more: Vec<_> = names(&actual)
        .difference(&names(expected))
        .cloned()
        .collect();
    anyhow::ensure!(more.is_empty(), "Envoy also has {more:?}");
    host.acked().await
}

/// Envoy keeps route configurations, their virtual hosts, filters and secrets of a listener while it
/// drains, and shows them for as long. Among endpoint sets it shows those of static clusters too.
fn is_removed_at_once(kind: &str) -> bool {
    ["Listener", "Cluster"].contains(&kind)
}
