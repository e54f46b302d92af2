//! Make before break.

use super::*;
use crate::ResourceType::Secret;

/// A client with everything, acknowledged. The next nonce is 6.
fn settled() -> Client {
    let mut client = Client::connect(&[
        (Cluster, "c=1"),
        (Endpoints, "c=1"),
        (Listener, "l=1"),
        (RouteConfiguration, "r=1"),
        (VirtualHost, "r/v=1"),
    ]);
    client.subscribe(Cluster, &[]);
    client.subscribe(Endpoints, &["c"]);
    client.ack(Endpoints, 2);
    client.ack(Cluster, 1);
    client.subscribe(Listener, &[]);
    client.ack(Listener, 3);
    client.subscribe(RouteConfiguration, &["r"]);
    client.ack(RouteConfiguration, 4);
    client.subscribe(VirtualHost, &[]);
    client.ack(VirtualHost, 5);
    assert!(client.session.is_synced());
    client
}

#[test]
fn a_changed_cluster_is_followed_by_its_endpoints() {
    let mut client = settled();
    assert_eq!(
        client.publish(&[(Cluster, "c=2")]),
        ["Cluster c=2 #6", "ClusterLoadAssignment c=1 #7"]
    );
}

#[test]
fn a_cluster_that_changed_while_a_client_was_away_is_followed_by_its_endpoints() {
    let mut client = Client::connect(&[
        (Cluster, "c=2"),
        (Cluster, "d=1"),
        (Endpoints, "c=1"),
        (Endpoints, "d=1"),
    ]);
    client.reconnect(Cluster, &[], &["c=1", "d=1"]);
    assert_eq!(
        client.reconnect(Endpoints, &["c", "d"], &["c=1", "d=1"]),
        ["ClusterLoadAssignment c=1 #2"]
    );
}

#[test]
fn routes_wait_for_clusters_to_be_acknowledged() {
    let mut client = settled();
    assert_eq!(
        client.publish(&[(Cluster, "d=1"), (Endpoints, "d=1"), (VirtualHost, "r/v=2")]),
        ["Cluster d=1 #6"]
    );
    assert_eq!(
        client.subscribe(Endpoints, &["d"]),
        ["ClusterLoadAssignment d=1 #7"]
    );
    assert_eq!(client.ack(Endpoints, 7), NOTHING);
    assert_eq!(client.ack(Cluster, 6), ["VirtualHost r/v=2 #8"]);
}

#[test]
fn routes_do_not_wait_for_clusters_longer_than_a_clock_says_and_only_once() {
    let mut client = settled();
    client.publish(&[(Cluster, "d=1"), (VirtualHost, "r/v=2")]);
    let make = Limits::default().make;
    assert_eq!(client.session.deadline(client.now), Some(client.now + make));
    assert_eq!(client.after(make), ["VirtualHost r/v=2 #7"]);
    client.ack(VirtualHost, 7);
    assert_eq!(
        client.publish(&[(VirtualHost, "r/v=3")]),
        ["VirtualHost r/v=3 #8"],
        "the cluster that does not come is not waited for again"
    );
}

#[test]
fn routes_wait_for_endpoints_to_be_sent() {
    let mut client = settled();
    client.publish(&[(Endpoints, "c=2")]);
    assert_eq!(
        client.publish(&[(Endpoints, "c=3"), (VirtualHost, "r/v=2")]),
        NOTHING
    );
    assert_eq!(
        client.ack(Endpoints, 6),
        ["ClusterLoadAssignment c=3 #7", "VirtualHost r/v=2 #8"]
    );
}

#[test]
fn a_cluster_goes_when_no_route_leads_to_it() {
    let mut client = settled();
    client.publish(&[(Cluster, "d=1")]);
    client.ack(Cluster, 6);
    assert_eq!(
        client.publish(&[
            (Cluster, "-c"),
            (Endpoints, "-c"),
            (VirtualHost, "r/v=2"),
            (Cluster, "e=1")
        ]),
        ["Cluster e=1 #7"]
    );
    assert_eq!(client.ack(Cluster, 7), ["VirtualHost r/v=2 #8"]);
    assert_eq!(
        client.ack(VirtualHost, 8),
        ["Cluster -c #9", "ClusterLoadAssignment -c #10"]
    );
}

#[test]
fn a_removal_does_not_wait_longer_than_a_clock_says() {
    let mut client = settled();
    client.publish(&[(Cluster, "-c"), (VirtualHost, "r/v=2")]);
    let wait = Limits::default().break_after;
    assert_eq!(client.session.deadline(client.now), Some(client.now + wait));
    assert_eq!(client.after(wait), ["Cluster -c #7"]);
}

#[test]
fn a_removal_does_not_wait_for_what_came_later() {
    let mut client = settled();
    client.publish(&[(Cluster, "-c"), (VirtualHost, "r/v=2")]);
    client.publish(&[(VirtualHost, "r/v=3")]);
    assert_eq!(
        client.ack(VirtualHost, 6),
        ["VirtualHost r/v=3 #7", "Cluster -c #8"]
    );
}

#[test]
fn what_is_put_again_before_it_goes_stays() {
    let mut client = settled();
    client.publish(&[(Cluster, "-c"), (VirtualHost, "r/v=2")]);
    client.publish(&[(Cluster, "c=1")]);
    assert_eq!(client.ack(VirtualHost, 6), NOTHING);
    assert_eq!(client.after(Limits::default().break_after), NOTHING);
}

#[test]
fn what_goes_again_waits_for_what_refers_to_it_now() {
    let mut client = settled();
    client.publish(&[(Cluster, "-c"), (VirtualHost, "r/v=2")]);
    client.publish(&[(Cluster, "c=1"), (VirtualHost, "r/v=3")]);
    client.publish(&[(Cluster, "-c"), (VirtualHost, "r/v=4")]);
    assert_eq!(client.ack(VirtualHost, 6), ["VirtualHost r/v=4 #7"]);
    assert_eq!(client.ack(VirtualHost, 7), ["Cluster -c #8"]);
}

#[test]
fn a_secret_goes_after_its_listener() {
    let mut client = settled();
    client.publish(&[(Secret, "s=1")]);
    client.subscribe(Secret, &["s"]);
    client.ack(Secret, 6);
    assert_eq!(
        client.publish(&[(Secret, "-s"), (Listener, "-l"), (RouteConfiguration, "-r")]),
        ["Listener -l #7"]
    );
    assert_eq!(
        client.ack(Listener, 7),
        ["RouteConfiguration -r #8", "Secret -s #9"]
    );
}

#[test]
fn a_reconnecting_client_keeps_a_cluster_until_its_routes_are_changed() {
    let mut client = Client::connect(&[
        (Listener, "l=1"),
        (RouteConfiguration, "r=1"),
        (VirtualHost, "r/v=2"),
    ]);
    assert_eq!(client.reconnect(Cluster, &[], &["c=1"]), NOTHING);
    assert_eq!(client.reconnect(Listener, &[], &["l=1"]), NOTHING);
    client.reconnect(RouteConfiguration, &["r"], &["r=1"]);
    assert_eq!(
        client.reconnect(VirtualHost, &[], &["r/v=1"]),
        ["VirtualHost r/v=2 #1"]
    );
    assert_eq!(client.ack(VirtualHost, 1), ["Cluster -c #2"]);
}

#[test]
fn everything_is_sent_in_order_of_type() {
    let mut client = settled();
    client.publish(&[
        (Cluster, "d=1"),
        (Listener, "l=2"),
        (RouteConfiguration, "r=2"),
    ]);
    client.publish(&[(VirtualHost, "r/v=2")]);
    assert_eq!(
        client.ack(Cluster, 6),
        [
            "Listener l=2 #7",
            "RouteConfiguration r=2 #8",
            "VirtualHost r/v=2 #9"
        ]
    );
}
