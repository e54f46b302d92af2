//! Which listeners take a route, and for which hostnames.

use super::*;
use chiton_guest::ir::gateway::LabelSelector;
use chiton_guest::testing::Read;

/// `listener: hostnames` of every attachment at the first parent.
fn attached(run: &Run) -> Vec<String> {
    let route: Route = run.document().expect("a document");
    route.parents[0]
        .listeners
        .iter()
        .map(|listener| format!("{}: {}", listener.name, listener.hostnames.join(" ")))
        .collect()
}

#[test]
fn hostnames_are_what_both_mean() {
    for (own, route_has, expected) in [
        (None, vec![], Some("*")),
        (None, vec!["b.com", "a.com"], Some("a.com b.com")),
        (Some("a.com"), vec![], Some("a.com")),
        (Some("a.com"), vec!["a.com", "b.com"], Some("a.com")),
        (Some("a.com"), vec!["*.com"], Some("a.com")),
        (Some("a.com"), vec!["*.com", "a.com"], Some("a.com")),
        (
            Some("*.a.com"),
            vec!["x.a.com", "*.y.a.com", "a.com", "b.com"],
            Some("*.y.a.com x.a.com"),
        ),
        (Some("*.a.com"), vec!["*.com"], Some("*.a.com")),
        (Some("*.a.com"), vec!["a.com"], None),
        (Some("a.com"), vec!["b.com"], None),
    ] {
        let world = world(vec![listener("l", 80, own)]);
        let run = route(
            &world,
            json!({"parentRefs": [{"name": "g"}], "hostnames": route_has}),
        );
        if let Some(names) = expected {
            assert_eq!(
                attached(&run),
                [format!("l: {names}")],
                "{own:?} {route_has:?}"
            );
            assert_eq!(said(&run, "g", "Accepted").0, "Accepted");
        } else {
            assert_eq!(attached(&run), Vec::<String>::new());
            assert_eq!(said(&run, "g", "Accepted").0, "NoMatchingListenerHostname");
        }
        assert_eq!(said(&run, "g", "ResolvedRefs").0, "ResolvedRefs");
    }
}

#[test]
fn sections_and_ports_choose_listeners() {
    let world = world(vec![
        listener("a", 80, None),
        listener("b", 80, Some("b.com")),
        listener("c", 81, None),
    ]);
    for (reference, expected) in [
        (json!({"name": "g"}), vec!["a: *", "b: b.com", "c: *"]),
        (json!({"name": "g", "sectionName": "b"}), vec!["b: b.com"]),
        (json!({"name": "g", "port": 80}), vec!["a: *", "b: b.com"]),
        (
            json!({"name": "g", "port": 81, "sectionName": "c"}),
            vec!["c: *"],
        ),
        (
            json!({"name": "g", "namespace": "default", "kind": "Gateway"}),
            vec!["a: *", "b: b.com", "c: *"],
        ),
        (json!({"name": "g", "port": 82}), vec![]),
        (json!({"name": "g", "port": 70_000}), vec![]),
        (json!({"name": "g", "sectionName": "d"}), vec![]),
        (json!({"name": "g", "port": 80, "sectionName": "c"}), vec![]),
    ] {
        let run = route(&world, json!({"parentRefs": [reference]}));
        assert_eq!(attached(&run), expected, "{reference}");
        let accepted = &run.output.conditions[0];
        let reason = if expected.is_empty() {
            "NoMatchingParent"
        } else {
            "Accepted"
        };
        assert_eq!(
            (accepted.r#type.as_str(), accepted.reason.as_str()),
            ("Accepted", reason)
        );
    }
}

#[test]
fn the_condition_stands_at_the_parent_as_it_was_named() {
    let run = route(
        &open(),
        json!({"parentRefs": [{"name": "g", "sectionName": "http", "port": 80}]}),
    );
    let parent = ParentRef {
        object: gateway("g"),
        section: Some("http".into()),
        port: Some(80),
    };
    let scope = Scope::Parent(parent);
    assert!(
        run.output
            .conditions
            .iter()
            .all(|condition| condition.scope == scope)
    );
    assert_eq!(run.output.conditions.len(), 2);
}

#[test]
fn listeners_say_which_namespaces_may_attach() {
    let selector = LabelSelector {
        match_labels: [("team".to_owned(), "a".to_owned())].into(),
        ..LabelSelector::default()
    };
    let named = LabelSelector {
        match_labels: [("kubernetes.io/metadata.name".to_owned(), "other".to_owned())].into(),
        ..LabelSelector::default()
    };
    for (scope, labels, expected) in [
        (NamespaceScope::All, "{}", true),
        (NamespaceScope::Same, "{team: a}", false),
        (
            NamespaceScope::Selector(selector.clone()),
            "{team: a}",
            true,
        ),
        (
            NamespaceScope::Selector(selector.clone()),
            "{team: b}",
            false,
        ),
        (NamespaceScope::Selector(named), "{}", true),
    ] {
        let world = world(vec![Listener {
            namespaces: scope.clone(),
            ..listener("l", 80, None)
        }])
        .yaml(&format!(
            "{{apiVersion: v1, kind: Namespace, metadata: {{name: other, labels: {labels}}}}}"
        ));
        let run = world.reconcile::<HttpRoutes>(
            "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: r, namespace: other}
spec: {parentRefs: [{name: g, namespace: default}]}
",
        );
        let reason = if expected {
            "Accepted"
        } else {
            "NotAllowedByListeners"
        };
        assert_eq!(said(&run, "g", "Accepted").0, reason, "{scope:?} {labels}");
        let namespace = Read::Get(ObjectRef::new("", "Namespace", "", "other"));
        let selects = matches!(scope, NamespaceScope::Selector(_));
        assert_eq!(
            run.reads.contains(&namespace),
            selects,
            "read only where it is needed"
        );
    }
}

#[test]
fn a_namespace_without_an_object_has_its_name_as_label() {
    let by_team = NamespaceScope::Selector(LabelSelector {
        match_labels: [("team".to_owned(), "a".to_owned())].into(),
        ..LabelSelector::default()
    });
    let world = world(vec![Listener {
        namespaces: by_team,
        ..listener("l", 80, None)
    }]);
    let run = route(&world, json!({"parentRefs": [{"name": "g"}]}));
    assert_eq!(said(&run, "g", "Accepted").0, "NotAllowedByListeners");
}

#[test]
fn listeners_say_which_kinds_may_attach() {
    let world = world(vec![Listener {
        kinds: vec![],
        ..listener("l", 80, None)
    }]);
    let run = route(&world, json!({"parentRefs": [{"name": "g"}]}));
    let (reason, message) = said(&run, "g", "Accepted");
    assert_eq!(reason, "NotAllowedByListeners");
    assert!(message.contains("l (80)"), "{message}");
}

#[test]
fn a_listener_that_is_not_accepted_still_counts_its_routes() {
    let world = world(vec![Listener {
        accepted: false,
        ..listener("l", 80, None)
    }]);
    let run = route(&world, json!({"parentRefs": [{"name": "g"}]}));
    assert_eq!(attached(&run), ["l: *"]);
}

#[test]
fn parents_that_are_not_ours_are_left_alone() {
    let theirs = World::new().yaml(
        "{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: g, namespace: default}, spec: {gatewayClassName: other}}",
    );
    let run = route(&theirs, json!({"parentRefs": [{"name": "g"}]}));
    assert!(run.output.conditions.is_empty() && run.output.documents.is_empty());
    let service = json!({"parentRefs": [{"name": "g", "group": "", "kind": "Service"}]});
    let run = route(&open(), service);
    assert!(run.output.conditions.is_empty() && run.output.documents.is_empty());
    let run = route(&open(), json!({}));
    assert!(run.output.conditions.is_empty() && run.output.documents.is_empty());
}

#[test]
fn a_parent_that_does_not_exist_is_said() {
    let run = route(
        &open(),
        json!({"parentRefs": [{"name": "h"}, {"name": "g"}]}),
    );
    let (reason, message) = said(&run, "h", "Accepted");
    assert_eq!(reason, "NoMatchingParent");
    assert_eq!(message, "Gateway default/h does not exist");
    assert_eq!(said(&run, "g", "Accepted").0, "Accepted");
    let route: Route = run.document().expect("a document");
    assert_eq!(route.parents.len(), 1);
}

#[test]
fn a_gateway_without_a_valid_listener_takes_nothing() {
    let run = route(&world(vec![]), json!({"parentRefs": [{"name": "g"}]}));
    let (reason, message) = said(&run, "g", "Accepted");
    assert_eq!(reason, "NoMatchingParent");
    assert!(message.contains("no valid listener"), "{message}");
}

#[test]
fn parents_have_to_be_distinct() {
    for (references, distinct) in [
        (json!([{"name": "g"}, {"name": "g"}]), false),
        (
            json!([{"name": "g"}, {"name": "g", "sectionName": "http"}]),
            false,
        ),
        (
            json!([{"name": "g", "port": 80}, {"name": "g", "sectionName": "http"}]),
            false,
        ),
        (
            json!([{"name": "g", "sectionName": "http"}, {"name": "g", "sectionName": "x"}]),
            true,
        ),
        (
            json!([{"name": "g"}, {"name": "g", "namespace": "other"}]),
            true,
        ),
    ] {
        let run = route(&open(), json!({"parentRefs": references}));
        let accepted = run
            .output
            .conditions
            .iter()
            .find(|one| one.reason == "Accepted");
        assert_eq!(accepted.is_some(), distinct, "{references}");
        let mut places: Vec<_> = run
            .output
            .conditions
            .iter()
            .map(|c| (&c.scope, &c.r#type))
            .collect();
        let count = places.len();
        places.sort();
        places.dedup();
        assert_eq!(places.len(), count, "each type once in a scope");
    }
}
