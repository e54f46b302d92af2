//! What the SDK does around a policy's one function, seen as its author sees it.

use chiton_guest::ir::gateway::LabelSelector;
use chiton_guest::ir::policy;
use chiton_guest::prelude::*;
use chiton_guest::testing::{Read, Run, World};
use chiton_guest::{GroupKind, Level, ObjectRef};
use std::collections::BTreeMap;

/// Sets `x-text` to a text, or to what a ConfigMap says.
struct Text;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Settings {
    text: Option<String>,
    from: Option<String>,
    #[serde(default)]
    twice: bool,
}

#[derive(Deserialize)]
struct ConfigMap {
    data: BTreeMap<String, String>,
}

impl Policy for Text {
    type Settings = Settings;
    const NAME: &'static str = "text";
    const VERSION: &'static str = "1";
    const READS: &'static [(&'static str, &'static str)] = &[("", "ConfigMap")];

    fn effects(settings: Settings, cx: &mut Context) -> Result<Vec<Effect>, Error> {
        let text = match (settings.text, settings.from) {
            (Some(text), _) => text,
            (None, Some(name)) => read(&name, cx)?,
            (None, None) => return Err(Error::invalid("give `text` or `from`")),
        };
        let effect = set_request_header("x-text", &text)?;
        Ok(vec![effect; if settings.twice { 2 } else { 1 }])
    }
}

fn read(name: &str, cx: &mut Context) -> Result<String, Error> {
    let object = ObjectRef::new("", "ConfigMap", &cx.object().namespace, name);
    let Some(map) = cx.get::<ConfigMap>(&object)? else {
        cx.log(Level::Debug, "waiting");
        return Err(Error::not_ready(format!("{object} does not exist")));
    };
    Ok(map.data.into_values().collect())
}

fn policy(spec: &str) -> Run {
    let object =
        "{apiVersion: chiton.dev/v1alpha1, kind: Policy, metadata: {name: p, namespace: n}";
    World::new().reconcile::<Text>(&format!("{object}, spec: {spec}}}"))
}

fn targeting(refs: &str) -> Run {
    policy(&format!(
        "{{type: text, targetRefs: {refs}, default: {{text: a}}}}"
    ))
}

const GATEWAY: &str = "{group: gateway.networking.k8s.io, kind: Gateway, name: g}";

#[test]
fn targets_are_in_the_policys_namespace_and_each_once() {
    let run = targeting(&format!(
        "[{GATEWAY}, {{group: gateway.networking.k8s.io, kind: HTTPRoute, name: r, sectionName: s}}, {GATEWAY}]"
    ));
    let document: policy::Policy = run.document().unwrap_or_else(|| panic!("{run:?}"));
    let target = |kind: &str, name: &str, section: Option<&str>| policy::Target {
        object: ObjectRef::new("gateway.networking.k8s.io", kind, "n", name),
        section: section.map(ToOwned::to_owned),
    };
    let expected = [
        target("Gateway", "g", None),
        target("HTTPRoute", "r", Some("s")),
    ];
    assert_eq!(document.targets, expected);
    assert_eq!(run.reason("Accepted"), "Accepted");
}

#[test]
fn targets_that_no_policy_can_have_are_refused() {
    let many = format!("[{}]", [GATEWAY; 17].join(", "));
    for (refs, why) in [
        ("[]", "spec.targetRefs: has 0 entries"),
        (many.as_str(), "spec.targetRefs: has 17 entries"),
        (
            "[{group: '', kind: Service, name: s}]",
            "cannot target the kind Service",
        ),
        (
            "[{group: chiton.dev, kind: Gateway, name: g}]",
            "cannot target the kind Gateway",
        ),
        (
            "[{group: chiton.dev, kind: API, name: ''}]",
            "the name is empty",
        ),
        (
            "[{group: chiton.dev, kind: API, name: a, sectionName: s}]",
            "has no sections",
        ),
        (
            "[{group: chiton.dev, kind: API, name: a, namespace: m}]",
            "namespace: unknown field",
        ),
    ] {
        let run = targeting(refs);
        assert!(run.refusal().contains(why), "{}", run.refusal());
    }
}

#[test]
fn default_and_override_are_kept_apart() {
    let run = policy(&format!(
        "{{type: text, targetRefs: [{GATEWAY}], override: {{text: a}}}}"
    ));
    let document: policy::Policy = run.document().unwrap_or_else(|| panic!("{run:?}"));
    assert!(document.default.is_empty());
    assert_eq!(document.r#override.len(), 1);

    let neither = policy(&format!("{{type: text, targetRefs: [{GATEWAY}]}}"));
    assert!(
        neither
            .refusal()
            .contains("neither `default` nor `override`")
    );
    let one_bad = policy(&format!(
        "{{type: text, targetRefs: [{GATEWAY}], default: {{text: a}}, override: {{}}}}"
    ));
    assert_eq!(one_bad.refusal(), "spec.override: give `text` or `from`");
}

#[test]
fn an_effect_twice_is_the_modules_failure() {
    let run = World::new().policy_with::<Text>("{text: a, twice: true}");
    let failure = run.failure.expect("a failure");
    assert!(failure.contains("requestHeaders twice"), "{failure}");
}

#[test]
fn a_read_is_recorded_also_where_it_finds_nothing() {
    let object = ObjectRef::new("", "ConfigMap", "default", "c");
    let read = [Read::Get(object.clone())];

    let run = World::new().policy_with::<Text>("{from: c}");
    assert_eq!(
        run.not_ready.as_deref(),
        Some("ConfigMap default/c does not exist")
    );
    assert_eq!(run.reads, read);
    assert_eq!(run.log, [(Level::Debug, "waiting".to_owned())]);

    let map = "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: default}, ";
    let world = World::new().yaml(&format!("{map} data: {{a: b}}}}"));
    let run = world.policy_with::<Text>("{from: c}");
    assert_eq!(
        run.effects(),
        [set_request_header("x-text", "b").expect("an effect")]
    );
    assert_eq!(run.reads, read);

    let world = World::new().yaml(&format!("{map} data: [a]}}"));
    let run = world.policy_with::<Text>("{from: c}");
    assert!(
        run.refusal().contains("ConfigMap default/c cannot be read"),
        "{}",
        run.refusal()
    );
}

#[test]
fn the_schema_has_the_settings() {
    let schema = <Text as chiton_guest::Reconciler>::settings_schema().expect("a schema");
    assert_eq!(schema["properties"]["text"]["type"][0], "string");
    assert_eq!(schema["additionalProperties"], false);
}

/// Lists and the clock, through a policy that uses them.
#[test]
fn a_world_answers_lists_and_time() {
    struct Counting;
    impl Policy for Counting {
        type Settings = BTreeMap<String, String>;
        const NAME: &'static str = "counting";
        const VERSION: &'static str = "1";
        fn effects(labels: Self::Settings, cx: &mut Context) -> Result<Vec<Effect>, Error> {
            let selector = LabelSelector {
                match_labels: labels,
                ..LabelSelector::default()
            };
            let kind = GroupKind::new("", "Namespace");
            let found = cx.list::<serde_json::Value>(&kind, None, &selector)?;
            let names: Vec<String> = found.into_iter().map(|(object, _)| object.name).collect();
            let due = cx.time_reached(100);
            Ok(vec![set_request_header(
                "x",
                &format!("{} {due}", names.join("+")),
            )?])
        }
    }
    let world = World::new().time(99).yaml(
        "
{apiVersion: v1, kind: Namespace, metadata: {name: b, labels: {team: x}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: a, labels: {team: x}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: c}}
",
    );
    let run = world.policy_with::<Counting>("{team: x}");
    assert_eq!(
        run.effects(),
        [set_request_header("x", "a+b false").expect("an effect")]
    );
    assert_eq!(run.reads.last(), Some(&Read::Time(100)));
    let run = world.time(100).policy_with::<Counting>("{}");
    assert_eq!(
        run.effects(),
        [set_request_header("x", "a+b+c true").expect("an effect")]
    );
}
