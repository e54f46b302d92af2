//! Random histories of changes and answers.

use super::bench::Bench;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
enum Step {
    /// A route on a host gets a path, which proxies may refuse.
    Route(u8, u8, bool),
    Delete(u8),
    Apply,
    Send(u8, u8),
    Reply(u8, u8),
    Listen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (any::<u8>(), any::<u8>(), prop::bool::weighted(0.3))
            .prop_map(|(name, path, bad)| Step::Route(name, path, bad)),
        1 => any::<u8>().prop_map(Step::Delete),
        4 => Just(Step::Apply),
        8 => (any::<u8>(), any::<u8>()).prop_map(|(proxy, what)| Step::Send(proxy, what)),
        8 => (any::<u8>(), any::<u8>()).prop_map(|(proxy, what)| Step::Reply(proxy, what)),
        4 => Just(Step::Listen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        cases: 300,
        ..ProptestConfig::default()
    })]

    /// Whatever the order of changes and verdicts: at last exactly the culprits are held, and
    /// everything else is served as it is.
    #[test]
    fn at_last_exactly_the_culprits_are_held(
        steps in prop::collection::vec(step(), 1..120),
        proxies in 1usize..4,
    ) {
        let mut bench = Bench::new();
        for _ in 1..proxies {
            bench.connect(false);
        }
        let mut paths: BTreeMap<String, String> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Route(name, path, bad) => {
                    let host = format!("h{}.example", name % 3);
                    let name = format!("r{}", name % 12);
                    let word = if bad { "evil" } else { "good" };
                    let path = format!("/{word}-{name}-{path}");
                    bench.route_on(&host, &name, &path);
                    paths.insert(name, path);
                }
                Step::Delete(name) => {
                    let name = format!("r{}", name % 12);
                    let group = crate::synchronizer::tests::lab::GATEWAY;
                    let key = crate::store::Key::new(group, "HTTPRoute", "default", &name);
                    bench.lab.delete(&key);
                    paths.remove(&name);
                }
                Step::Apply => bench.apply(),
                Step::Send(proxy, what) => {
                    bench.fleet.send(usize::from(proxy) % proxies, usize::from(what));
                }
                Step::Reply(proxy, what) => {
                    bench.fleet.reply(usize::from(proxy) % proxies, usize::from(what));
                }
                Step::Listen => bench.listen(),
            }
        }
        bench.settle();
        let evil: BTreeSet<&str> = paths
            .iter()
            .filter(|(_, path)| path.contains("evil"))
            .map(|(name, _)| name.as_str())
            .collect();
        let held = bench.held();
        prop_assert_eq!(held.iter().map(String::as_str).collect::<BTreeSet<_>>(), evil);
        for path in paths.values().filter(|path| path.contains("good")) {
            let served = (0..3).any(|host| {
                let name = format!("http-80/h{host}.example");
                bench.published(chiton_xds::ResourceType::VirtualHost, &name, path)
            });
            prop_assert!(served, "{} is not served", path);
        }
    }
}
