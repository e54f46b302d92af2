//! Tests of the `cors` policy.

use super::*;
use chiton_guest::testing::World;

#[test]
fn settings_become_the_effect() {
    let run = World::new()
        .policy_with::<Cors>("{allowOrigins: ['https://*.a.example:8443'], allowMethods: [GET]}");
    let [Effect::Cors(cors)] = &run.effects()[..] else {
        panic!("one effect: {run:?}");
    };
    assert_eq!(cors.allow_methods, ["GET"]);
}

#[test]
fn what_would_not_work_is_refused() {
    for (settings, why) in [
        ("{allowOrigins: []}", "allowOrigins: name at least one"),
        ("{allowOrigins: [a.example]}", "is not an origin"),
        (
            "{allowOrigins: ['https://a.example/path']}",
            "is not an origin",
        ),
        (
            "{allowOrigins: ['*'], allowCredentials: true}",
            "name the origins",
        ),
        (
            "{allowOrigins: ['*'], allowHeaders: ['a b']}",
            "allowHeaders: ",
        ),
    ] {
        let run = World::new().policy_with::<Cors>(settings);
        assert!(run.refusal().contains(why), "{}", run.refusal());
    }
}
