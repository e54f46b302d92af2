//! The state of the world.

use super::*;
use crate::ResourceType::Secret;

fn connect(resources: &[(ResourceType, &str)]) -> Client {
    Client::connect_as(STATE_OF_THE_WORLD, resources)
}

/// "Grouping Resources into Responses": a response of clusters or listeners holds all of them.
#[test]
fn clusters_and_listeners_are_sent_whole() {
    for kind in [Cluster, Listener] {
        let mut client = connect(&[(kind, "a=1"), (kind, "b=1")]);
        assert_eq!(client.state(kind, &[], ""), [format!("{kind} a=1 b=1 #1")]);
        assert_eq!(client.state(kind, &[], "1"), NOTHING, "an ACK");
        assert_eq!(
            client.publish(&[(kind, "a=2")]),
            [format!("{kind} a=2 b=1 #2")]
        );
        assert_eq!(client.state(kind, &[], "2"), NOTHING);
        assert_eq!(client.verdict(kind, "a=2"), "acked");
        assert_eq!(client.verdict(kind, "b=1"), "acked");
    }
}

/// "Grouping Resources into Responses": of other types what has changed is enough.
#[test]
fn other_types_are_sent_in_part() {
    for kind in [Endpoints, ResourceType::ExtensionConfig] {
        let mut client = connect(&[(kind, "a=1"), (kind, "b=1")]);
        assert_eq!(
            client.state(kind, &["a", "b"], ""),
            [format!("{kind} a=1 b=1 #1")]
        );
        client.state(kind, &["a", "b"], "1");
        assert_eq!(client.publish(&[(kind, "a=2")]), [format!("{kind} a=2 #2")]);
    }
}

/// "Deleting Resources": of clusters and listeners what is missing is gone, also if nothing is left.
#[test]
fn a_cluster_or_listener_is_removed_by_its_absence() {
    let mut client = connect(&[(Listener, "a=1"), (Listener, "b=1")]);
    client.state(Listener, &[], "");
    client.state(Listener, &[], "1");
    assert_eq!(client.publish(&[(Listener, "-b")]), ["Listener a=1 #2"]);
    client.state(Listener, &[], "2");
    assert_eq!(client.publish(&[(Listener, "-a")]), ["Listener #3"]);
}

/// "Deleting Resources": of other types nothing says that something is gone.
#[test]
fn the_removal_of_other_types_is_not_told() {
    let mut client = connect(&[(Endpoints, "a=1")]);
    client.state(Endpoints, &["a"], "");
    client.state(Endpoints, &["a"], "1");
    assert_eq!(client.publish(&[(Endpoints, "-a")]), NOTHING);
    assert_eq!(client.after(Duration::from_hours(1)), NOTHING);
    assert_eq!(
        client.publish(&[(Endpoints, "a=1")]),
        ["ClusterLoadAssignment a=1 #2"]
    );
}

/// "Knowing When a Requested Resource Does Not Exist": it is simply absent, stays subscribed, and is
/// sent when it is there.
#[test]
fn what_does_not_exist_is_absent_and_stays_subscribed() {
    let mut client = connect(&[(Endpoints, "a=1"), (Listener, "l=1")]);
    assert_eq!(client.state(Endpoints, &["x"], ""), NOTHING);
    assert_eq!(
        client.state(Endpoints, &["a", "x"], ""),
        ["ClusterLoadAssignment a=1 #1"]
    );
    client.state(Endpoints, &["a", "x"], "1");
    assert_eq!(
        client.publish(&[(Endpoints, "x=1")]),
        ["ClusterLoadAssignment x=1 #2"]
    );

    assert_eq!(client.state(Listener, &["l", "x"], ""), ["Listener l=1 #3"]);
    client.state(Listener, &["l", "x"], "3");
    assert_eq!(
        client.publish(&[(Listener, "x=1")]),
        ["Listener l=1 x=1 #4"]
    );
}

/// "How the client specifies what resources to return": the example of that section.
#[test]
fn an_empty_request_is_a_wildcard_until_something_was_named() {
    let mut client = connect(&[(Cluster, "A=1"), (Cluster, "B=1")]);
    assert_eq!(client.state(Cluster, &[], ""), ["Cluster A=1 B=1 #1"]);
    assert_eq!(
        client.state(Cluster, &[], "1"),
        NOTHING,
        "still the wildcard"
    );
    assert_eq!(
        client.state(Cluster, &["*", "A"], "1"),
        ["Cluster A=1 B=1 #2"],
        "A is newly named"
    );
    assert_eq!(client.state(Cluster, &["*", "A"], "2"), NOTHING);
    assert_eq!(client.publish(&[(Cluster, "B=2")]), ["Cluster A=1 B=2 #3"]);
    client.state(Cluster, &["*", "A"], "3");
    assert_eq!(
        client.state(Cluster, &["A"], "3"),
        NOTHING,
        "the wildcard is left"
    );
    assert_eq!(client.publish(&[(Cluster, "B=3")]), NOTHING);
    assert_eq!(client.publish(&[(Cluster, "A=2")]), ["Cluster A=2 #4"]);
    client.state(Cluster, &["A"], "4");
    assert_eq!(
        client.state(Cluster, &[], "4"),
        NOTHING,
        "everything is left"
    );
    assert_eq!(
        client.publish(&[(Cluster, "A=3"), (Cluster, "B=4")]),
        NOTHING
    );
}

/// "Unsubscribing From Resources": what the wildcard covers too need not be answered: responses of
/// clusters and listeners hold all that is left, and of other types nothing can be said.
#[test]
fn leaving_a_name_under_a_wildcard_is_not_answered() {
    let mut client = connect(&[(Cluster, "a=1")]);
    client.state(Cluster, &["*", "a"], "");
    assert_eq!(client.state(Cluster, &["*"], "1"), NOTHING);
    assert_eq!(client.publish(&[(Cluster, "a=2")]), ["Cluster a=2 #2"]);
}

/// "How the client specifies what resources to return": an explicit wildcard, of any type; and an
/// empty first request of another type than clusters and listeners asks for nothing.
#[test]
fn an_explicit_wildcard_asks_for_everything() {
    let mut client = connect(&[(Cluster, "a=1"), (Endpoints, "a=1")]);
    assert_eq!(client.state(Cluster, &["*"], ""), ["Cluster a=1 #1"]);
    assert_eq!(client.state(Endpoints, &[], ""), NOTHING);
    assert_eq!(
        client.state(Endpoints, &["*"], ""),
        ["ClusterLoadAssignment a=1 #2"]
    );
}

/// "How the client specifies what resources to return": what is newly named is sent, though it is
/// unchanged and was sent before.
#[test]
fn a_newly_named_resource_is_sent_even_if_unchanged() {
    let mut client = connect(&[(Endpoints, "a=1"), (Endpoints, "b=1")]);
    client.state(Endpoints, &["a", "b"], "");
    client.state(Endpoints, &["a", "b"], "1");
    assert_eq!(client.state(Endpoints, &["a"], "1"), NOTHING);
    assert_eq!(
        client.state(Endpoints, &["a", "b"], "1"),
        ["ClusterLoadAssignment b=1 #2"]
    );
}

/// "Unsubscribing From Resources": what a request does not name is left.
#[test]
fn what_is_not_named_any_more_is_not_sent() {
    let mut client = connect(&[(Endpoints, "a=1"), (Endpoints, "b=1"), (Listener, "l=1")]);
    client.state(Endpoints, &["a", "b"], "");
    assert_eq!(client.state(Endpoints, &["a"], "1"), NOTHING);
    assert_eq!(client.publish(&[(Endpoints, "b=2")]), NOTHING);
    assert_eq!(
        client.publish(&[(Endpoints, "a=2")]),
        ["ClusterLoadAssignment a=2 #2"]
    );
    assert_eq!(client.state(Endpoints, &[], "2"), NOTHING);
    assert_eq!(client.publish(&[(Endpoints, "a=3")]), NOTHING);

    client.state(Listener, &["l"], "");
    assert_eq!(client.state(Listener, &[], "3"), NOTHING);
    assert_eq!(client.publish(&[(Listener, "l=2")]), NOTHING);
}

/// "Resource updates": a request with a stale nonce is not answered, and its names do not count: the
/// client repeats them with its answer to the response that it has not seen. That it has taken the
/// older response is true all the same.
#[test]
fn names_of_a_stale_request_do_not_count() {
    let mut client = connect(&[(Endpoints, "a=1"), (Endpoints, "b=1"), (Endpoints, "c=1")]);
    client.state(Endpoints, &["a"], "");
    client.state(Endpoints, &["a"], "1");
    client.publish(&[(Endpoints, "a=2")]);
    assert_eq!(client.state(Endpoints, &["b"], "1"), NOTHING);
    assert_eq!(client.state(Endpoints, &["b"], ""), NOTHING);
    assert_eq!(client.state(Endpoints, &["b"], "77"), NOTHING);
    assert_eq!(client.verdict(Endpoints, "a=2"), "pending");
    assert_eq!(
        client.state(Endpoints, &["a", "c"], "2"),
        ["ClusterLoadAssignment c=1 #3"]
    );
    assert_eq!(client.verdict(Endpoints, "a=2"), "acked");
}

/// "Basic Protocol Overview": a nonce belongs to one response, so to one type and one stream.
#[test]
fn a_nonce_answers_its_own_type_only() {
    let mut client = connect(&[(Cluster, "a=1"), (Listener, "l=1")]);
    client.state(Cluster, &[], "");
    client.state(Listener, &[], "");
    assert_eq!(client.state(Listener, &[], "1"), NOTHING);
    client.state_nack(Cluster, &[], "2", "no");
    assert_eq!(client.verdict(Cluster, "a=1"), "pending");
    assert_eq!(client.verdict(Listener, "l=1"), "pending");
    client.state(Cluster, &[], "1");
    client.state(Listener, &[], "2");
    assert_eq!(client.verdict(Cluster, "a=1"), "acked");
    assert_eq!(client.verdict(Listener, "l=1"), "acked");
}

/// "ACK/NACK": an error is a rejection; what was accepted before stays, and the next version goes.
#[test]
fn a_rejected_version_is_not_repeated_but_the_next_is_sent() {
    let mut client = connect(&[(Endpoints, "a=1")]);
    client.state(Endpoints, &["a"], "");
    client.state(Endpoints, &["a"], "1");
    client.publish(&[(Endpoints, "a=2")]);
    assert_eq!(client.state_nack(Endpoints, &["a"], "2", "bad"), NOTHING);
    assert_eq!(client.verdict(Endpoints, "a=2"), "bad");
    assert_eq!(client.after(Duration::from_hours(1)), NOTHING);
    assert_eq!(
        client.publish(&[(Endpoints, "a=3")]),
        ["ClusterLoadAssignment a=3 #3"]
    );
    client.state(Endpoints, &["a"], "3");
    assert_eq!(client.verdict(Endpoints, "a=3"), "acked");
}

/// "ACK/NACK": a rejection may come with new names.
#[test]
fn a_rejection_may_change_subscriptions() {
    let mut client = connect(&[(Endpoints, "a=1"), (Endpoints, "b=1")]);
    client.state(Endpoints, &["a"], "");
    assert_eq!(
        client.state_nack(Endpoints, &["a", "b"], "1", "bad"),
        ["ClusterLoadAssignment b=1 #2"]
    );
}

/// "When to send an update": one response is under way, what changes meanwhile is folded.
#[test]
fn changes_fold() {
    let mut client = connect(&[(Cluster, "a=1")]);
    client.state(Cluster, &[], "");
    for content in ["a=2", "b=1", "a=3"] {
        assert_eq!(client.publish(&[(Cluster, content)]), NOTHING);
    }
    assert_eq!(client.state(Cluster, &[], "1"), ["Cluster a=3 b=1 #2"]);
    client.publish(&[(Cluster, "a=4")]);
    client.publish(&[(Cluster, "a=3")]);
    assert_eq!(client.state(Cluster, &[], "2"), NOTHING, "it changed back");
}

/// Silence before ready, and of types that are withheld.
#[test]
fn nothing_is_said_before_ready() {
    let mut client = connect(&[(Cluster, "a=1"), (Secret, "s=1")]);
    client.snapshot.silence(&ResourceType::ALL);
    client.publish(&[]);
    assert_eq!(client.state(Cluster, &[], ""), NOTHING);
    client.snapshot.silence(&[Secret]);
    assert_eq!(client.publish(&[]), ["Cluster a=1 #1"]);
    assert_eq!(client.state(Secret, &["s"], ""), NOTHING);
    client.snapshot.silence(&[]);
    assert_eq!(client.publish(&[]), ["Secret s=1 #2"]);
}

/// Before the truth is known a client that returns hears nothing: what it has is no older than what
/// was restored. One that has nothing gets what was restored.
#[test]
fn what_is_restored_is_for_clients_that_have_nothing() {
    for version in ["", "7"] {
        let mut client = connect(&[(Listener, "a=1")]);
        client.snapshot.silence(&[Secret]);
        client.publish(&[]);
        let request = StateRequest {
            version: version.to_owned(),
            ..StateRequest::default()
        };
        client.session.on_state_request(Listener, request);
        assert_eq!(client.poll().is_empty(), !version.is_empty());
        client.snapshot.silence(&[]);
        assert_eq!(client.publish(&[]).is_empty(), version.is_empty());
    }
}

/// "Eventual consistency considerations": a cluster stays in the responses until no route leads to it.
#[test]
fn a_cluster_stays_until_nothing_refers_to_it() {
    let mut client = connect(&[(Cluster, "old=1"), (RouteConfiguration, "r=1")]);
    client.state(Cluster, &[], "");
    client.state(Cluster, &[], "1");
    client.state(RouteConfiguration, &["r"], "");
    client.state(RouteConfiguration, &["r"], "2");
    client.state(Listener, &[], "");
    client.state(Listener, &[], "3");
    assert_eq!(
        client.publish(&[
            (Cluster, "new=1"),
            (Cluster, "-old"),
            (RouteConfiguration, "r=2")
        ]),
        ["Cluster new=1 old=1 #4"]
    );
    assert_eq!(
        client.state(Cluster, &[], "4"),
        ["RouteConfiguration r=2() #5"]
    );
    assert_eq!(
        client.state(RouteConfiguration, &["r"], "5"),
        ["Cluster new=1 #6"]
    );
}

/// A client that returns cannot say what it has: clusters that went meanwhile stay in the responses
/// until its routes lead elsewhere.
#[test]
fn a_client_that_returns_keeps_a_cluster_until_nothing_refers_to_it() {
    let old = [
        (Cluster, "old=1"),
        (Cluster, "same=1"),
        (Listener, "l=1"),
        (RouteConfiguration, "r=1"),
    ];
    let mut before = connect(&old);
    before.state(Cluster, &[], "");
    assert!(
        before.session.clusters().is_none(),
        "it has not accepted them yet"
    );
    before.state(Cluster, &[], "1");
    let had = before.session.clusters().unwrap().clone();
    let new = [
        (Cluster, "new=1"),
        (Cluster, "same=1"),
        (Listener, "l=1"),
        (RouteConfiguration, "r=2"),
    ];

    // One that has nothing, though it is called the same, is not sent it.
    let mut other = connect(&new);
    other.session.had(had.clone());
    assert_eq!(other.state(Cluster, &[], ""), ["Cluster new=1 same=1 #1"]);

    let mut client = connect(&new);
    client.session.had(had);
    let first = StateRequest {
        version: "7".to_owned(),
        ..StateRequest::default()
    };
    client.session.on_state_request(Cluster, first);
    assert_eq!(client.poll(), ["Cluster new=1 old=1 same=1 #1"]);
    assert_eq!(client.state(Cluster, &[], "1"), NOTHING);
    client.state(Listener, &[], "");
    assert_eq!(client.state(Listener, &[], "2"), NOTHING);
    client.state(RouteConfiguration, &["r"], "");
    assert_eq!(
        client.state(RouteConfiguration, &["r"], "3"),
        ["Cluster new=1 same=1 #4"]
    );
    client.state(Cluster, &[], "4");
    assert!(client.session.is_synced());
}

/// The same where the server restarts and serves what was saved, until it knows the truth.
#[test]
fn what_was_restored_and_is_gone_stays_until_nothing_refers_to_it() {
    let mut client = connect(&[(Cluster, "old=1")]);
    client.snapshot.silence(&[Secret]);
    client.publish(&[]);
    let first = StateRequest {
        version: "7".to_owned(),
        ..StateRequest::default()
    };
    client.session.on_state_request(Cluster, first);
    assert_eq!(client.poll(), NOTHING);
    client.snapshot.silence(&[]);
    assert_eq!(
        client.publish(&[(Cluster, "new=1"), (Cluster, "-old")]),
        ["Cluster new=1 old=1 #1"]
    );
    client.state(Cluster, &[], "1");
    assert_eq!(
        client.after(Limits::default().break_after),
        ["Cluster new=1 #2"]
    );
}

/// A changed cluster is followed by its endpoints (a warming cluster waits for them).
#[test]
fn a_changed_cluster_is_followed_by_its_endpoints() {
    let mut client = connect(&[
        (Cluster, "a=1"),
        (Cluster, "b=1"),
        (Endpoints, "a=1"),
        (Endpoints, "b=1"),
    ]);
    client.state(Cluster, &[], "");
    client.state(Endpoints, &["a", "b"], "");
    client.state(Endpoints, &["a", "b"], "2");
    client.state(Cluster, &[], "1");
    assert_eq!(
        client.publish(&[(Cluster, "a=2")]),
        ["Cluster a=2 b=1 #3", "ClusterLoadAssignment a=1 #4"]
    );
}

/// A client that does not answer gets the newest after a while; its late answer is stale, but true.
#[test]
fn a_client_that_answers_late_is_believed() {
    let mut client = connect(&[(Endpoints, "a=1"), (Endpoints, "b=1")]);
    client.state(Endpoints, &["a", "b"], "");
    client.publish(&[(Endpoints, "b=2")]);
    assert_eq!(
        client.after(Limits::default().stuck),
        ["ClusterLoadAssignment b=2 #2"]
    );
    assert_eq!(client.state(Endpoints, &["a"], "1"), NOTHING);
    assert_eq!(client.verdict(Endpoints, "a=1"), "acked");
    assert_eq!(client.verdict(Endpoints, "b=2"), "pending");
    client.state(Endpoints, &["a", "b"], "2");
    assert_eq!(client.verdict(Endpoints, "b=2"), "acked");
}

/// A client that names its listeners, as gRPC does, has everything when it has what it named.
#[test]
fn a_client_is_not_concerned_by_what_it_did_not_ask_for() {
    let mut client = connect(&[
        (Listener, "mine=1"),
        (Listener, "other=1"),
        (RouteConfiguration, "r=1"),
        (RouteConfiguration, "s=1"),
        (VirtualHost, "r/v=1"),
        (VirtualHost, "s/v=1"),
    ]);
    client.state(Listener, &["mine"], "");
    client.state(Listener, &["mine"], "1");
    client.state(RouteConfiguration, &["r"], "");
    client.state(RouteConfiguration, &["r"], "2");
    assert!(client.session.is_synced());
    assert_eq!(client.verdict(Listener, "mine=1"), "acked");
    assert_eq!(client.verdict(VirtualHost, "r/v=1"), "acked");
    for (kind, other) in [
        (Listener, "other=1"),
        (RouteConfiguration, "s=1"),
        (VirtualHost, "s/v=1"),
    ] {
        assert_eq!(client.verdict(kind, other), "unconcerned");
    }
}
