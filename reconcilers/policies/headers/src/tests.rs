//! Tests of the `headers` policy.

use super::*;
use chiton_guest::testing::World;

#[test]
fn both_directions_become_effects() {
    let run = World::new().policy_with::<Headers>(
        "{request: {remove: [x-a]}, response: {set: [{name: x-b, value: '1'}]}}",
    );
    let names: Vec<_> = run.effects().iter().map(Effect::name).collect();
    assert_eq!(names, ["requestHeaders", "responseHeaders"]);
}

#[test]
fn what_envoy_would_refuse_is_refused_with_its_place() {
    let run = World::new().policy_with::<Headers>("{request: {remove: [x-a, Host]}}");
    assert!(
        run.refusal()
            .starts_with("spec.default: request.remove[1]: ")
    );
    let run = World::new().policy_with::<Headers>("{}");
    assert!(run.refusal().contains("changes nothing"));
    let run = World::new().policy_with::<Headers>("{requests: {}}");
    assert!(
        run.refusal()
            .starts_with("spec.default.requests: unknown field")
    );
}
