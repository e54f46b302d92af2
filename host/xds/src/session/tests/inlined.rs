//! Clients without VHDS: virtual hosts come in their route configuration.

use super::*;

/// A client of the state of the world that has route configuration `a`, acknowledged.
fn with_a() -> Client {
    let mut client = Client::connect_as(STATE_OF_THE_WORLD, &TWO_ROUTE_CONFIGS);
    assert_eq!(
        client.state(RouteConfiguration, &["a"], ""),
        ["RouteConfiguration a=1(a/x=1 a/y=1) #1"]
    );
    assert_eq!(client.state(RouteConfiguration, &["a"], "1"), NOTHING);
    client
}

#[test]
fn a_route_configuration_is_sent_when_it_or_a_virtual_host_of_it_changes() {
    let mut client = with_a();
    assert_eq!(
        client.publish(&[(VirtualHost, "a/x=2"), (VirtualHost, "b/x=2")]),
        ["RouteConfiguration a=1(a/x=2 a/y=1) #2"]
    );
    client.state(RouteConfiguration, &["a"], "2");
    assert_eq!(
        client.publish(&[(VirtualHost, "-a/y"), (VirtualHost, "a/z=1")]),
        ["RouteConfiguration a=1(a/x=2 a/z=1) #3"]
    );
    client.state(RouteConfiguration, &["a"], "3");
    assert_eq!(
        client.publish(&[(RouteConfiguration, "a=2")]),
        ["RouteConfiguration a=2(a/x=2 a/z=1) #4"]
    );
    client.state(RouteConfiguration, &["a"], "4");
    assert_eq!(
        client.publish(&[(VirtualHost, "-a/x"), (VirtualHost, "-a/z")]),
        ["RouteConfiguration a=2() #5"]
    );
}

#[test]
fn a_virtual_host_counts_as_accepted_with_its_route_configuration() {
    let mut client = with_a();
    assert_eq!(client.verdict(VirtualHost, "a/x=1"), "acked");
    client.publish(&[(VirtualHost, "a/x=2")]);
    assert_eq!(client.verdict(VirtualHost, "a/x=2"), "pending");
    assert_eq!(client.verdict(VirtualHost, "a/y=1"), "acked");
    client.state(RouteConfiguration, &["a"], "2");
    assert_eq!(client.verdict(VirtualHost, "a/x=2"), "acked");
    assert_eq!(
        client.verdict(VirtualHost, "b/x=1"),
        "pending",
        "never sent"
    );
}

#[test]
fn what_changes_back_is_not_sent() {
    let mut client = with_a();
    client.publish(&[(VirtualHost, "a/x=2")]);
    client.publish(&[(VirtualHost, "a/y=2")]);
    client.publish(&[(VirtualHost, "a/y=1")]);
    assert_eq!(client.state(RouteConfiguration, &["a"], "2"), NOTHING);
}

#[test]
fn all_streams_share_one_encoding_of_what_is_published() {
    let mut snapshot = Snapshot::empty(true);
    snapshot.apply(
        TWO_ROUTE_CONFIGS
            .iter()
            .map(|(kind, text)| put(*kind, text))
            .collect(),
    );
    let whole = |snapshot: &Snapshot, route_config| snapshot.inlined(route_config).unwrap().clone();
    let (a, b) = (whole(&snapshot, "a"), whole(&snapshot, "b"));
    let mut next = snapshot.clone();
    next.apply(vec![put(VirtualHost, "a/x=2"), put(Cluster, "c=1")]);
    assert!(Arc::ptr_eq(&b, &whole(&next, "b")), "it has not changed");
    assert_ne!(a.version, whole(&next, "a").version);

    let next = Arc::new(next);
    let bodies = [(), ()].map(|()| {
        let now = Instant::now();
        let mut session = Session::new(Limits::default(), STATE_OF_THE_WORLD, next.clone(), now);
        let names = vec!["a".to_owned()];
        let request = StateRequest {
            names,
            ..StateRequest::default()
        };
        session.on_state_request(RouteConfiguration, request);
        session.poll(now).remove(0).resources.remove(0)
    });
    assert!(Arc::ptr_eq(&bodies[0], &bodies[1]));
    assert!(Arc::ptr_eq(&bodies[0], &whole(&next, "a")));
}

#[test]
fn a_response_holds_whole_route_configurations_up_to_its_size() {
    let limits = Limits {
        response_bytes: 300,
        ..Limits::default()
    };
    let resources: Vec<String> = (0..3)
        .flat_map(|r| [format!("r{r}=1"), format!("r{r}/x=1"), format!("r{r}/y=1")])
        .collect();
    let resources: Vec<_> = resources
        .iter()
        .map(|text| {
            let kind = if text.contains('/') {
                VirtualHost
            } else {
                RouteConfiguration
            };
            (kind, text.as_str())
        })
        .collect();
    let mut client = Client::connect_with(limits, STATE_OF_THE_WORLD, &resources);
    let names = ["r0", "r1", "r2"];
    let mut sent = client.state(RouteConfiguration, &names, "");
    for r in 0..3 {
        let nonce = (r + 1).to_string();
        assert_eq!(
            sent,
            [format!(
                "RouteConfiguration r{r}=1(r{r}/x=1 r{r}/y=1) #{nonce}"
            )]
        );
        sent = client.state(RouteConfiguration, &names, &nonce);
    }
    assert_eq!(sent, NOTHING);
}

#[test]
fn delta_clients_without_vhds_get_the_same_and_are_told_of_removals() {
    let mut client = Client::connect_as(DELTA_WITHOUT_VHDS, &TWO_ROUTE_CONFIGS);
    assert_eq!(
        client.subscribe(RouteConfiguration, &["a", "x"]),
        ["RouteConfiguration a=1(a/x=1 a/y=1) -x #1"]
    );
    client.ack(RouteConfiguration, 1);
    assert_eq!(
        client.publish(&[(VirtualHost, "a/x=2")]),
        ["RouteConfiguration a=1(a/x=2 a/y=1) #2"]
    );
    client.ack(RouteConfiguration, 2);
    client.subscribe(Listener, &[]);
    client.ack(Listener, 3);
    let gone = [
        (RouteConfiguration, "-a"),
        (VirtualHost, "-a/x"),
        (VirtualHost, "-a/y"),
    ];
    assert_eq!(client.publish(&gone), ["RouteConfiguration -a #4"]);
    client.ack(RouteConfiguration, 4);
    assert_eq!(
        client.publish(&[(RouteConfiguration, "a=1"), (VirtualHost, "a/x=2")]),
        ["RouteConfiguration a=1(a/x=2) #5"]
    );
}

#[test]
fn a_reconnecting_delta_client_without_vhds_gets_differences_only() {
    let versions = |client: &Client| {
        let whole = client.snapshot.inlined("a").unwrap();
        std::collections::HashMap::from([("a".to_owned(), whole.version.to_string())])
    };
    let mut client = Client::connect_as(DELTA_WITHOUT_VHDS, &TWO_ROUTE_CONFIGS);
    let request = Request {
        subscribe: vec!["a".to_owned()],
        initial_versions: versions(&client),
        ..Request::default()
    };
    let has = request.initial_versions.clone();
    assert_eq!(client.request(RouteConfiguration, request), NOTHING);
    assert_eq!(client.verdict(VirtualHost, "a/x=1"), "acked");
    assert_eq!(
        client.publish(&[(VirtualHost, "a/x=2")]),
        ["RouteConfiguration a=1(a/x=2 a/y=1) #1"]
    );

    let mut client = Client::connect_as(DELTA_WITHOUT_VHDS, &TWO_ROUTE_CONFIGS);
    client.publish(&[(VirtualHost, "a/x=2")]);
    let request = Request {
        subscribe: vec!["a".to_owned()],
        initial_versions: has,
        ..Request::default()
    };
    assert_eq!(
        client.request(RouteConfiguration, request),
        ["RouteConfiguration a=1(a/x=2 a/y=1) #1"]
    );
}

#[test]
fn a_route_configuration_that_goes_and_comes_back_has_its_virtual_hosts() {
    let mut client = with_a();
    let gone = [
        (RouteConfiguration, "-a"),
        (VirtualHost, "-a/x"),
        (VirtualHost, "-a/y"),
    ];
    assert_eq!(client.publish(&gone), NOTHING);
    assert_eq!(
        client.publish(&[(RouteConfiguration, "a=1"), (VirtualHost, "a/y=1")]),
        ["RouteConfiguration a=1(a/y=1) #2"]
    );
    client.state(RouteConfiguration, &["a"], "2");
    client.state(RouteConfiguration, &[], "2");
    assert_eq!(
        client.state(RouteConfiguration, &["a"], "2"),
        ["RouteConfiguration a=1(a/y=1) #3"]
    );
}

#[test]
fn virtual_hosts_are_no_type_of_their_own() {
    let client = with_a();
    assert!(!client.session.serves(VirtualHost));
    let requested: Vec<_> = client.session.requested().collect();
    assert_eq!(requested, [RouteConfiguration, VirtualHost]);
}
