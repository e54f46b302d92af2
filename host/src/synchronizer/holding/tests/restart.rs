//! Another host takes over while something is held.

use super::bench::Bench;
use crate::synchronizer::holding::AcceptedForms;

fn held() -> Bench {
    let mut bench = Bench::new();
    bench.route("bad", "/old");
    bench.route("good", "/good");
    bench.settle();
    bench.route("bad", "/evil");
    bench.settle();
    assert_eq!(bench.held(), ["bad"]);
    bench
}

#[test]
fn what_was_saved_is_held_from_the_start() {
    let mut bench = held();
    let saved = bench.holder.accepted_forms();
    let bytes = serde_json::to_vec(&saved).unwrap();
    bench.restart(serde_json::from_slice(&bytes).unwrap());
    bench.settle();
    assert_eq!(bench.held(), ["bad"]);
    assert!(bench.fleet.rejections.is_empty(), "nothing is tried again");
    assert!(bench.serves("/old") && bench.serves("/good"));
    assert_eq!(bench.holder.accepted_forms(), saved);

    bench.route("good", "/better");
    bench.settle();
    assert!(bench.serves("/old") && bench.serves("/better"));
    bench.route("bad", "/mended");
    bench.settle();
    assert!(bench.held().is_empty() && bench.serves("/mended"));
    assert!(bench.holder.accepted_forms().is_empty());
}

#[test]
fn what_changed_meanwhile_is_tried_and_falls_back_to_what_was_saved() {
    let mut bench = held();
    let saved = bench.holder.accepted_forms();
    bench.route("bad", "/evil-too");
    bench.restart(saved);
    bench.settle();
    assert_eq!(bench.held(), ["bad"]);
    assert!(bench.serves("/old") && !bench.fleet.rejections.is_empty());
}

#[test]
fn without_what_was_saved_nothing_shrinks() {
    let mut bench = held();
    bench.restart(AcceptedForms::default());
    bench.settle();
    // The proxies keep what they have, whole: leaving anything out would take it from them.
    assert!(bench.held().is_empty());
    assert!(bench.serves("/good") && bench.serves("/evil"));
    bench.route("bad", "/mended");
    bench.route("good", "/better");
    bench.settle();
    assert!(bench.serves("/mended") && bench.serves("/better"));
}
