//! APIs: prefixes, environments, conflicts.

use super::lab::*;
use super::make::*;
use chiton_ir::api::{Api, SandboxHeader};
use chiton_ir::{ObjectRef, Scope};
use chiton_xds::ResourceType;

fn httproute(name: &str) -> ObjectRef {
    ObjectRef::new(GATEWAY, "HTTPRoute", "default", name)
}

fn api(prefixes: &[&str], production: &str) -> Api {
    Api {
        prefixes: prefixes.iter().map(|it| (*it).to_owned()).collect(),
        production: Some(httproute(production)),
        ..Api::default()
    }
}

fn lab() -> Lab {
    let mut lab = Lab::default();
    lab.gateway("gw", vec![http("web", 80, None)]);
    lab.service("s");
    for name in ["r", "q"] {
        let rules = vec![rule("/list", "s")];
        lab.route(name, route(vec![at("gw", "web", &["a.example"])], rules));
    }
    lab.step();
    lab
}

fn prefixes(lab: &Lab) -> Vec<(String, String)> {
    let routes = lab.host("http-80", "a.example").routes;
    routes
        .iter()
        .map(|it| (it.name.clone(), it.prefix.clone()))
        .collect()
}

fn entry(route: &str, prefix: &str) -> (String, String) {
    (format!("default/{route}"), prefix.to_owned())
}

#[test]
fn a_route_of_an_api_is_served_under_its_prefixes_only() {
    let mut lab = lab();
    let key = lab.api("orders", "r", Some(api(&["/orders/v1", "/orders"], "r")));
    lab.step();
    assert_eq!(
        prefixes(&lab),
        [
            entry("r", "/orders/v1"),
            entry("r", "/orders"),
            entry("q", "")
        ]
    );
    assert_eq!(lab.findings[&key].resources[0].1.len(), 4);
    let said = |lab: &Lab| {
        let route = httproute("r").into();
        lab.condition(&route, &Scope::Parent(parent("gw")), "PartiallyInvalid")
    };
    assert_eq!(said(&lab), None);
    // An invalid API does not put its routes onto the bare hostname, and they say so.
    lab.api("orders", "r", None);
    lab.step();
    assert_eq!(prefixes(&lab), [entry("q", "")]);
    assert_eq!(said(&lab).as_deref(), Some("True UnsupportedValue"));
    lab.delete(&key);
    lab.step();
    assert_eq!(prefixes(&lab), [entry("q", ""), entry("r", "")]);
}

#[test]
fn a_header_tells_sandbox_from_production() {
    let mut lab = lab();
    let composed = Api {
        sandbox: Some(httproute("q")),
        sandbox_header: Some(SandboxHeader {
            name: "x-env".into(),
            value: "sandbox".into(),
        }),
        ..api(&["/orders"], "r")
    };
    lab.api("orders", "r", Some(composed));
    lab.step();
    let routes = lab.host("http-80", "a.example").routes;
    let environments: Vec<_> = routes
        .into_iter()
        .map(|it| (it.name.clone(), it.environment.as_ref().map(|it| it.2)))
        .collect();
    assert_eq!(
        environments,
        [
            ("default/q".into(), Some(true)),
            ("default/r".into(), Some(false))
        ]
    );
}

#[test]
fn a_prefix_belongs_to_the_older_api() {
    let mut lab = lab();
    let first = lab.api("a", "r", Some(api(&["/orders"], "r")));
    let second = lab.api("b", "q", Some(api(&["/orders", "/other"], "q")));
    lab.step();
    assert_eq!(
        prefixes(&lab),
        [entry("r", "/orders"), entry("q", "/other")]
    );
    let conflicted = |lab: &Lab, key| lab.condition(key, &Scope::Object, "Conflicted");
    assert_eq!(conflicted(&lab, &first), None);
    assert_eq!(
        conflicted(&lab, &second).as_deref(),
        Some("True PrefixConflict")
    );
    assert_eq!(lab.condition(&second, &Scope::Object, "Accepted"), None);
    lab.api("b", "q", Some(api(&["/orders"], "q")));
    lab.step();
    assert_eq!(
        lab.condition(&second, &Scope::Object, "Accepted")
            .as_deref(),
        Some("False Conflicted")
    );
    lab.delete(&first);
    lab.step();
    assert_eq!(conflicted(&lab, &second), None);
}

#[test]
fn a_policy_on_an_api_holds_for_its_routes_there() {
    let mut lab = lab();
    lab.api("orders", "r", Some(api(&["/orders"], "r")));
    lab.step();
    let on_api = target(CHITON, "API", "orders", None);
    let key = lab.policy("p", defaults(on_api, vec![headers("1")]));
    let delta = lab.step();
    assert_eq!(changed(&delta), ["VirtualHost http-80/a.example"]);
    let routes = lab.host("http-80", "a.example").routes;
    let effects: Vec<_> = routes
        .iter()
        .map(|it| (&*it.prefix, it.effects.len()))
        .collect();
    assert_eq!(effects, [("/orders", 1), ("", 0)]);
    assert_eq!(lab.findings[&key].ancestors, [parent("gw")]);
    assert_eq!(lab.names(ResourceType::VirtualHost), ["http-80/a.example"]);
}
