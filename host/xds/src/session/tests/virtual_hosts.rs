//! VHDS: virtual hosts follow their route configuration.

use super::*;

/// A client that has route configuration `a` and its virtual hosts, acknowledged.
fn with_a() -> Client {
    let mut client = Client::connect(&TWO_ROUTE_CONFIGS);
    client.subscribe(RouteConfiguration, &["a"]);
    client.ack(RouteConfiguration, 1);
    assert_eq!(
        client.subscribe(VirtualHost, &[]),
        ["VirtualHost a/x=1 a/y=1 #2"]
    );
    client.ack(VirtualHost, 2);
    client
}

#[test]
fn no_virtual_host_before_its_route_config() {
    let mut client = Client::connect(&TWO_ROUTE_CONFIGS);
    assert_eq!(client.subscribe(VirtualHost, &[]), NOTHING);
    assert_eq!(client.publish(&[(VirtualHost, "a/x=2")]), NOTHING);
    assert_eq!(
        client.subscribe(RouteConfiguration, &["a"]),
        ["RouteConfiguration a=1 #1"],
    );
    assert_eq!(
        client.ack(RouteConfiguration, 1),
        ["VirtualHost a/x=2 a/y=1 #2"],
    );
}

#[test]
fn one_request_of_virtual_hosts_serves_later_route_configs_too() {
    let mut client = with_a();
    assert_eq!(
        client.subscribe(RouteConfiguration, &["b"]),
        ["RouteConfiguration b=1 #3"]
    );
    assert_eq!(client.ack(RouteConfiguration, 3), ["VirtualHost b/x=1 #4"]);
}

#[test]
fn a_change_of_one_virtual_host_sends_exactly_it() {
    let mut client = with_a();
    assert_eq!(
        client.publish(&[(VirtualHost, "a/x=2"), (VirtualHost, "b/x=2")]),
        ["VirtualHost a/x=2 #3"]
    );
    client.ack(VirtualHost, 3);
    assert_eq!(
        client.publish(&[(VirtualHost, "-a/y"), (VirtualHost, "a/z=1")]),
        ["VirtualHost a/z=1 -a/y #4"]
    );
    client.ack(VirtualHost, 4);
    assert_eq!(
        client.publish(&[(RouteConfiguration, "a=2")]),
        ["RouteConfiguration a=2 #5"],
        "a changed route configuration keeps its virtual hosts"
    );
}

#[test]
fn a_route_config_subscribed_again_gets_all_its_virtual_hosts_again() {
    let mut client = with_a();
    assert_eq!(
        client.unsubscribe(RouteConfiguration, &["a"]),
        ["VirtualHost -a/x -a/y #3"],
        "or Envoy would claim to have them"
    );
    client.ack(VirtualHost, 3);
    assert_eq!(client.publish(&[(VirtualHost, "a/x=2")]), NOTHING);
    assert_eq!(
        client.subscribe(RouteConfiguration, &["a"]),
        ["RouteConfiguration a=1 #4"]
    );
    assert_eq!(
        client.ack(RouteConfiguration, 4),
        ["VirtualHost a/x=2 a/y=1 #5"]
    );
}

#[test]
fn a_route_config_dropped_and_wanted_again_at_once_loses_no_virtual_host() {
    let mut client = with_a();
    assert_eq!(
        client.subscribe(RouteConfiguration, &["a"]),
        ["RouteConfiguration a=1 #3"]
    );
    assert_eq!(
        client.ack(RouteConfiguration, 3),
        ["VirtualHost a/x=1 a/y=1 #4"]
    );
}

#[test]
fn a_route_config_removed_and_put_again_gets_all_its_virtual_hosts_again() {
    let mut client = with_a();
    client.subscribe(Listener, &[]);
    client.ack(Listener, 3);
    assert_eq!(
        client.publish(&[
            (RouteConfiguration, "-a"),
            (VirtualHost, "-a/x"),
            (VirtualHost, "-a/y")
        ]),
        ["RouteConfiguration -a #4"],
        "virtual hosts are left to what still drains"
    );
    client.ack(RouteConfiguration, 4);
    assert_eq!(
        client.publish(&[
            (RouteConfiguration, "a=1"),
            (VirtualHost, "a/x=1"),
            (VirtualHost, "a/y=1")
        ]),
        ["RouteConfiguration a=1 #5"]
    );
    assert_eq!(
        client.ack(RouteConfiguration, 5),
        ["VirtualHost a/x=1 a/y=1 #6"]
    );
}

#[test]
fn a_virtual_host_that_does_not_come_back_with_its_route_config_is_removed() {
    for told in [false, true] {
        let mut client = with_a();
        client.subscribe(Listener, &[]);
        if told {
            client.ack(Listener, 3);
        }
        let sent = client.publish(&[
            (RouteConfiguration, "-a"),
            (VirtualHost, "-a/x"),
            (VirtualHost, "-a/y"),
        ]);
        assert_eq!(sent.len(), usize::from(told));
        client.ack(RouteConfiguration, 4);
        let sent = client.publish(&[(RouteConfiguration, "a=1"), (VirtualHost, "a/x=1")]);
        if told {
            assert_eq!(sent, ["RouteConfiguration a=1 #5", "VirtualHost -a/y #6"]);
            client.ack(VirtualHost, 6);
            assert_eq!(client.ack(RouteConfiguration, 5), ["VirtualHost a/x=1 #7"]);
        } else {
            assert_eq!(sent, ["VirtualHost -a/y #4"], "nothing else has changed");
        }
    }
}

#[test]
fn a_reconnecting_client_gets_differences_of_its_route_configs_only() {
    for virtual_hosts_first in [false, true] {
        let mut client = Client::connect(&TWO_ROUTE_CONFIGS);
        client.publish(&[(VirtualHost, "-a/y"), (VirtualHost, "a/z=1")]);
        let has = ["a/x=1", "a/y=1", "gone/x=1"];
        let mut sent = Vec::new();
        if virtual_hosts_first {
            sent.extend(client.reconnect(VirtualHost, &[], &has));
            client.ack(VirtualHost, 1);
            sent.extend(client.reconnect(RouteConfiguration, &["a"], &["a=1"]));
            assert_eq!(
                sent,
                ["VirtualHost -a/y -gone/x #1", "VirtualHost a/z=1 #2"]
            );
        } else {
            sent.extend(client.reconnect(RouteConfiguration, &["a"], &["a=1"]));
            sent.extend(client.reconnect(VirtualHost, &[], &has));
            assert_eq!(sent, ["VirtualHost a/z=1 -a/y -gone/x #1"]);
        }
    }
}

#[test]
fn a_route_config_that_a_reconnecting_client_does_not_bring_along_gets_all() {
    for virtual_hosts_first in [false, true] {
        let mut client = Client::connect(&TWO_ROUTE_CONFIGS);
        let has = ["a/x=1", "a/y=1"];
        let mut sent = Vec::new();
        if virtual_hosts_first {
            sent.extend(client.reconnect(VirtualHost, &[], &has));
        }
        sent.extend(client.subscribe(RouteConfiguration, &["a"]));
        if !virtual_hosts_first {
            sent.extend(client.reconnect(VirtualHost, &[], &has));
        }
        sent.extend(client.ack(RouteConfiguration, 1));
        assert_eq!(
            sent,
            ["RouteConfiguration a=1 #1", "VirtualHost a/x=1 a/y=1 #2"]
        );
    }
}

#[test]
fn a_route_config_that_was_never_accepted_gets_its_virtual_hosts_with_the_next_form() {
    let mut client = Client::connect(&TWO_ROUTE_CONFIGS);
    client.subscribe(RouteConfiguration, &["a"]);
    client.subscribe(VirtualHost, &[]);
    assert_eq!(client.nack(RouteConfiguration, 1, "bad"), NOTHING);
    assert_eq!(
        client.publish(&[(RouteConfiguration, "a=2")]),
        ["RouteConfiguration a=2 #2"]
    );
    assert_eq!(
        client.ack(RouteConfiguration, 2),
        ["VirtualHost a/x=1 a/y=1 #3"]
    );
    client.ack(VirtualHost, 3);
    assert_eq!(
        client.publish(&[(RouteConfiguration, "a=3")]),
        ["RouteConfiguration a=3 #4"]
    );
    assert_eq!(client.nack(RouteConfiguration, 4, "bad"), NOTHING);
    assert_eq!(
        client.publish(&[(VirtualHost, "a/x=2")]),
        ["VirtualHost a/x=2 #5"],
        "it still has the form before"
    );
}

#[test]
fn what_a_client_brings_before_it_is_known_what_there_is_is_compared_when_it_is() {
    let mut client = Client::connect(&[]);
    client.snapshot.silence(&ResourceType::ALL);
    client.session.update(Arc::new(client.snapshot.clone()));
    client.reconnect(RouteConfiguration, &["rc", "old"], &["rc=1", "old=1"]);
    let has = ["rc/same=1", "rc/changed=1", "rc/gone=1", "old/gone=1"];
    assert_eq!(client.reconnect(VirtualHost, &[], &has), NOTHING);
    client.snapshot.silence(&[]);
    let sent = client.publish(&[
        (RouteConfiguration, "rc=1"),
        (VirtualHost, "rc/same=1"),
        (VirtualHost, "rc/changed=2"),
    ]);
    assert_eq!(
        sent,
        ["VirtualHost rc/changed=2 -old/gone -rc/gone #1"],
        "what is the same is not sent again"
    );
}
