//! The store from outside: what a commit promises, to one thread and to many.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::{Change, Key, Object, Store, Told};
use chiton_ir::GroupKind;
use chiton_ir::gateway::{LabelOperator, LabelRequirement, LabelSelector};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Barrier};
use std::thread;

fn key(namespace: &str, name: &str) -> Key {
    Key::new("", "Service", namespace, name)
}

fn kind() -> GroupKind {
    GroupKind::new("", "Service")
}

fn labelled(namespace: &str, name: &str, body: &str, labels: &[(&str, &str)]) -> Arc<Object> {
    Arc::new(Object {
        key: key(namespace, name),
        api_version: "v1".into(),
        labels: labels.iter().copied().collect(),
        generation: 0,
        created: None,
        body: body.as_bytes().into(),
        problem: None,
        origin: None,
    })
}

fn object(namespace: &str, name: &str, body: &str) -> Arc<Object> {
    labelled(namespace, name, body, &[])
}

fn put(namespace: &str, name: &str, body: &str) -> Change {
    Change::Put(object(namespace, name, body))
}

fn changes(store: &Store) -> BTreeSet<Told> {
    store.feed().take().into_keys().collect()
}

fn told(namespace: &str, name: &str) -> Told {
    Told::Object(key(namespace, name))
}

fn listed(store: &Store, namespace: Option<&str>, selector: &LabelSelector) -> Vec<String> {
    let (snapshot, kind) = (store.snapshot(), kind());
    let found = snapshot.list(&kind, namespace, selector);
    found
        .map(|object| format!("{}/{}", object.key.namespace, object.key.name))
        .collect()
}

#[test]
fn concurrent_commits_lose_nothing() {
    const THREADS: usize = 8;
    const COMMITS: usize = 200;
    let store = Store::new();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let store = &store;
            scope.spawn(move || {
                let namespace = format!("n{thread}");
                for number in 0..COMMITS {
                    store.commit(&[put(&namespace, &format!("o{number}"), "1")]);
                    if number % 2 == 1 {
                        store.commit(&[Change::Delete(key(&namespace, &format!("o{number}")))]);
                    }
                }
            });
        }
    });
    assert_eq!(store.snapshot().objects().count(), THREADS * COMMITS / 2);
    // Also those that came and went: the reader learns of every key that ever changed.
    assert_eq!(store.feed().take().len(), THREADS * COMMITS);
}

#[test]
fn nobody_sees_half_a_commit() {
    let store = Store::new();
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for number in 0..2000 {
                let body = number.to_string();
                store.commit(&[put("a", "x", &body), put("b", "y", &body)]);
            }
        });
        while !writer.is_finished() {
            let snapshot = store.snapshot();
            let body =
                |namespace, name| snapshot.get(&key(namespace, name)).map(|o| o.body.clone());
            assert_eq!(body("a", "x"), body("b", "y"));
        }
    });
}

#[test]
fn a_snapshot_stays_as_it_was() {
    let store = Store::new();
    store.commit(&[put("a", "x", "1"), put("a", "y", "1")]);
    let before = store.snapshot();
    store.commit(&[
        put("a", "x", "2"),
        Change::Delete(key("a", "y")),
        put("a", "z", "1"),
    ]);
    let bodies = |snapshot: &super::Snapshot| -> BTreeMap<String, Vec<u8>> {
        snapshot
            .objects()
            .map(|object| (object.key.name.to_string(), object.body.to_vec()))
            .collect()
    };
    let text = |entries: &[(&str, &str)]| -> BTreeMap<String, Vec<u8>> {
        entries
            .iter()
            .map(|(name, body)| ((*name).to_owned(), body.as_bytes().to_vec()))
            .collect()
    };
    assert_eq!(bodies(&before), text(&[("x", "1"), ("y", "1")]));
    assert_eq!(bodies(&store.snapshot()), text(&[("x", "2"), ("z", "1")]));
}

#[test]
fn readers_do_not_wait_for_a_commit_that_is_under_way() {
    let store = Arc::new(Store::new());
    store.commit(&[put("a", "x", "1")]);
    // A commit that has got as far as telling the feed waits.
    let release = Arc::new(Barrier::new(2));
    let holder = {
        let (store, release) = (store.clone(), release.clone());
        thread::spawn(move || store.feed().hold(&release))
    };
    release.wait();
    let committer = {
        let store = store.clone();
        thread::spawn(move || store.commit(&[put("a", "y", "1")]))
    };
    while store.snapshot().get(&key("a", "y")).is_none() {
        thread::yield_now();
    }
    assert!(!committer.is_finished());
    assert_eq!(store.snapshot().objects().count(), 2);
    release.wait();
    holder.join().unwrap();
    committer.join().unwrap();
    assert_eq!(store.feed().take().len(), 2);
}

#[test]
fn what_changes_nothing_is_not_told() {
    let store = Store::new();
    store.commit(&[put("a", "x", "1"), Change::Synced(kind())]);
    assert_eq!(
        changes(&store),
        BTreeSet::from([told("a", "x"), Told::Synced(kind())])
    );
    store.commit(&[
        put("a", "x", "1"),
        Change::Delete(key("a", "nobody")),
        Change::Synced(kind()),
    ]);
    assert_eq!(changes(&store), BTreeSet::new());
    store.commit(&[put("a", "x", "2")]);
    assert_eq!(changes(&store), BTreeSet::from([told("a", "x")]));
    store.commit(&[Change::Delete(key("a", "x"))]);
    assert_eq!(changes(&store), BTreeSet::from([told("a", "x")]));
}

#[test]
fn where_an_object_was_read_is_kept_but_not_told() {
    let store = Store::new();
    store.commit(&[put("a", "x", "1")]);
    store.feed().take();
    let mut moved = Object::clone(&object("a", "x", "1"));
    moved.origin = Some(super::Origin {
        path: std::path::Path::new("b.yaml").into(),
        line: 3,
    });
    store.commit(&[Change::Put(Arc::new(moved))]);
    assert!(store.feed().take().is_empty());
    assert!(
        store
            .snapshot()
            .get(&key("a", "x"))
            .unwrap()
            .origin
            .is_some()
    );
}

#[test]
fn a_kind_is_unsynced_until_it_is_said_to_be() {
    let store = Store::new();
    store.commit(&[put("a", "x", "1")]);
    assert!(!store.snapshot().is_synced(&kind()));
    store.commit(&[Change::Synced(kind())]);
    assert!(store.snapshot().is_synced(&kind()));
    assert!(!store.snapshot().is_synced(&GroupKind::new("", "Secret")));
}

#[test]
fn lists_are_sorted_and_selected() {
    let store = Store::new();
    let other = Key::new("", "Secret", "a", "x");
    let mut secret = Object::clone(&object("a", "x", "1"));
    secret.key = other;
    store.commit(&[
        Change::Put(labelled("b", "x", "1", &[("app", "web"), ("tier", "1")])),
        Change::Put(labelled("a-b", "x", "1", &[("app", "web")])),
        Change::Put(labelled("a", "y", "1", &[("app", "db")])),
        Change::Put(labelled("a", "x", "1", &[])),
        Change::Put(Arc::new(secret)),
    ]);
    let all = LabelSelector::default();
    assert_eq!(listed(&store, None, &all), ["a/x", "a/y", "a-b/x", "b/x"]);
    assert_eq!(listed(&store, Some("a"), &all), ["a/x", "a/y"]);
    assert_eq!(listed(&store, Some("a-b"), &all), ["a-b/x"]);
    assert_eq!(listed(&store, Some("c"), &all), Vec::<String>::new());

    let web = LabelSelector {
        match_labels: BTreeMap::from([("app".to_owned(), "web".to_owned())]),
        ..LabelSelector::default()
    };
    assert_eq!(listed(&store, None, &web), ["a-b/x", "b/x"]);
    assert_eq!(listed(&store, Some("b"), &web), ["b/x"]);
    for (operator, values, expected) in [
        (
            LabelOperator::In,
            &["web", "db"][..],
            &["a/y", "a-b/x", "b/x"][..],
        ),
        (LabelOperator::NotIn, &["web"], &["a/x", "a/y"]),
        (LabelOperator::Exists, &[], &["a/y", "a-b/x", "b/x"]),
        (LabelOperator::DoesNotExist, &[], &["a/x"]),
    ] {
        let selector = LabelSelector {
            match_expressions: vec![LabelRequirement {
                key: "app".to_owned(),
                operator,
                values: values.iter().map(|value| (*value).to_owned()).collect(),
            }],
            ..LabelSelector::default()
        };
        assert_eq!(listed(&store, None, &selector), expected, "{operator:?}");
    }
}

#[test]
fn counts_are_per_kind() {
    let store = Store::new();
    store.commit(&[put("a", "x", "1"), put("b", "x", "1")]);
    let snapshot = store.snapshot();
    let counts: Vec<_> = snapshot.counts().collect();
    assert_eq!(counts, [(&kind(), 2)]);
}

#[tokio::test]
async fn the_feed_wakes_its_reader() {
    let store = Arc::new(Store::new());
    let writer = store.clone();
    let reader = tokio::spawn(async move { store.feed().next().await });
    tokio::task::yield_now().await;
    writer.commit(&[put("a", "x", "1")]);
    assert_eq!(
        reader.await.unwrap().into_keys().collect::<BTreeSet<_>>(),
        BTreeSet::from([told("a", "x")])
    );
}
