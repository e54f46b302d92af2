//! Printing, and whether the descriptors are those of `envoy-types`.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::super::pb::google::protobuf::{FileDescriptorProto, FileDescriptorSet};
use super::super::{rate_limits, route_config, tls_secret, virtual_host};
use super::*;
use crate::synchronizer::model::{
    Action, Credential, PlacedEffect, RateLimits, RouteConfig, RouteEntry, TlsSecret, VirtualHost,
};
use chiton_ir::policy::{ApiKey, Effect, KeySource, RateLimit};
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

/// Files of `envoy-types` that hold the types that are printed; what they import follows.
const FILES: [&str; 16] = [
    "envoy/config/cluster/v3/cluster.proto",
    "envoy/config/core/v3/extension.proto",
    "envoy/config/endpoint/v3/endpoint.proto",
    "envoy/config/listener/v3/listener.proto",
    "envoy/config/route/v3/route.proto",
    "envoy/extensions/access_loggers/stream/v3/stream.proto",
    "envoy/extensions/clusters/dns/v3/dns_cluster.proto",
    "envoy/extensions/filters/http/api_key_auth/v3/api_key_auth.proto",
    "envoy/extensions/filters/http/cors/v3/cors.proto",
    "envoy/extensions/filters/http/header_mutation/v3/header_mutation.proto",
    "envoy/extensions/filters/http/local_ratelimit/v3/local_rate_limit.proto",
    "envoy/extensions/filters/http/router/v3/router.proto",
    "envoy/extensions/filters/listener/tls_inspector/v3/tls_inspector.proto",
    "envoy/extensions/filters/network/http_connection_manager/v3/http_connection_manager.proto",
    "envoy/extensions/transport_sockets/tls/v3/tls.proto",
    "envoy/extensions/upstreams/http/v3/http_protocol_options.proto",
];

/// Files that only options refer to, and options are left out.
const OPTIONS: [&str; 4] = [
    "validate/",
    "udpa/annotations/",
    "xds/annotations/",
    "envoy/annotations/",
];

fn cargo(arguments: &[&str]) -> Vec<u8> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let output = std::process::Command::new(cargo)
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

fn shipped() -> FileDescriptorSet {
    // Without a platform cargo wants the packages of all of them.
    let about = String::from_utf8(cargo(&["-vV"])).expect("text");
    let host = about
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .expect("a host");
    let metadata = cargo(&[
        "metadata",
        "--format-version=1",
        "--offline",
        "--locked",
        "--filter-platform",
        host,
    ]);
    let metadata: Json = serde_json::from_slice(&metadata).expect("JSON");
    let manifest = metadata["packages"]
        .as_array()
        .expect("packages")
        .iter()
        .find(|package| package["name"] == "envoy-types")
        .and_then(|package| package["manifest_path"].as_str())
        .map(PathBuf::from)
        .expect("envoy-types is a dependency");
    let bytes = std::fs::read(manifest.with_file_name("src/generated/types.bin"))
        .expect("envoy-types ships a descriptor set");
    FileDescriptorSet::decode(bytes.as_slice()).expect("a descriptor set")
}

/// The files and what they import, in the order of imports, without comments and options.
fn trimmed(shipped: FileDescriptorSet) -> Vec<u8> {
    let files: BTreeMap<String, FileDescriptorProto> = shipped
        .file
        .into_iter()
        .map(|file| (file.name().to_owned(), file))
        .collect();
    let mut set = FileDescriptorSet::default();
    let mut seen = BTreeSet::new();
    for name in FILES {
        take(name, &files, &mut seen, &mut set);
    }
    set.encode_to_vec()
}

fn take(
    name: &str,
    files: &BTreeMap<String, FileDescriptorProto>,
    seen: &mut BTreeSet<String>,
    set: &mut FileDescriptorSet,
) {
    if !seen.insert(name.to_owned()) {
        return;
    }
    let mut file = files.get(name).expect("an imported file").clone();
    file.dependency
        .retain(|import| !OPTIONS.iter().any(|prefix| import.starts_with(prefix)));
    file.public_dependency.clear();
    file.weak_dependency.clear();
    file.source_code_info = None;
    file.options = None;
    file.extension.clear();
    for import in &file.dependency {
        take(import, files, seen, set);
    }
    set.file.push(file);
}

#[test]
fn descriptors_are_those_of_envoy_types() {
    let made = trimmed(shipped());
    if std::env::var_os("CHITON_UPDATE_DESCRIPTORS").is_some() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/src/synchronizer/envoy/descriptors.bin"
        );
        std::fs::write(path, &made).expect("the file is written");
        return;
    }
    assert!(
        made == DESCRIPTORS,
        "descriptors.bin is not current: run this test with CHITON_UPDATE_DESCRIPTORS=1"
    );
}

fn api_key(key: &str) -> PlacedEffect {
    PlacedEffect {
        effect: Arc::new(Effect::ApiKey(ApiKey {
            secrets: Vec::new(),
            sources: vec![KeySource::Header("x-key".into())],
            client_header: None,
        })),
        bucket: "b".into(),
        keys: Some(Arc::new(vec![Credential {
            client: "somebody".into(),
            key: key.into(),
        }])),
    }
}

#[test]
fn secrets_are_not_printed() {
    let secret = tls_secret(&TlsSecret {
        name: "secret_a_b".into(),
        certificate: b"-----BEGIN CERTIFICATE-----".to_vec(),
        private_key: b"very private".to_vec(),
    });
    let printed = print(&secret).expect("a secret").to_string();
    assert!(printed.contains("BEGIN CERTIFICATE") && printed.contains(REDACTED));
    assert!(!printed.contains("very private"));

    let config = route_config(&RouteConfig {
        name: "rc".into(),
        effects: [("apiKey", api_key("0123456789"))].into(),
    });
    let printed = print(&config).expect("a route configuration").to_string();
    assert!(printed.contains("somebody") && printed.contains(REDACTED));
    assert!(!printed.contains("0123456789"));
}

#[test]
fn types_in_any_are_opened_and_switches_too() {
    let limit = RateLimit {
        requests: 3,
        interval_ms: 1_500,
        burst: None,
    };
    let host = virtual_host(&VirtualHost {
        route_config: "rc".into(),
        hostname: "a.example".into(),
        listener_port: 80,
        tls: false,
        effects: BTreeMap::new(),
        routes: vec![Arc::new(RouteEntry {
            name: "default/a".into(),
            prefix: String::new(),
            environment: None,
            matches: chiton_ir::route::Match::default(),
            filters: Vec::new(),
            mirrors: Vec::new(),
            action: Action::Respond {
                status: 200,
                body: "hello".into(),
            },
            timeouts: chiton_ir::route::Timeouts::default(),
            effects: [(
                "rateLimit",
                PlacedEffect {
                    effect: Arc::new(Effect::RateLimit(limit)),
                    bucket: "route_default_a".into(),
                    keys: None,
                },
            )]
            .into(),
            without: vec!["cors"],
        })],
    });
    let printed = print(&host).expect("a virtual host");
    let route = &printed["routes"][0];
    assert_eq!(printed["name"], "rc/a.example");
    assert_eq!(
        route["metadata"]["filter_metadata"]["chiton.rate-limit"]["bucket"],
        "route_default_a"
    );
    let settings = &route["typed_per_filter_config"];
    assert_eq!(settings["envoy.filters.http.cors"]["disabled"], true);
    assert_eq!(
        settings["rate-limit_rc"]["config"],
        Json::Object(Map::new())
    );

    let limits = rate_limits(&RateLimits {
        name: "rate-limit_rc".into(),
        buckets: [("route_default_a".to_owned(), limit)].into(),
        wide: None,
    });
    let printed = print(&limits).expect("an extension configuration");
    let bucket = &printed["typed_config"]["descriptors"][0]["token_bucket"];
    assert_eq!(bucket["fill_interval"], "1.500s");
    assert_eq!(bucket["tokens_per_fill"], 3);
}
