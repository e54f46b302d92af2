//! What a real Envoy has, in the form in which `chiton render` prints it.

use anyhow::Context as _;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Resources by type and name.
pub type Resources = BTreeMap<String, BTreeMap<String, Value>>;

/// The resources of the fleet `default` in the output of `chiton render`.
pub fn of_render(output: &str) -> anyhow::Result<Resources> {
    let document: Value = serde_saphyr::from_str(output)?;
    let fleet = document["resources"]["default"].clone();
    if fleet.is_null() {
        return Ok(Resources::new());
    }
    let mut resources: Resources = serde_json::from_value(fleet)?;
    // The type is told by the section; within others Envoy does not repeat it.
    for resource in resources.values_mut().flat_map(BTreeMap::values_mut) {
        if let Some(fields) = resource.as_object_mut() {
            fields.remove("@type");
        }
    }
    Ok(resources)
}

/// The resources in `/config_dump?include_eds`, without those of the bootstrap. Virtual hosts, which
/// Envoy shows within their route configurations, are taken out of them.
pub fn of_envoy(dump: &Value) -> anyhow::Result<Resources> {
    let mut resources = Resources::new();
    for part in dump["configs"].as_array().context("there are no configs")? {
        let kind = part["@type"].as_str().unwrap_or_default();
        match kind.rsplit('.').next().unwrap_or_default() {
            "ListenersConfigDump" => add(
                &mut resources,
                "Listener",
                part,
                "dynamic_listeners",
                &["active_state", "listener"],
            ),
            "ClustersConfigDump" => {
                add(
                    &mut resources,
                    "Cluster",
                    part,
                    "dynamic_active_clusters",
                    &["cluster"],
                );
            }
            "RoutesConfigDump" => add(
                &mut resources,
                "RouteConfiguration",
                part,
                "dynamic_route_configs",
                &["route_config"],
            ),
            "SecretsConfigDump" => {
                add(
                    &mut resources,
                    "Secret",
                    part,
                    "dynamic_active_secrets",
                    &["secret"],
                );
            }
            "EcdsConfigDump" => add(
                &mut resources,
                "TypedExtensionConfig",
                part,
                "ecds_filters",
                &["ecds_filter"],
            ),
            "EndpointsConfigDump" => add(
                &mut resources,
                "ClusterLoadAssignment",
                part,
                "dynamic_endpoint_configs",
                &["endpoint_config"],
            ),
            _ => {}
        }
    }
    take_out_virtual_hosts(&mut resources);
    Ok(resources)
}

/// The versions of dynamic resources, with the names that they stand beside.
pub fn versions(dump: &Value) -> BTreeSet<(String, String)> {
    let mut all = BTreeSet::new();
    collect_versions(dump, &mut all);
    all
}

fn collect_versions(value: &Value, all: &mut BTreeSet<(String, String)>) {
    match value {
        Value::Object(fields) => {
            if let Some(version) = fields.get("version_info").and_then(Value::as_str) {
                let resource = [
                    "listener",
                    "cluster",
                    "route_config",
                    "secret",
                    "ecds_filter",
                ]
                .into_iter()
                .find_map(|field| fields.get(field)?["name"].as_str());
                all.insert((resource.unwrap_or_default().to_owned(), version.to_owned()));
            }
            fields
                .values()
                .for_each(|value| collect_versions(value, all));
        }
        Value::Array(values) => values.iter().for_each(|value| collect_versions(value, all)),
        _ => {}
    }
}

fn add(resources: &mut Resources, kind: &str, part: &Value, list: &str, path: &[&str]) {
    for entry in part[list].as_array().into_iter().flatten() {
        let resource = path.iter().fold(entry, |value, field| &value[*field]);
        let name = resource["name"]
            .as_str()
            .or_else(|| resource["cluster_name"].as_str());
        if let Some(name) = name {
            resources
                .entry(kind.to_owned())
                .or_default()
                .insert(name.to_owned(), resource.clone());
        }
    }
}

fn take_out_virtual_hosts(resources: &mut Resources) {
    let mut hosts = BTreeMap::new();
    for config in resources
        .get_mut("RouteConfiguration")
        .into_iter()
        .flat_map(BTreeMap::values_mut)
    {
        let taken = config
            .as_object_mut()
            .and_then(|fields| fields.remove("virtual_hosts"));
        for host in taken
            .as_ref()
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let name = host["name"].as_str().unwrap_or_default();
            hosts.insert(name.to_owned(), host.clone());
        }
    }
    if !hosts.is_empty() {
        resources.insert("VirtualHost".to_owned(), hosts);
    }
}

/// What of `expected` is not in `actual`, by path; none if all of it is. Both may have more than the
/// other where that says nothing: Envoy leaves out defaults and adds what it worked out itself, so a
/// field that `expected` does not have may stand in `actual`. Lists must be equally long.
pub fn missing(expected: &Value, actual: &Value, at: &str) -> Option<String> {
    match (expected, actual) {
        // Envoy hides secrets in its own way, and more of them: the client that a key belongs to.
        (Value::String(text), _) | (_, Value::String(text)) if text == "[redacted]" => None,
        (Value::Object(expected), Value::Object(actual)) => {
            expected.iter().find_map(|(key, value)| {
                let at = format!("{at}.{key}");
                match actual.get(key) {
                    Some(other) => missing(value, other, &at),
                    None => Some(format!("{at} is not there")),
                }
            })
        }
        (Value::Array(expected), Value::Array(actual)) if expected.len() == actual.len() => {
            expected
                .iter()
                .zip(actual)
                .enumerate()
                .find_map(|(index, (one, other))| missing(one, other, &format!("{at}[{index}]")))
        }
        // Numbers of 64 bits are strings in the JSON of protobuf.
        (Value::Number(number), Value::String(text)) if number.to_string() == *text => None,
        _ if expected == actual => None,
        _ => Some(format!("{at} is {actual}, not {expected}")),
    }
}

/// An endpoint set as addresses alone: Envoy shows what it made of it, health and weights included.
pub fn addresses(endpoints: &Value) -> Vec<String> {
    let mut all = Vec::new();
    collect_addresses(endpoints, &mut all);
    all.sort();
    all
}

fn collect_addresses(value: &Value, all: &mut Vec<String>) {
    match value {
        Value::Object(fields) => match fields.get("socket_address").and_then(Value::as_object) {
            Some(socket) => all.push(address(socket)),
            None => fields
                .values()
                .for_each(|value| collect_addresses(value, all)),
        },
        Value::Array(values) => values
            .iter()
            .for_each(|value| collect_addresses(value, all)),
        _ => {}
    }
}

fn address(socket: &Map<String, Value>) -> String {
    let field = |name| socket.get(name).cloned().unwrap_or_default();
    format!("{}:{}", field("address"), field("port_value"))
}
