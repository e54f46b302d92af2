//! Routes that share a virtual host.

use super::bench::Bench;

#[test]
fn only_the_culprit_is_held_and_its_neighbours_go_on() {
    let mut bench = Bench::new();
    let bad = bench.route("bad", "/old");
    bench.route("good", "/good");
    bench.settle();
    assert!(bench.held().is_empty() && bench.serves("/old"));

    bench.route("bad", "/evil");
    bench.route("good", "/better");
    bench.settle();
    assert_eq!(bench.held(), ["bad"]);
    assert!(bench.serves("/old") && bench.serves("/better") && !bench.serves("/evil"));
    assert_eq!(
        bench.said(&bad),
        "a proxy refused VirtualHost http-80/h.example: proxy 0 says no; the form that they \
         accepted last is served until it changes"
    );

    // A neighbour goes on, and the culprit is not tried again.
    let refused = bench.fleet.rejections.len();
    bench.route("good", "/best");
    bench.settle();
    assert!(bench.serves("/best") && bench.serves("/old"));
    assert_eq!(bench.fleet.rejections.len(), refused);

    bench.route("bad", "/mended");
    bench.settle();
    assert!(bench.held().is_empty() && bench.serves("/mended"));
    assert_eq!(bench.said(&bad), "");
}

#[test]
fn a_new_culprit_is_left_out_and_forgotten_when_it_goes() {
    let mut bench = Bench::new();
    bench.route("good", "/good");
    let bad = bench.route("bad", "/evil");
    bench.settle();
    assert_eq!(bench.held(), ["bad"]);
    assert!(bench.serves("/good") && !bench.serves("/evil"));
    assert!(
        bench.said(&bad).contains("it is left out"),
        "{}",
        bench.said(&bad)
    );

    bench.lab.delete(&bad);
    bench.settle();
    assert!(bench.held().is_empty());
    bench.route("bad", "/fine");
    bench.settle();
    assert!(bench.held().is_empty() && bench.serves("/fine"));
}

#[test]
fn a_single_suspect_is_held_without_a_trial() {
    let mut bench = Bench::new();
    bench.route("bad", "/old");
    bench.route("good", "/good");
    bench.settle();
    let before = bench.publishes;
    bench.route("bad", "/evil");
    bench.settle();
    assert_eq!(bench.held(), ["bad"]);
    assert_eq!(bench.publishes - before, 2, "the change, and without it");
}

#[test]
fn several_culprits_among_many_are_found_in_few_publishes() {
    let mut bench = Bench::new();
    for index in 0..64 {
        bench.route(&format!("r{index:02}"), &format!("/old-{index:02}"));
    }
    bench.settle();
    let before = bench.publishes;
    for index in 0..64 {
        let word = if [5, 6, 40].contains(&index) {
            "evil"
        } else {
            "new"
        };
        bench.route(&format!("r{index:02}"), &format!("/{word}-{index:02}"));
    }
    bench.settle();
    assert_eq!(bench.held(), ["r05", "r06", "r40"]);
    assert!(bench.serves("/old-40") && bench.serves("/new-41"));
    // Three culprits among 64: 3 (6 + 1) + 1 trials, the change itself, and the last without them.
    assert!(
        bench.publishes - before <= 24,
        "{}",
        bench.publishes - before
    );
}

#[test]
fn culprits_on_hosts_of_their_own_are_found_at_once() {
    let mut bench = Bench::new();
    for index in 0..50 {
        bench.route_on(&format!("h{index}.example"), &format!("r{index}"), "/old");
    }
    bench.settle();
    let before = bench.publishes;
    for index in 0..50 {
        let path = if index % 5 == 0 { "/evil" } else { "/new" };
        bench.route_on(&format!("h{index}.example"), &format!("r{index}"), path);
    }
    bench.settle();
    assert_eq!(bench.held().len(), 10);
    assert_eq!(bench.publishes - before, 2);
}

#[test]
fn what_is_accepted_last_is_served_and_not_what_was_first() {
    let mut bench = Bench::new();
    bench.route("good", "/good");
    for path in ["/one", "/two"] {
        bench.route("bad", path);
        bench.settle();
    }
    // The third form is on its way when the fourth comes, and is accepted meanwhile.
    bench.route("bad", "/three");
    bench.apply();
    while bench.fleet.send(0, 0) {}
    bench.route("good", "/better");
    bench.apply();
    while bench.fleet.reply(0, 0) {}
    bench.route("bad", "/evil");
    bench.settle();
    assert_eq!(bench.held(), ["bad"]);
    assert!(bench.serves("/three") && bench.serves("/better"));
}

#[test]
fn an_event_without_a_change_tries_nothing_again_but_a_change_of_what_is_referred_to_does() {
    let mut bench = Bench::new();
    let bad = bench.route("bad", "/evil");
    bench.route("good", "/good");
    bench.settle();
    let refused = bench.fleet.rejections.len();
    assert_eq!(bench.route("bad", "/evil"), bad);
    bench.lab.slice("s", "10.0.0.9", true);
    bench.settle();
    assert_eq!(
        (bench.fleet.rejections.len(), bench.held().len()),
        (refused, 1)
    );

    let mut service = crate::synchronizer::tests::make::named("v1", "Service", "s");
    service["spec"] = serde_json::json!({"ports": [{"port": 80, "name": "other"}]});
    bench.lab.input(&service);
    bench.settle();
    assert_eq!(
        (bench.fleet.rejections.len(), bench.held().len()),
        (refused + 1, 1)
    );
}

#[test]
fn one_of_several_proxies_is_enough_and_the_first_is_quoted() {
    let mut bench = Bench::new();
    bench.connect(true);
    bench.connect(true);
    let bad = bench.route("bad", "/strict");
    bench.route("good", "/good");
    bench.settle();
    assert_eq!(bench.held(), ["bad"]);
    assert!(
        bench.said(&bad).contains("proxy 1 says no"),
        "{}",
        bench.said(&bad)
    );
    assert!(bench.serves("/good") && !bench.serves("/strict"));
}

/// A proxy that comes when others have accepted what it refuses, and whether something changes before
/// it has said so.
fn a_strict_proxy_comes(in_the_middle: bool) {
    let mut bench = Bench::new();
    bench.route("turn", "/strict");
    bench.route("good", "/good");
    bench.settle();
    bench.connect(true);
    if !in_the_middle {
        bench.settle();
    }
    bench.route("good", "/better");
    bench.settle();
    assert!(bench.held().is_empty() && bench.serves("/better"));
    // What the others refuse is held all the same.
    bench.route("bad", "/evil");
    bench.route("good", "/best");
    bench.settle();
    assert_eq!(bench.held(), ["bad"]);
    assert!(bench.serves("/best"));
    // Once it has something its word counts.
    bench.route("turn", "/turn");
    bench.settle();
    bench.route("turn", "/strict");
    bench.settle();
    assert_eq!(bench.held(), ["bad", "turn"]);
    assert!(bench.serves("/turn") && bench.serves("/best"));
}

#[test]
fn a_proxy_that_never_had_a_resource_is_no_judge_of_its_changes() {
    a_strict_proxy_comes(false);
}

#[test]
fn nor_if_something_changes_while_it_comes() {
    a_strict_proxy_comes(true);
}

#[test]
fn without_a_suspect_nobody_is_held_and_nothing_is_tried() {
    let mut bench = Bench::new();
    bench.route("good", "/good");
    bench.settle();
    // A proxy that refuses what others have accepted long ago.
    bench.connect(false);
    bench.refuse(|resource| resource.name.name.ends_with("h.example"));
    let before = bench.publishes;
    bench.settle();
    assert!(bench.held().is_empty() && bench.serves("/good"));
    assert_eq!(bench.fleet.rejections.len(), 1);
    assert_eq!(bench.publishes, before);
}
