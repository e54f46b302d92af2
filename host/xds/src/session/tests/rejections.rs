//! Rejected responses.

use super::*;

/// A virtual host that is rejected leads where its earlier form leads: a cluster that nothing else
/// refers to stays for the time that it takes to publish another form.
#[test]
fn a_cluster_stays_while_what_may_refer_to_it_is_rejected() {
    let mut client = Client::connect(&[
        (Cluster, "old=1"),
        (Listener, "l=1"),
        (RouteConfiguration, "r=1"),
    ]);
    client.subscribe(Cluster, &[]);
    client.ack(Cluster, 1);
    client.subscribe(Listener, &[]);
    client.ack(Listener, 2);
    client.subscribe(RouteConfiguration, &["r"]);
    client.ack(RouteConfiguration, 3);
    client.subscribe(VirtualHost, &[]);
    assert_eq!(
        client.publish(&[(RouteConfiguration, "r=2"), (Cluster, "-old")]),
        ["RouteConfiguration r=2 #4"]
    );
    assert_eq!(client.nack(RouteConfiguration, 4, "no"), NOTHING);
    assert_eq!(
        client.publish(&[(RouteConfiguration, "r=3")]),
        ["RouteConfiguration r=3 #5"]
    );
    assert_eq!(client.ack(RouteConfiguration, 5), ["Cluster -old #6"]);
}

#[test]
fn a_rejected_version_is_not_sent_again_but_the_next_is() {
    let mut client = Client::connect(&[(Listener, "a=1")]);
    client.subscribe(Listener, &[]);
    assert_eq!(client.nack(Listener, 1, "bad a"), NOTHING);
    assert_eq!(client.verdict(Listener, "a=1"), "bad a");
    assert_eq!(client.after(Duration::from_hours(1)), NOTHING);
    assert_eq!(client.publish(&[(Listener, "b=1")]), ["Listener b=1 #2"]);
    client.ack(Listener, 2);
    assert_eq!(client.publish(&[(Listener, "a=2")]), ["Listener a=2 #3"]);
    client.ack(Listener, 3);
    assert_eq!(client.verdict(Listener, "a=2"), "acked");
}

#[test]
fn the_neighbours_of_a_named_culprit_are_sent_again() {
    let mut client = Client::connect(&[(Cluster, "a=1"), (Cluster, "bad=1"), (Cluster, "c=1")]);
    client.subscribe(Cluster, &[]);
    let text = "Error adding/updating cluster(s) bad: no such thing";
    assert_eq!(client.nack(Cluster, 1, text), ["Cluster a=1 c=1 #2"]);
    assert_eq!(client.verdict(Cluster, "a=1"), "pending");
    assert_eq!(client.ack(Cluster, 2), NOTHING);
    assert_eq!(client.verdict(Cluster, "a=1"), "acked");
    assert_eq!(client.verdict(Cluster, "bad=1"), text);
}

/// Answers as a client that refuses responses with a bad virtual host as a whole. Returns the
/// number of responses.
fn answer_all(client: &mut Client, mut sent: Vec<String>) -> usize {
    let mut count = 0;
    while let Some(response) = sent.pop() {
        count += 1;
        let nonce = response.rsplit_once('#').unwrap().1.parse().unwrap();
        sent.extend(if response.contains("=bad") {
            client.nack(VirtualHost, nonce, "refused")
        } else {
            client.ack(VirtualHost, nonce)
        });
    }
    count
}

#[test]
fn unnamed_culprits_are_found_by_halves_and_all_others_are_served() {
    let mut client = Client::connect(&[(RouteConfiguration, "r=1")]);
    client.subscribe(RouteConfiguration, &["r"]);
    client.ack(RouteConfiguration, 1);
    client.subscribe(VirtualHost, &[]);
    let hosts: Vec<String> = (0..64)
        .map(|host| {
            let content = if [7, 40].contains(&host) {
                "bad"
            } else {
                "good"
            };
            format!("r/{host}={content}")
        })
        .collect();
    let changes: Vec<_> = hosts.iter().map(|host| (VirtualHost, &**host)).collect();
    let sent = client.publish(&changes);
    assert_eq!(sent.len(), 1);
    let responses = answer_all(&mut client, sent);
    assert!(responses <= 1 + 2 * 2 * 6, "{responses} responses");
    for host in &hosts {
        let expected = if host.ends_with("bad") {
            "refused"
        } else {
            "acked"
        };
        assert_eq!(client.verdict(VirtualHost, host), expected, "{host}");
    }
    assert_eq!(client.after(Duration::from_mins(1)), NOTHING);
}

#[test]
fn secrets_are_sent_one_by_one_because_only_the_first_answer_is_true() {
    let mut client = Client::connect(&[(Secret, "a=1"), (Secret, "b=bad"), (Secret, "c=1")]);
    let sent = client.subscribe(Secret, &["a", "b", "c"]);
    assert_eq!(sent, ["Secret a=1 #1"]);
    assert_eq!(client.ack(Secret, 1), ["Secret b=bad #2"]);
    assert_eq!(client.nack(Secret, 2, "refused"), ["Secret c=1 #3"]);
    assert_eq!(client.ack(Secret, 3), NOTHING);
    assert_eq!(client.verdict(Secret, "b=bad"), "refused");
    assert_eq!(client.verdict(Secret, "c=1"), "acked");
}

#[test]
fn a_removal_in_a_rejected_response_is_told_again() {
    let mut client = Client::connect(&[(Listener, "a=1")]);
    client.subscribe(Listener, &[]);
    client.ack(Listener, 1);
    assert_eq!(
        client.publish(&[(Listener, "-a"), (Listener, "b=1")]),
        ["Listener b=1 -a #2"]
    );
    assert_eq!(client.nack(Listener, 2, "bad b"), ["Listener -a #3"]);
    assert_eq!(client.nack(Listener, 3, "no"), NOTHING, "not for ever");
}

#[test]
fn the_last_suspect_is_not_guilty_because_the_others_have_changed() {
    let mut client = Client::connect(&[(Endpoints, "a=bad"), (Endpoints, "b=1")]);
    client.subscribe(Endpoints, &["a", "b"]);
    client.unsubscribe(Endpoints, &["a"]);
    assert_eq!(
        client.nack(Endpoints, 1, "refused"),
        ["ClusterLoadAssignment b=1 #2"]
    );
    client.ack(Endpoints, 2);
    assert_eq!(client.verdict(Endpoints, "b=1"), "acked");
}

#[test]
fn an_innocent_that_goes_and_comes_back_unchanged_is_sent_again() {
    let mut client = Client::connect(&[(Endpoints, "a=bad"), (Endpoints, "b=1")]);
    client.subscribe(Endpoints, &["a", "b"]);
    client.publish(&[(Endpoints, "-b")]);
    assert_eq!(
        client.nack(Endpoints, 1, "refused"),
        ["ClusterLoadAssignment a=bad #2"]
    );
    assert_eq!(client.publish(&[(Endpoints, "b=1")]), NOTHING);
    assert_eq!(
        client.nack(Endpoints, 2, "refused"),
        ["ClusterLoadAssignment b=1 #3"]
    );
}

#[test]
fn changes_go_on_while_a_culprit_is_searched() {
    let mut client = Client::connect(&[(RouteConfiguration, "r=1")]);
    client.subscribe(RouteConfiguration, &["r"]);
    client.ack(RouteConfiguration, 1);
    client.subscribe(VirtualHost, &[]);
    client.publish(&[(VirtualHost, "r/a=bad"), (VirtualHost, "r/b=good")]);
    client.publish(&[(VirtualHost, "r/c=good"), (VirtualHost, "r/a=better")]);
    let sent = client.nack(VirtualHost, 2, "refused");
    assert_eq!(sent, ["VirtualHost r/a=better r/c=good #3"]);
    answer_all(&mut client, sent);
    assert_eq!(client.verdict(VirtualHost, "r/a=better"), "acked");
    assert_eq!(client.verdict(VirtualHost, "r/b=good"), "acked");
}

#[test]
fn a_rejection_of_something_older_does_not_count() {
    let mut client = Client::connect(&[(Cluster, "a=1")]);
    client.subscribe(Cluster, &[]);
    client.publish(&[(Cluster, "a=2")]);
    client.after(Limits::default().stuck);
    assert_eq!(client.nack(Cluster, 1, "bad"), NOTHING);
    assert_eq!(client.verdict(Cluster, "a=2"), "pending");
    client.ack(Cluster, 2);
    assert_eq!(client.verdict(Cluster, "a=2"), "acked");
}

#[test]
fn a_rejected_cluster_does_not_hold_back_routes() {
    let mut client = Client::connect(&[(RouteConfiguration, "r=1"), (VirtualHost, "r/v=1")]);
    client.subscribe(Cluster, &[]);
    client.ack(Cluster, 1);
    client.subscribe(RouteConfiguration, &["r"]);
    client.ack(RouteConfiguration, 2);
    client.subscribe(VirtualHost, &[]);
    client.ack(VirtualHost, 3);
    assert_eq!(
        client.publish(&[(Cluster, "bad=1"), (VirtualHost, "r/v=2")]),
        ["Cluster bad=1 #4"]
    );
    assert_eq!(client.nack(Cluster, 4, "refused"), ["VirtualHost r/v=2 #5"]);
}
