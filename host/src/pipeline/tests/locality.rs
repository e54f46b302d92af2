//! Which reconciles a change runs: exactly those whose reads it changed.

use super::super::channel::Event::{Create, Delete, Update};
use super::{Rig, conditions, key};
use crate::pipeline::RunState;
use serde_json::json;

#[test]
fn layers_run_in_order_and_objects_of_a_layer_by_key() {
    let mut rig = Rig::new();
    rig.put("API/a", json!({"steps": [{"output": "HTTPRoute/r"}]}))
        .put("HTTPRoute/r", json!({"steps": [{"output": "Gateway/g"}]}))
        .put("Gateway/g", json!({}))
        .put("Policy/p", json!({"type": "policy"}))
        .put("ConfigMap/c", json!({}));
    assert_eq!(rig.ran(), ["Policy/p", "Gateway/g", "HTTPRoute/r", "API/a"]);
    assert_eq!(rig.ran(), [""; 0], "nothing changed");
    assert_eq!(
        rig.engine.world().load().epoch,
        1,
        "no epoch without a change"
    );
}

#[test]
fn a_change_runs_its_readers_up_the_layers_and_nobody_else() {
    let mut rig = Rig::new();
    rig.put("Gateway/g", json!({"value": "1"}))
        .put("Gateway/other", json!({}))
        .put("HTTPRoute/r", json!({"steps": [{"output": "Gateway/g"}]}))
        .put(
            "HTTPRoute/other",
            json!({"steps": [{"output": "Gateway/other"}]}),
        )
        .put("API/a", json!({"steps": [{"output": "HTTPRoute/r"}]}))
        .put(
            "API/other",
            json!({"steps": [{"output": "HTTPRoute/other"}]}),
        );
    rig.run();
    let before = rig.document("API/a");
    rig.put("Gateway/g", json!({"value": "2"}));
    assert_eq!(rig.ran(), ["Gateway/g", "HTTPRoute/r", "API/a"]);
    assert_ne!(rig.document("API/a"), before);
}

#[test]
fn an_unchanged_output_stops_there() {
    let mut rig = Rig::new();
    rig.put("ConfigMap/c", json!({"a": 1}))
        .put(
            "Gateway/g",
            json!({"deaf": true, "steps": [{"get": "ConfigMap/c"}]}),
        )
        .put("HTTPRoute/r", json!({"steps": [{"output": "Gateway/g"}]}));
    rig.run();
    rig.put("ConfigMap/c", json!({"a": 2}));
    let report = rig.run();
    assert_eq!(report.ran, [key("Gateway/g")]);
    assert!(
        report
            .committed
            .expect("the inputs changed")
            .events
            .is_empty()
    );
}

#[test]
fn a_read_that_found_nothing_counts() {
    let mut rig = Rig::new();
    rig.put("Gateway/g", json!({"steps": [{"get": "ConfigMap/c"}]}))
        .put(
            "HTTPRoute/r",
            json!({"steps": [{"output": "Gateway/later"}]}),
        );
    rig.run();
    rig.put("ConfigMap/d", json!({}));
    assert_eq!(rig.ran(), [""; 0]);
    rig.put("ConfigMap/c", json!({}));
    assert_eq!(rig.ran(), ["Gateway/g"]);
    rig.put("Gateway/later", json!({}));
    assert_eq!(rig.ran(), ["Gateway/later", "HTTPRoute/r"]);
    rig.delete("ConfigMap/c");
    assert_eq!(rig.ran(), ["Gateway/g"]);
}

#[test]
fn only_the_reads_of_the_latest_run_count() {
    let mut rig = Rig::new();
    rig.put("ConfigMap/a", json!({"next": "ConfigMap/b"}))
        .put("ConfigMap/b", json!({}))
        .put("ConfigMap/c", json!({}))
        .put("Gateway/g", json!({"steps": [{"follow": "ConfigMap/a"}]}));
    rig.run();
    rig.put("ConfigMap/b", json!({"n": 1}));
    assert_eq!(rig.ran(), ["Gateway/g"]);
    rig.put("ConfigMap/a", json!({"next": "ConfigMap/c"}));
    assert_eq!(rig.ran(), ["Gateway/g"]);
    rig.put("ConfigMap/b", json!({"n": 2}));
    assert_eq!(rig.ran(), [""; 0]);
    rig.put("ConfigMap/c", json!({"n": 1}));
    assert_eq!(rig.ran(), ["Gateway/g"]);
}

#[test]
fn a_list_changes_with_its_members_and_their_labels() {
    let mut rig = Rig::new();
    rig.put_labelled("ConfigMap/in", &[("app", "a")], &json!({}))
        .put_labelled("ConfigMap/out", &[("app", "b")], &json!({}))
        .put("Gateway/a", json!({"steps": [{"list": {"app": "a"}}]}))
        .put("Gateway/all", json!({"steps": [{"list": {}}]}));
    rig.run();
    let both = ["Gateway/a", "Gateway/all"];
    rig.put_labelled("ConfigMap/out", &[("app", "b")], &json!({"n": 1}));
    assert_eq!(rig.ran(), ["Gateway/all"], "not a member");
    rig.put_labelled("ConfigMap/in", &[("app", "a")], &json!({"n": 1}));
    assert_eq!(rig.ran(), both, "a member's content");
    rig.put_labelled("ConfigMap/in", &[("app", "c")], &json!({"n": 1}));
    assert_eq!(rig.ran(), both, "a member leaves by its label");
    rig.put_labelled("ConfigMap/in", &[("app", "d")], &json!({"n": 1}));
    assert_eq!(rig.ran(), ["Gateway/all"]);
    rig.put_labelled("ConfigMap/out", &[("app", "a")], &json!({}));
    assert_eq!(rig.ran(), both, "a member comes by its label");
    rig.delete("ConfigMap/out");
    assert_eq!(rig.ran(), both, "a member goes");
    rig.put_labelled("ConfigMap/new", &[("app", "a")], &json!({}));
    assert_eq!(rig.ran(), both, "a member is new");
}

#[test]
fn attached_policies_are_read_by_target_and_section() {
    let mut rig = Rig::new();
    rig.put(
        "HTTPRoute/r",
        json!({"steps": [{"policies": ["HTTPRoute/r", null]}]}),
    )
    .put(
        "HTTPRoute/s",
        json!({"steps": [{"policies": ["HTTPRoute/r", "one"]}]}),
    );
    rig.run();
    rig.put(
        "Policy/p",
        json!({"type": "policy", "targets": ["HTTPRoute/r#one"]}),
    );
    assert_eq!(rig.ran(), ["Policy/p", "HTTPRoute/s"]);
    rig.put(
        "Policy/p",
        json!({"type": "policy", "targets": ["HTTPRoute/r"]}),
    );
    assert_eq!(rig.ran(), ["Policy/p", "HTTPRoute/r", "HTTPRoute/s"]);
    rig.put(
        "Policy/p",
        json!({"type": "policy", "targets": ["HTTPRoute/x"]}),
    );
    assert_eq!(rig.ran(), ["Policy/p", "HTTPRoute/r", "HTTPRoute/s"]);
    rig.put(
        "Policy/p",
        json!({"type": "policy", "targets": ["HTTPRoute/y"]}),
    );
    assert_eq!(rig.ran(), ["Policy/p"]);
}

#[test]
fn reading_one_s_own_layer_is_the_module_s_failure() {
    let mut rig = Rig::new();
    rig.put("HTTPRoute/r", json!({"steps": [{"output": "HTTPRoute/s"}]}))
        .put(
            "Gateway/g",
            json!({"steps": [{"policies": ["Gateway/g", null]}]}),
        );
    rig.run();
    for name in ["HTTPRoute/r", "Gateway/g"] {
        assert!(
            matches!(&rig.result(name).state, RunState::Failed(why) if why.contains("lower layer"))
        );
    }
}

#[test]
fn what_is_deleted_takes_its_output_along() {
    let mut rig = Rig::new();
    rig.put("Gateway/g", json!({"steps": [{"get": "ConfigMap/c"}]}))
        .put("HTTPRoute/r", json!({"steps": [{"output": "Gateway/g"}]}));
    rig.run();
    rig.delete("Gateway/g");
    assert_eq!(rig.ran(), ["HTTPRoute/r"]);
    assert!(!rig.has_result("Gateway/g"));
    rig.delete("HTTPRoute/r");
    assert_eq!(rig.ran(), [""; 0]);
    assert_eq!(rig.engine.index.size(), 0, "nothing is left in the index");
}

#[test]
fn an_unsynced_kind_is_not_an_absent_object() {
    let mut rig = Rig::unsynced(super::Fake::all());
    rig.put("Gateway/g", json!({"steps": [{"get": "ConfigMap/c"}]}))
        .put("Gateway/list", json!({"steps": [{"list": {}}]}))
        .put("Gateway/free", json!({}));
    rig.run();
    assert_eq!(
        rig.result("Gateway/g").state,
        RunState::NotReady("ConfigMap is not listed yet".into())
    );
    assert_eq!(
        conditions(&rig.result("Gateway/g")),
        ["Accepted=Unknown Pending"]
    );
    assert_eq!(rig.document("Gateway/g"), "");
    assert_eq!(
        rig.engine.next_wake(),
        None,
        "it waits for the kind, not for a time"
    );
    rig.sync("Service");
    assert_eq!(rig.ran(), [""; 0]);
    rig.sync("ConfigMap");
    assert_eq!(rig.ran(), ["Gateway/g", "Gateway/list"]);
    assert_eq!(rig.result("Gateway/g").state, RunState::Good);
}

#[test]
fn events_propagate_upward_to_the_api() {
    let mut rig = Rig::new();
    rig.put("Gateway/g", json!({}))
        .put("HTTPRoute/r", json!({"parents": ["Gateway/g"]}))
        .put("HTTPRoute/alone", json!({"parents": ["Gateway/g"]}))
        .put("API/a", json!({"routes": ["HTTPRoute/r"]}))
        .put("API/none", json!({"routes": ["HTTPRoute/missing"]}));
    assert_eq!(
        rig.events(),
        [
            ("API/a", Create),
            ("API/none", Create),
            ("Gateway/g", Create),
            ("HTTPRoute/alone", Create),
            ("HTTPRoute/r", Create)
        ]
        .map(|(name, event)| (name.to_owned(), event))
    );
    let mut expect = |name: &str, spec, expected: &[(&str, super::Event)]| {
        rig.put(name, spec);
        let expected: Vec<_> = expected
            .iter()
            .map(|(name, event)| ((*name).to_owned(), *event))
            .collect();
        assert_eq!(rig.events(), expected, "{name}");
    };
    expect(
        "HTTPRoute/r",
        json!({"parents": ["Gateway/g"], "value": "2"}),
        &[("API/a", Update), ("HTTPRoute/r", Update)],
    );
    expect(
        "HTTPRoute/alone",
        json!({"value": "2"}),
        &[("HTTPRoute/alone", Update)],
    );
    expect(
        "Gateway/g",
        json!({"value": "2"}),
        &[("API/a", Update), ("Gateway/g", Update)],
    );
    expect(
        "Policy/p",
        json!({"type": "policy", "targets": ["HTTPRoute/r"]}),
        &[("API/a", Update), ("Policy/p", Create)],
    );
    expect(
        "Policy/p",
        json!({"type": "policy", "targets": ["API/none"]}),
        &[
            ("API/a", Update),
            ("API/none", Update),
            ("Policy/p", Update),
        ],
    );
    rig.delete("Policy/p");
    assert_eq!(
        rig.events(),
        [("API/none", Update), ("Policy/p", Delete)].map(|(n, e)| (n.to_owned(), e))
    );
}

#[test]
fn inputs_that_the_host_follows_have_events_and_run_nothing() {
    let mut rig = Rig::new();
    rig.put("Gateway/g", json!({}));
    rig.run();
    for name in [
        "Service/s",
        "EndpointSlice/e",
        "Secret/s",
        "Backend/b",
        "ReferenceGrant/g",
        "Namespace/n",
    ] {
        rig.put(name, json!({}));
        let report = rig.run();
        assert!(report.ran.is_empty());
        let events = report.committed.expect("an epoch").events;
        assert_eq!(
            events.into_iter().collect::<Vec<_>>(),
            [(key(name), Create)]
        );
    }
    rig.put("EndpointSlice/e", json!({"n": 1}));
    assert_eq!(rig.events(), [("EndpointSlice/e".to_owned(), Update)]);
    rig.delete("EndpointSlice/e");
    assert_eq!(rig.events(), [("EndpointSlice/e".to_owned(), Delete)]);
}
