//! Rejected responses that hold everything, or whole route configurations: what is not at fault stays.

use super::*;

fn connect(resources: &[(ResourceType, &str)]) -> Client {
    Client::connect_as(STATE_OF_THE_WORLD, resources)
}

/// A client with clusters `a`, `b`, `c` and `d` in form 1, accepted. The next nonce is 2.
fn settled() -> Client {
    let mut client = connect(&[
        (Cluster, "a=1"),
        (Cluster, "b=1"),
        (Cluster, "c=1"),
        (Cluster, "d=1"),
    ]);
    client.state(Cluster, &[], "");
    client.state(Cluster, &[], "1");
    client
}

#[test]
fn the_others_stay_while_an_unnamed_culprit_is_searched() {
    let mut client = settled();
    let changes = [
        (Cluster, "a=2"),
        (Cluster, "b=2"),
        (Cluster, "c=bad"),
        (Cluster, "new=2"),
    ];
    assert_eq!(
        client.publish(&changes),
        ["Cluster a=2 b=2 c=bad d=1 new=2 #2"]
    );
    assert_eq!(
        client.state_nack(Cluster, &[], "2", "refused"),
        ["Cluster a=2 b=2 c=1 d=1 #3"],
        "half of what is new; c as it was, what never was there not yet"
    );
    assert_eq!(
        client.state(Cluster, &[], "3"),
        ["Cluster a=2 b=2 c=bad d=1 new=2 #4"]
    );
    assert_eq!(
        client.state_nack(Cluster, &[], "4", "refused"),
        ["Cluster a=2 b=2 c=bad d=1 #5"]
    );
    assert_eq!(
        client.state_nack(Cluster, &[], "5", "refused"),
        ["Cluster a=2 b=2 c=1 d=1 new=2 #6"]
    );
    assert_eq!(client.state(Cluster, &[], "6"), NOTHING);
    assert_eq!(client.verdict(Cluster, "c=bad"), "refused");
    for accepted in ["a=2", "b=2", "d=1", "new=2"] {
        assert_eq!(client.verdict(Cluster, accepted), "acked", "{accepted}");
    }
    assert_eq!(client.after(Duration::from_hours(1)), NOTHING);
    assert_eq!(
        client.publish(&[(Cluster, "a=3")]),
        ["Cluster a=3 b=2 c=1 d=1 new=2 #7"],
        "what was accepted before is repeated"
    );
    client.state(Cluster, &[], "7");
    assert_eq!(
        client.publish(&[(Cluster, "c=3")]),
        ["Cluster a=3 b=2 c=3 d=1 new=2 #8"],
        "the next version is tried"
    );
}

#[test]
fn a_named_culprit_is_left_in_its_accepted_form_at_once() {
    let mut client = settled();
    client.publish(&[(Cluster, "a=2"), (Cluster, "b=bad"), (Cluster, "new=bad")]);
    let text = "Error adding/updating cluster(s) b: no, new: no";
    assert_eq!(
        client.state_nack(Cluster, &[], "2", text),
        ["Cluster a=2 b=1 c=1 d=1 #3"]
    );
    assert_eq!(client.state(Cluster, &[], "3"), NOTHING);
    assert_eq!(client.verdict(Cluster, "b=bad"), text);
    assert_eq!(client.verdict(Cluster, "new=bad"), text);
    assert_eq!(client.verdict(Cluster, "a=2"), "acked");
}

#[test]
fn a_removal_beside_a_culprit_is_told_again() {
    let mut client = settled();
    assert_eq!(
        client.publish(&[(Listener, "x=1"), (Cluster, "a=2")]),
        ["Cluster a=2 b=1 c=1 d=1 #2"]
    );
    client.state(Cluster, &[], "2");
    client.state(Listener, &[], "");
    client.state(Listener, &[], "3");
    assert_eq!(
        client.publish(&[(Listener, "-x"), (Listener, "y=bad")]),
        ["Listener y=bad #4"]
    );
    assert_eq!(
        client.state_nack(Listener, &[], "4", "refused"),
        ["Listener #5"]
    );
    assert_eq!(
        client.state_nack(Listener, &[], "5", "no"),
        NOTHING,
        "not for ever"
    );
}

#[test]
fn a_cluster_that_goes_back_to_an_earlier_form_is_followed_by_its_endpoints() {
    let mut client = settled();
    client.publish(&[(Endpoints, "a=1"), (Endpoints, "b=1")]);
    client.state(Endpoints, &["a", "b"], "");
    client.state(Endpoints, &["a", "b"], "2");
    assert_eq!(
        client.publish(&[(Cluster, "a=2"), (Cluster, "b=bad")]),
        [
            "Cluster a=2 b=bad c=1 d=1 #3",
            "ClusterLoadAssignment a=1 b=1 #4"
        ]
    );
    client.state(Endpoints, &["a", "b"], "4");
    // The client may have taken a=2 from the response that it rejected.
    client.publish(&[(Cluster, "a=bad")]);
    assert_eq!(
        client.state_nack(Cluster, &[], "3", "b"),
        [
            "Cluster a=bad b=1 c=1 d=1 #5",
            "ClusterLoadAssignment a=1 b=1 #6"
        ]
    );
    client.state(Endpoints, &["a", "b"], "6");
    assert_eq!(client.state_nack(Cluster, &[], "5", "a"), NOTHING);
    assert_eq!(
        client.publish(&[(Cluster, "c=2")]),
        ["Cluster a=1 b=1 c=2 d=1 #7", "ClusterLoadAssignment a=1 #8"]
    );
    client.state(Endpoints, &["a", "b"], "8");
    client.state(Cluster, &[], "7");
    assert_eq!(
        client.publish(&[(Cluster, "c=3")]),
        ["Cluster a=1 b=1 c=3 d=1 #9"],
        "once"
    );
}

#[test]
fn a_client_that_reconnects_gets_what_others_accepted_of_the_rejected() {
    let mut client = settled();
    client.publish(&[(Cluster, "a=bad"), (Cluster, "b=2")]);
    client.state_nack(Cluster, &[], "2", "a");
    client.state(Cluster, &[], "3");

    let now = client.now;
    let snapshot = Arc::new(client.snapshot.clone());
    client.session = Session::new(Limits::default(), STATE_OF_THE_WORLD, snapshot, now);
    assert_eq!(
        client.state(Cluster, &[], ""),
        ["Cluster a=bad b=2 c=1 d=1 #1"],
        "another client may take it"
    );
    assert_eq!(
        client.state_nack(Cluster, &[], "1", "a"),
        ["Cluster a=1 b=2 c=1 d=1 #2"]
    );

    // What is gone is not remembered.
    client.publish(&[(Cluster, "-a")]);
    client.publish(&[(Cluster, "a=bad")]);
    let snapshot = Arc::new(client.snapshot.clone());
    client.session = Session::new(Limits::default(), STATE_OF_THE_WORLD, snapshot, now);
    client.state(Cluster, &[], "");
    assert_eq!(
        client.state_nack(Cluster, &[], "1", "a"),
        ["Cluster b=2 c=1 d=1 #2"]
    );
}

#[test]
fn what_a_client_had_before_goes_even_if_all_that_there_is_is_rejected() {
    let mut client = connect(&[(Listener, "a=bad")]);
    client.state(Listener, &[], "");
    assert_eq!(client.state_nack(Listener, &[], "1", "no"), ["Listener #2"]);
    assert_eq!(
        client.state_nack(Listener, &[], "2", "no"),
        NOTHING,
        "not for ever"
    );
}

#[test]
fn a_route_configuration_is_tried_before_its_virtual_hosts() {
    let mut client = connect(&[
        (RouteConfiguration, "r=1"),
        (VirtualHost, "r/x=1"),
        (VirtualHost, "r/y=bad"),
    ]);
    let names = &["r"];
    client.state(RouteConfiguration, names, "");
    assert_eq!(
        client.state_nack(RouteConfiguration, names, "1", "refused"),
        ["RouteConfiguration r=1() #2"]
    );
    assert_eq!(
        client.publish(&[(VirtualHost, "r/z=1")]),
        NOTHING,
        "one response is under way"
    );
    assert_eq!(
        client.state(RouteConfiguration, names, "2"),
        ["RouteConfiguration r=1(r/z=1) #3"]
    );
    assert_eq!(
        client.state(RouteConfiguration, names, "3"),
        ["RouteConfiguration r=1(r/x=1 r/y=bad r/z=1) #4"]
    );
    assert_eq!(
        client.state_nack(RouteConfiguration, names, "4", "refused"),
        ["RouteConfiguration r=1(r/x=1 r/z=1) #5"]
    );
    assert_eq!(
        client.state(RouteConfiguration, names, "5"),
        ["RouteConfiguration r=1(r/x=1 r/y=bad r/z=1) #6"]
    );
    assert_eq!(
        client.state_nack(RouteConfiguration, names, "6", "refused"),
        NOTHING
    );
    assert_eq!(client.verdict(VirtualHost, "r/y=bad"), "refused");
    assert_eq!(client.verdict(VirtualHost, "r/x=1"), "acked");
    assert_eq!(client.verdict(RouteConfiguration, "r=1"), "acked");
    assert_eq!(
        client.publish(&[(RouteConfiguration, "r=2"), (VirtualHost, "r/y=2")]),
        ["RouteConfiguration r=2(r/x=1 r/y=2 r/z=1) #7"]
    );
}

#[test]
fn a_rejected_route_configuration_keeps_its_accepted_form_with_what_is_new_in_it() {
    let mut client = connect(&[(RouteConfiguration, "r=1"), (VirtualHost, "r/x=1")]);
    let names = &["r"];
    client.state(RouteConfiguration, names, "");
    client.state(RouteConfiguration, names, "1");
    client.publish(&[(RouteConfiguration, "r=bad"), (VirtualHost, "r/x=2")]);
    assert_eq!(
        client.state_nack(RouteConfiguration, names, "2", "refused"),
        ["RouteConfiguration r=bad(r/x=1) #3"]
    );
    assert_eq!(
        client.state_nack(RouteConfiguration, names, "3", "refused"),
        ["RouteConfiguration r=1(r/x=2) #4"]
    );
    client.state(RouteConfiguration, names, "4");
    assert_eq!(client.verdict(RouteConfiguration, "r=bad"), "refused");
    assert_eq!(client.verdict(VirtualHost, "r/x=2"), "acked");
}
