//! Subscriptions, nonces, folding.

use super::*;

#[test]
fn what_is_restored_is_for_clients_that_have_nothing() {
    let restored = |at: &[(ResourceType, &str)]| {
        let mut client = Client::connect(at);
        client.snapshot.silence(&[ResourceType::Secret]);
        client.session.update(Arc::new(client.snapshot.clone()));
        client
    };
    let mut fresh = restored(&[(Listener, "a=1"), (Listener, "gone-again=1")]);
    assert_eq!(
        fresh.subscribe(Listener, &[]),
        ["Listener a=1 gone-again=1 #1"]
    );

    let mut returning = restored(&[(Listener, "a=1"), (Listener, "gone-again=1")]);
    let has = ["a=2", "not-saved=1", "with-keys=1"];
    assert_eq!(returning.reconnect(Listener, &[], &has), NOTHING);
    assert_eq!(returning.session.deadline(returning.now), None);
    returning.snapshot.silence(&[]);
    assert_eq!(
        returning.publish(&[
            (Listener, "a=3"),
            (Listener, "-gone-again"),
            (Listener, "with-keys=1"),
        ]),
        ["Listener a=3 -not-saved #1"]
    );
}

#[test]
fn silence_until_ready_then_everything() {
    let mut client = Client::connect(&[(Cluster, "a=1")]);
    client.snapshot.silence(&ResourceType::ALL);
    client.session.update(Arc::new(client.snapshot.clone()));
    assert_eq!(client.subscribe(Cluster, &[]), NOTHING);
    assert_eq!(client.publish(&[(Cluster, "b=1")]), NOTHING);
    assert_eq!(client.session.deadline(client.now), None);
    client.snapshot.silence(&[]);
    assert_eq!(client.publish(&[]), ["Cluster a=1 b=1 #1"]);
}

/// "How the client specifies what resources to return": the legacy wildcard.
#[test]
fn an_empty_first_request_asks_for_everything_of_the_types_without_known_names() {
    let mut client = Client::connect(&[(Cluster, "a=1"), (Listener, "l=1"), (Endpoints, "a=1")]);
    assert_eq!(client.subscribe(Cluster, &[]), ["Cluster a=1 #1"]);
    client.ack(Cluster, 1);
    assert_eq!(client.subscribe(Listener, &[]), ["Listener l=1 #2"]);
    assert_eq!(client.subscribe(Endpoints, &[]), NOTHING);
    assert_eq!(client.publish(&[(Endpoints, "a=2")]), NOTHING);
}

/// "How the client specifies what resources to return": the example of that section for incremental.
#[test]
fn the_legacy_wildcard_goes_on_beside_names_until_it_is_left() {
    let mut client = Client::connect(&[(Cluster, "A=1"), (Cluster, "B=1")]);
    assert_eq!(client.subscribe(Cluster, &[]), ["Cluster A=1 B=1 #1"]);
    client.ack(Cluster, 1);
    assert_eq!(client.subscribe(Cluster, &["A"]), ["Cluster A=1 #2"]);
    client.ack(Cluster, 2);
    assert_eq!(client.publish(&[(Cluster, "B=2")]), ["Cluster B=2 #3"]);
    client.ack(Cluster, 3);
    assert_eq!(client.unsubscribe(Cluster, &["*"]), NOTHING);
    assert_eq!(
        client.publish(&[(Cluster, "A=2"), (Cluster, "B=3")]),
        ["Cluster A=2 #4"]
    );
    client.ack(Cluster, 4);
    assert_eq!(client.unsubscribe(Cluster, &["A"]), NOTHING);
    assert_eq!(client.ack(Cluster, 4), NOTHING, "not the wildcard again");
    assert_eq!(client.publish(&[(Cluster, "A=3")]), NOTHING);
}

/// "Incremental xDS": the legacy wildcard is a first request that names nothing at all; and
/// "Unsubscribing from Resources": phantom unsubscriptions are ignored.
#[test]
fn a_first_request_that_only_leaves_names_asks_for_nothing() {
    let mut client = Client::connect(&[(Cluster, "a=1"), (Endpoints, "a=1")]);
    assert_eq!(client.unsubscribe(Cluster, &["x"]), NOTHING);
    client.subscribe(Endpoints, &["a"]);
    client.ack(Endpoints, 1);
    assert_eq!(client.unsubscribe(Endpoints, &["x"]), NOTHING);
    assert_eq!(
        client.publish(&[(Endpoints, "a=2"), (Cluster, "a=2")]),
        ["ClusterLoadAssignment a=2 #2"]
    );
}

/// "Duplicate Resource Names": no response has a name twice.
#[test]
fn a_name_that_is_asked_for_twice_is_sent_once() {
    let mut client = Client::connect(&[(Cluster, "a=1")]);
    assert_eq!(
        client.subscribe(Cluster, &["a", "*", "a"]),
        ["Cluster a=1 #1"]
    );
}

/// "How the client specifies what resources to return": the wildcard by name.
#[test]
fn an_explicit_wildcard_asks_for_everything_of_any_type() {
    let mut client = Client::connect(&[(Cluster, "a=1"), (Endpoints, "a=1")]);
    assert_eq!(client.subscribe(Cluster, &["*"]), ["Cluster a=1 #1"]);
    assert_eq!(
        client.subscribe(Endpoints, &["*"]),
        ["ClusterLoadAssignment a=1 #2"]
    );
    client.ack(Cluster, 1);
    assert_eq!(client.publish(&[(Cluster, "b=1")]), ["Cluster b=1 #3"]);
    client.ack(Cluster, 3);
    client.unsubscribe(Cluster, &["*"]);
    assert_eq!(
        client.publish(&[(Cluster, "c=1"), (Cluster, "a=2")]),
        NOTHING
    );
}

#[test]
fn a_client_without_anything_gets_an_empty_first_answer_for_clusters_and_listeners() {
    let mut client = Client::connect(&[]);
    assert_eq!(client.subscribe(Cluster, &[]), ["Cluster #1"]);
    client.ack(Cluster, 1);
    assert_eq!(client.subscribe(Listener, &[]), ["Listener #2"]);
    assert_eq!(client.subscribe(VirtualHost, &[]), NOTHING);
    assert_eq!(client.ack(Listener, 2), NOTHING);
}

#[test]
fn only_subscribed_names_are_sent() {
    let mut client = Client::connect(&[(Endpoints, "a=1"), (Endpoints, "b=1")]);
    assert_eq!(
        client.subscribe(Endpoints, &["a"]),
        ["ClusterLoadAssignment a=1 #1"]
    );
    client.ack(Endpoints, 1);
    assert_eq!(client.publish(&[(Endpoints, "b=2")]), NOTHING);
    assert_eq!(
        client.publish(&[(Endpoints, "a=2")]),
        ["ClusterLoadAssignment a=2 #2"]
    );
    client.ack(Endpoints, 2);
    client.unsubscribe(Endpoints, &["a"]);
    assert_eq!(client.publish(&[(Endpoints, "a=3")]), NOTHING);
}

/// "Subscribing to Resources": the client may have forgotten what it names.
#[test]
fn a_newly_named_resource_is_sent_even_if_unchanged() {
    let mut client = Client::connect(&[(Endpoints, "a=1")]);
    client.subscribe(Endpoints, &["a"]);
    client.ack(Endpoints, 1);
    assert_eq!(
        client.subscribe(Endpoints, &["a"]),
        ["ClusterLoadAssignment a=1 #2"]
    );
    client.ack(Endpoints, 2);
    client.unsubscribe(Endpoints, &["a"]);
    assert_eq!(
        client.subscribe(Endpoints, &["a"]),
        ["ClusterLoadAssignment a=1 #3"]
    );
}

/// "Knowing When a Requested Resource Does Not Exist" (incremental).
#[test]
fn a_name_that_does_not_exist_is_told_as_removed_and_stays_subscribed() {
    let mut client = Client::connect(&[(Endpoints, "a=1")]);
    assert_eq!(
        client.subscribe(Endpoints, &["a", "x"]),
        ["ClusterLoadAssignment a=1 -x #1"]
    );
    client.ack(Endpoints, 1);
    assert_eq!(
        client.publish(&[(Endpoints, "x=1")]),
        ["ClusterLoadAssignment x=1 #2"]
    );
}

/// "Incremental xDS": `initial_resource_versions`.
#[test]
fn a_reconnecting_client_gets_differences_and_removals_only() {
    let mut client = Client::connect(&[(Listener, "a=1"), (Listener, "b=2"), (Listener, "c=1")]);
    assert_eq!(
        client.reconnect(Listener, &[], &["a=1", "b=1", "gone=1"]),
        ["Listener b=2 c=1 -gone #1"]
    );
    assert_eq!(client.verdict(Listener, "a=1"), "acked");
    assert_eq!(client.verdict(Listener, "b=2"), "pending");

    let mut client = Client::connect(&[(Listener, "a=1")]);
    assert_eq!(client.reconnect(Listener, &[], &["a=1"]), NOTHING);

    let mut client = Client::connect(&[(Endpoints, "a=1"), (Endpoints, "b=2"), (Endpoints, "c=1")]);
    assert_eq!(
        client.reconnect(Endpoints, &["a", "b", "c", "x"], &["a=1", "b=1"]),
        ["ClusterLoadAssignment b=2 c=1 -x #1"]
    );
}

/// "When to send an update".
#[test]
fn changes_fold_while_a_response_is_under_way() {
    let mut client = Client::connect(&[(Cluster, "a=1")]);
    client.subscribe(Cluster, &[]);
    for content in ["a=2", "a=3", "b=1", "a=4"] {
        assert_eq!(client.publish(&[(Cluster, content)]), NOTHING);
    }
    client.publish(&[(Cluster, "c=1")]);
    client.publish(&[(Cluster, "-c")]);
    assert_eq!(client.ack(Cluster, 1), ["Cluster a=4 b=1 #2"]);
    assert_eq!(client.ack(Cluster, 2), NOTHING);
}

#[test]
fn what_changes_back_is_not_sent() {
    let mut client = Client::connect(&[(Cluster, "a=1")]);
    client.subscribe(Cluster, &[]);
    client.publish(&[(Cluster, "a=2")]);
    client.publish(&[(Cluster, "a=1")]);
    assert_eq!(client.ack(Cluster, 1), NOTHING);
}

/// "Incremental xDS": changes of subscriptions are honoured even if the nonce is stale.
#[test]
fn an_unknown_nonce_acknowledges_nothing_but_its_subscriptions_count() {
    let mut client = Client::connect(&[(Endpoints, "a=1"), (Endpoints, "b=1")]);
    client.subscribe(Endpoints, &["a"]);
    client.publish(&[(Endpoints, "a=2")]);
    let sent = client.request(
        Endpoints,
        Request {
            subscribe: vec!["b".to_owned()],
            nonce: "77".to_owned(),
            ..Request::default()
        },
    );
    assert_eq!(sent, NOTHING);
    assert_eq!(client.verdict(Endpoints, "a=1"), "pending");
    assert_eq!(
        client.ack(Endpoints, 1),
        ["ClusterLoadAssignment a=2 b=1 #2"]
    );
}

/// "Resource updates": an ACK may come with new names.
#[test]
fn an_acknowledgement_may_change_subscriptions() {
    let mut client = Client::connect(&[(Endpoints, "a=1"), (Endpoints, "b=1")]);
    client.subscribe(Endpoints, &["a"]);
    let sent = client.request(
        Endpoints,
        Request {
            subscribe: vec!["b".to_owned()],
            unsubscribe: vec!["a".to_owned()],
            nonce: "1".to_owned(),
            ..Request::default()
        },
    );
    assert_eq!(sent, ["ClusterLoadAssignment b=1 #2"]);
    client.ack(Endpoints, 2);
    assert_eq!(client.publish(&[(Endpoints, "a=2")]), NOTHING);
}

/// "Unsubscribing from Resources": the exception under a wildcard.
#[test]
fn leaving_a_name_under_a_wildcard_is_answered() {
    let mut client = Client::connect(&[(Cluster, "a=1")]);
    client.subscribe(Cluster, &["*", "a", "x"]);
    client.ack(Cluster, 1);
    assert_eq!(
        client.unsubscribe(Cluster, &["a", "x"]),
        ["Cluster a=1 -x #2"]
    );
}

#[test]
fn a_response_stays_below_its_size() {
    let limits = Limits {
        response_bytes: 350,
        ..Limits::default()
    };
    let large = format!("b={}", "x".repeat(1_000));
    let mut client = Client::connect_with(
        limits,
        DELTA,
        &[
            (Cluster, "a=1"),
            (Cluster, &large),
            (Cluster, "c=1"),
            (Cluster, "d=1"),
        ],
    );
    assert_eq!(client.subscribe(Cluster, &[]), ["Cluster a=1 #1"]);
    assert_eq!(client.ack(Cluster, 1), [format!("Cluster {large} #2")]);
    assert_eq!(client.ack(Cluster, 2), ["Cluster c=1 d=1 #3"]);
}

#[test]
fn too_many_subscriptions_are_noticed() {
    let limits = Limits {
        subscriptions: 2,
        ..Limits::default()
    };
    let mut client = Client::connect_with(limits, DELTA, &[]);
    let names = |names: &[&str]| Request {
        subscribe: names.iter().map(ToString::to_string).collect(),
        ..Request::default()
    };
    assert!(
        !client
            .session
            .on_request(Endpoints, names(&["a", "b", "*"]))
            .too_many
    );
    assert!(
        client
            .session
            .on_request(RouteConfiguration, names(&["c"]))
            .too_many
    );
}

#[test]
fn a_client_that_does_not_answer_is_sent_the_newest_after_a_while() {
    let mut client = Client::connect(&[(Cluster, "a=1")]);
    client.subscribe(Cluster, &[]);
    client.publish(&[(Cluster, "a=2")]);
    let stuck = Limits::default().stuck;
    assert_eq!(
        client.session.deadline(client.now),
        Some(client.now + stuck)
    );
    assert_eq!(client.after(stuck), ["Cluster a=2 #2"]);
    assert_eq!(client.ack(Cluster, 1), NOTHING);
    assert_eq!(client.verdict(Cluster, "a=2"), "pending");
    client.ack(Cluster, 2);
    assert_eq!(client.verdict(Cluster, "a=2"), "acked");
}

#[test]
fn a_client_that_never_answers_costs_bounded_memory() {
    let mut client = Client::connect(&[(Cluster, "a=0")]);
    client.subscribe(Cluster, &[]);
    let mut sent = 1;
    for content in 1..100 {
        client.publish(&[(Cluster, &format!("a={content}"))]);
        sent += client.after(Limits::default().stuck).len();
    }
    assert_eq!(sent, 4);
    assert_eq!(
        client.session.deadline(client.now),
        None,
        "nothing to wait for"
    );
}

#[test]
fn a_client_is_in_sync_when_it_has_everything_or_after_a_while() {
    let resources = [
        (Cluster, "c=1"),
        (Listener, "l=1"),
        (RouteConfiguration, "r=1"),
    ];
    let mut client = Client::connect(&resources);
    client.subscribe(Cluster, &[]);
    client.ack(Cluster, 1);
    client.subscribe(Listener, &[]);
    client.ack(Listener, 2);
    assert!(!client.session.is_synced(), "it has no routes yet");
    client.subscribe(RouteConfiguration, &["r"]);
    assert!(!client.session.is_synced(), "it has not acknowledged them");
    client.ack(RouteConfiguration, 3);
    assert!(client.session.is_synced());

    let mut client = Client::connect(&resources);
    client.subscribe(Cluster, &[]);
    client.after(Limits::default().sync);
    assert!(client.session.is_synced());
}
