//! Random histories with a client that behaves as Envoy was seen to, in each dialect: whatever
//! happened, in the end it has what its group has.

mod client;

use super::*;
use client::{BAD, Model};
use proptest::prelude::*;

/// Type, name, content; no content: removed.
#[derive(Clone)]
struct Item(ResourceType, String, Option<String>);

/// On one line each, so that a failing history can be read.
impl std::fmt::Debug for Item {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let content = self.2.as_deref().unwrap_or("gone");
        write!(f, "{} {}={content}", self.0, self.1)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Publish(Vec<Item>),
    /// The client takes the next response.
    Answer,
    Wait(u64),
    Reconnect,
}

fn change() -> impl Strategy<Value = Item> {
    let content = prop_oneof![
        5 => (0..4_u8).prop_map(|content| Some(content.to_string())),
        1 => Just(Some(BAD.to_owned())),
        2 => Just(None),
    ];
    let kinds = prop_oneof![
        1 => Just(Cluster),
        1 => Just(Endpoints),
        1 => Just(Listener),
        1 => Just(RouteConfiguration),
        3 => Just(VirtualHost),
    ];
    (kinds, 0..3_u8, 0..3_u8, content).prop_map(|(kind, name, other, content)| match kind {
        // Endpoints are never refused here: whether a cluster has older ones is not known then.
        Endpoints => Item(
            kind,
            format!("c{name}"),
            content.filter(|content| content != BAD),
        ),
        Cluster => Item(kind, format!("c{name}"), content),
        Listener => Item(
            kind,
            format!("l{name}"),
            content.map(|content| format!("r{other}:{content}")),
        ),
        RouteConfiguration => Item(kind, format!("r{name}"), content),
        _ => Item(kind, format!("r{name}/{other}"), content),
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => proptest::collection::vec(change(), 1..8).prop_map(Step::Publish),
        8 => Just(Step::Answer),
        2 => (0..4_000_u64).prop_map(Step::Wait),
        1 => Just(Step::Reconnect),
    ]
}

fn dialect() -> impl Strategy<Value = Dialect> {
    prop_oneof![
        Just(DELTA),
        Just(DELTA_WITHOUT_VHDS),
        Just(STATE_OF_THE_WORLD)
    ]
}

fn history() -> impl Strategy<Value = (Dialect, bool, Vec<Step>)> {
    let steps = proptest::collection::vec(step(), 0..60);
    (dialect(), any::<bool>(), steps)
}

fn live((dialect, names_culprits, steps): (Dialect, bool, Vec<Step>)) {
    let mut model = Model::new(dialect, names_culprits);
    for step in steps {
        model.step(step);
    }
    model.settle();
    model.check();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn in_the_end_a_client_has_what_its_group_has(history in history()) {
        live(history);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(50_000))]
    #[test]
    #[ignore = "soak"]
    fn in_the_end_a_client_has_what_its_group_has_in_many_histories(history in history()) {
        live(history);
    }
}
