//! Gateways: names, conflicts, certificates.

use super::lab::*;
use super::make::*;
use crate::store::Key;
use crate::synchronizer::Options;
use chiton_ir::Scope;
use chiton_xds::ResourceType;
use serde_json::{Value, json};

fn secret(name: &str, certificate: &str, key: &str) -> Value {
    let mut secret = named("v1", "Secret", name);
    secret["type"] = "kubernetes.io/tls".into();
    secret["stringData"] = json!({"tls.crt": certificate, "tls.key": key});
    secret
}

fn pair() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(vec!["a.example".to_owned()]).expect("a pair");
    (made.cert.pem(), made.signing_key.serialize_pem())
}

fn section(name: &str) -> Scope {
    Scope::Section(name.to_owned())
}

fn of(lab: &Lab, gateway: &Key, listener: &str, r#type: &str) -> Option<String> {
    lab.condition(gateway, &section(listener), r#type)
}

#[test]
fn conflicts_go_to_the_oldest_gateway() {
    let mut lab = Lab::default();
    let first = lab.gateway(
        "a",
        vec![http("web", 80, Some("a.example")), http("any", 80, None)],
    );
    let second = lab.gateway(
        "b",
        vec![
            https("tls", 80, None, &[]),
            http("same", 80, Some("a.example")),
            http("other", 80, Some("b.example")),
        ],
    );
    lab.step();
    assert_eq!(of(&lab, &first, "web", "Conflicted"), None);
    assert_eq!(
        of(&lab, &second, "tls", "Conflicted").as_deref(),
        Some("True ProtocolConflict")
    );
    assert_eq!(
        of(&lab, &second, "same", "Conflicted").as_deref(),
        Some("True HostnameConflict")
    );
    assert_eq!(
        of(&lab, &second, "same", "Accepted").as_deref(),
        Some("False HostnameConflict")
    );
    assert_eq!(of(&lab, &second, "other", "Conflicted"), None);
    assert_eq!(lab.names(ResourceType::Listener), ["http-80"]);
    assert!(lab.findings[&second].sections["same"].is_empty());
    assert_eq!(lab.findings[&second].sections["other"].len(), 2);
    lab.delete(&first);
    lab.step();
    assert_eq!(lab.names(ResourceType::Listener), Vec::<&str>::new());
    assert_eq!(
        of(&lab, &second, "same", "Conflicted").as_deref(),
        Some("True ProtocolConflict")
    );
}

#[test]
fn a_route_follows_the_listener_that_won() {
    let mut lab = Lab::default();
    lab.service("s");
    let first = lab.gateway("a", vec![http("web", 80, None)]);
    lab.gateway("b", vec![http("web", 80, None)]);
    let parents = vec![at("a", "web", &["a"]), at("b", "web", &["b"])];
    let key = lab.route("r", route(parents, vec![rule("/", "s")]));
    lab.step();
    assert_eq!(lab.names(ResourceType::VirtualHost), ["http-80/a"]);
    assert_eq!(lab.findings[&first].attached_routes["web"], 1);
    lab.delete(&first);
    lab.step();
    assert_eq!(lab.names(ResourceType::VirtualHost), ["http-80/b"]);
    assert_eq!(lab.findings[&key].resources[0].1.len(), 4);
}

#[test]
fn certificates_are_checked_before_they_are_sent() {
    let mut lab = Lab::default();
    let gateway = lab.gateway("gw", vec![https("tls", 443, Some("a.example"), &["c"])]);
    let refused = |lab: &Lab| of(lab, &gateway, "tls", "ResolvedRefs");
    lab.step();
    assert_eq!(
        refused(&lab).as_deref(),
        Some("False InvalidCertificateRef")
    );
    assert!(lab.names(ResourceType::Listener).is_empty());
    let ((certificate, key), (_, other)) = (pair(), pair());
    for (certificate, key) in [
        ("", &*key),
        (&*certificate, ""),
        ("rubbish", &key),
        (&certificate, "rubbish"),
        (&certificate, &other),
    ] {
        lab.input(&secret("c", certificate, key));
        lab.step();
        assert_eq!(
            refused(&lab).as_deref(),
            Some("False InvalidCertificateRef")
        );
        assert!(lab.names(ResourceType::Secret).is_empty());
    }
    lab.input(&secret("c", &certificate, &key));
    let delta = lab.step();
    assert_eq!(refused(&lab), None);
    assert_eq!(lab.names(ResourceType::Secret), ["secret_default_c"]);
    assert_eq!(
        lab.names(ResourceType::RouteConfiguration),
        ["https-443_default_gw_tls"]
    );
    assert_eq!(changed(&delta).len(), 5, "{:?}", changed(&delta));
    let (certificate, key) = pair();
    lab.input(&secret("c", &certificate, &key));
    assert_eq!(changed(&lab.step()), ["Secret secret_default_c"]);
}

#[test]
fn a_certificate_of_another_namespace_needs_a_grant() {
    let mut lab = Lab::default();
    let (certificate, key) = pair();
    let mut secret = secret("c", &certificate, &key);
    secret["metadata"]["namespace"] = "certs".into();
    lab.input(&secret);
    let gateway = lab.gateway("gw", vec![https("tls", 443, None, &["certs/c"])]);
    lab.step();
    assert_eq!(
        of(&lab, &gateway, "tls", "ResolvedRefs").as_deref(),
        Some("False RefNotPermitted")
    );
    let mut grant = named("gateway.networking.k8s.io/v1", "ReferenceGrant", "g");
    grant["metadata"]["namespace"] = "certs".into();
    grant["spec"] = json!({
        "from": [{"group": GATEWAY, "kind": "Gateway", "namespace": "default"}],
        "to": [{"group": "", "kind": "Secret"}],
    });
    lab.input(&grant);
    lab.step();
    assert_eq!(of(&lab, &gateway, "tls", "ResolvedRefs"), None);
    assert_eq!(lab.names(ResourceType::Listener), ["https-443"]);
}

#[test]
fn a_request_over_the_wrong_connection_is_misdirected() {
    let mut lab = Lab::default();
    lab.service("s");
    let (certificate, key) = pair();
    lab.input(&secret("c", &certificate, &key));
    lab.gateway(
        "gw",
        vec![
            https("wild", 443, Some("*.example"), &["c"]),
            https("exact", 443, Some("a.example"), &["c"]),
        ],
    );
    let names = ["*.example", "a.example"];
    lab.route(
        "r",
        route(vec![at("gw", "wild", &names)], vec![rule("/", "s")]),
    );
    lab.step();
    assert_eq!(
        lab.names(ResourceType::VirtualHost),
        [
            "https-443_default_gw_wild/*.example",
            "https-443_default_gw_wild/a.example"
        ]
    );
    let host = lab.host("https-443_default_gw_wild", "a.example");
    assert!(format!("{:?}", host.routes).contains("421"));
}

#[test]
fn low_ports_are_mapped_and_addresses_are_named() {
    let mut lab = Lab::new(Options {
        low_port_offset: 10_000,
        ..options()
    });
    let first = lab.gateway("a", vec![http("web", 80, None)]);
    let second = lab.gateway("b", vec![http("web", 10_080, None)]);
    lab.step();
    assert_eq!(lab.names(ResourceType::Listener), ["http-80"]);
    assert_eq!(of(&lab, &first, "web", "Accepted"), None);
    assert_eq!(
        of(&lab, &second, "web", "Accepted").as_deref(),
        Some("False PortUnavailable")
    );
    assert_eq!(
        lab.condition(&second, &Scope::Object, "Accepted")
            .as_deref(),
        Some("False ListenersNotValid")
    );
    let gateway = chiton_ir::gateway::Gateway {
        listeners: vec![http("web", 80, None)],
        addresses: vec!["127.0.0.2".into(), "not an address".into()],
    };
    lab.output(
        &second,
        crate::pipeline::Documents {
            gateway: Some(gateway.into()),
            ..crate::pipeline::Documents::default()
        },
    );
    lab.step();
    assert_eq!(
        lab.names(ResourceType::Listener),
        ["http-80", "http-80_127.0.0.2"]
    );
    assert_eq!(
        lab.condition(&second, &Scope::Object, "Accepted")
            .as_deref(),
        Some("False UnsupportedAddress")
    );
}

#[test]
fn each_gateway_can_have_a_fleet() {
    let mut lab = Lab::new(Options {
        fleet_per_gateway: true,
        ..options()
    });
    lab.service("s");
    lab.gateway("a", vec![http("web", 80, None)]);
    let second = lab.gateway("b", vec![http("web", 80, None)]);
    let parents = vec![at("a", "web", &["a"]), at("b", "web", &["a"])];
    lab.route("r", route(parents, vec![rule("/", "s")]));
    lab.step();
    assert_eq!(
        lab.proxies.keys().collect::<Vec<_>>(),
        ["default/a", "default/b"]
    );
    assert_eq!(
        lab.proxies["default/a"].len(),
        lab.proxies["default/b"].len()
    );
    lab.delete(&second);
    lab.step();
    // What routes ask for elsewhere stays; nothing of the fleet is left.
    assert_eq!(lab.proxies.keys().collect::<Vec<_>>(), ["default/a"]);
}
