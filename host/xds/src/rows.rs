//! What one client was sent of one type, and what it said to it.

use crate::resource::route_config_of;
use crate::snapshot::prefix;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

/// A rejection.
#[derive(Debug)]
pub(crate) struct Nack {
    /// Version that was rejected.
    pub version: Arc<str>,
    /// The client's words.
    pub text: String,
    /// When.
    pub at: SystemTime,
}

/// One resource that the client has, or was sent.
#[derive(Debug)]
pub(crate) struct Row {
    /// Version that it was sent last; empty if it may not have taken it.
    pub sent: Arc<str>,
    /// Version that it accepted last and has not been sent anew since.
    pub acked: Option<Arc<str>>,
    /// Set if it rejected `sent`.
    pub nack: Option<Arc<Nack>>,
}

impl Row {
    /// Whether it accepted the version that it was sent last.
    pub fn is_acked(&self) -> bool {
        self.nack.is_none() && self.acked.as_ref() == Some(&self.sent)
    }
}

/// How things stand with one version of one resource.
#[derive(Debug, Clone)]
pub(crate) enum Verdict {
    /// The client did not ask for the resource.
    Unconcerned,
    Pending,
    Acked,
    Nacked(Arc<Nack>),
}

/// The rows of one type, with their counts.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    map: BTreeMap<Arc<str>, Row>,
    acked: usize,
    nacked: BTreeSet<Arc<str>>,
}

impl Rows {
    pub fn get(&self, name: &str) -> Option<&Row> {
        self.map.get(name)
    }

    pub fn contains(&self, name: &str) -> bool {
        self.map.contains_key(name)
    }

    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Number of rows whose version was accepted.
    pub fn acked(&self) -> usize {
        self.acked
    }

    /// Number of rows whose version was rejected.
    pub fn nacked(&self) -> usize {
        self.nacked.len()
    }

    /// All names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.map.keys()
    }

    /// Names of the virtual hosts of a route configuration, sorted.
    pub fn under(&self, route_config: &str) -> Vec<Arc<str>> {
        let (from, to) = prefix(route_config);
        self.map
            .range::<str, _>((
                std::ops::Bound::Included(from.as_str()),
                std::ops::Bound::Excluded(to.as_str()),
            ))
            .map(|(name, _)| name.clone())
            .filter(|name| route_config_of(name) == Some(route_config))
            .collect()
    }

    /// Rejections that stand, by name.
    pub fn nacks(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<Nack>)> {
        self.nacked
            .iter()
            .filter_map(|name| Some((name, self.map.get(name)?.nack.as_ref()?)))
    }

    /// The client says that it has this version, from an earlier stream.
    pub fn known(&mut self, name: Arc<str>, version: Arc<str>) {
        self.remove(&name);
        self.acked += 1;
        let row = Row {
            acked: Some(version.clone()),
            sent: version,
            nack: None,
        };
        self.map.insert(name, row);
    }

    /// The version was sent. Sent anew, it counts as accepted only when it is accepted anew: it was
    /// sent because the client may have lost it.
    pub fn sent(&mut self, name: &Arc<str>, version: &Arc<str>) {
        if !self.map.contains_key(name) {
            let row = Row {
                sent: version.clone(),
                acked: None,
                nack: None,
            };
            self.map.insert(name.clone(), row);
            return;
        }
        self.change(name, |row| {
            row.sent = version.clone();
            row.nack = None;
            row.acked.take_if(|acked| acked == version);
        });
    }

    /// The version was accepted. Nothing if another one was sent since.
    pub fn accept(&mut self, name: &str, version: &Arc<str>) {
        self.change(name, |row| {
            if row.sent == *version {
                row.acked = Some(version.clone());
                row.nack = None;
            }
        });
    }

    /// The version was rejected. Nothing if another one was sent since.
    pub fn reject(&mut self, name: &str, nack: Nack) {
        self.change(name, |row| {
            if row.sent == nack.version {
                row.nack = Some(Arc::new(nack));
            }
        });
    }

    /// Whether the client took the version is not known: no version counts as sent.
    pub fn doubt(&mut self, name: &str) {
        self.change(name, |row| row.sent = Arc::default());
    }

    /// The client no longer has it, or never mind.
    pub fn remove(&mut self, name: &str) -> bool {
        self.nacked.remove(name);
        let Some(row) = self.map.remove(name) else {
            return false;
        };
        self.acked -= usize::from(row.is_acked());
        true
    }

    /// How things stand with this version.
    pub fn verdict(&self, name: &str, version: &str) -> Verdict {
        let Some(row) = self.map.get(name).filter(|row| *row.sent == *version) else {
            return Verdict::Pending;
        };
        match &row.nack {
            Some(nack) => Verdict::Nacked(nack.clone()),
            None if row.is_acked() => Verdict::Acked,
            None => Verdict::Pending,
        }
    }

    /// Changes a row and keeps the counts.
    fn change(&mut self, name: &str, change: impl FnOnce(&mut Row)) {
        let Some((key, _)) = self.map.get_key_value(name) else {
            return;
        };
        let key = key.clone();
        if let Some(row) = self.map.get_mut(name) {
            self.acked -= usize::from(row.is_acked());
            change(row);
            self.acked += usize::from(row.is_acked());
            if row.nack.is_some() {
                self.nacked.insert(key);
            } else {
                self.nacked.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn nack(version: &str) -> Nack {
        Nack {
            version: version.into(),
            text: "no".to_owned(),
            at: SystemTime::UNIX_EPOCH,
        }
    }

    #[test]
    fn an_answer_to_an_older_version_says_nothing_of_the_newer() {
        let mut rows = Rows::default();
        let name: Arc<str> = "a".into();
        rows.sent(&name, &"1".into());
        rows.sent(&name, &"2".into());
        rows.accept("a", &"1".into());
        rows.reject("a", nack("1"));
        assert!(matches!(rows.verdict("a", "2"), Verdict::Pending));
        assert_eq!((rows.acked(), rows.nacked()), (0, 0));
        rows.accept("a", &"2".into());
        assert!(matches!(rows.verdict("a", "2"), Verdict::Acked));
        assert!(matches!(rows.verdict("a", "1"), Verdict::Pending));
    }

    #[test]
    fn counts_follow_every_change() {
        let mut rows = Rows::default();
        rows.known("a".into(), "1".into());
        rows.sent(&"b".into(), &"1".into());
        assert_eq!((rows.len(), rows.acked(), rows.nacked()), (2, 1, 0));
        rows.reject("b", nack("1"));
        assert_eq!(rows.nacked(), 1);
        assert_eq!(rows.nacks().count(), 1);
        rows.sent(&"b".into(), &"2".into());
        assert_eq!(rows.nacked(), 0);
        rows.sent(&"a".into(), &"1".into());
        assert_eq!(rows.acked(), 0, "sent anew, so not accepted yet");
        rows.accept("a", &"1".into());
        assert_eq!(rows.acked(), 1);
        assert!(rows.remove("a"));
        assert_eq!((rows.len(), rows.acked()), (1, 0));
    }

    #[test]
    fn the_accepted_version_is_kept_while_a_newer_one_is_rejected() {
        let mut rows = Rows::default();
        rows.known("a".into(), "1".into());
        rows.sent(&"a".into(), &"2".into());
        rows.reject("a", nack("2"));
        assert_eq!(rows.get("a").unwrap().acked.as_deref(), Some("1"));
        assert!(matches!(rows.verdict("a", "2"), Verdict::Nacked(_)));
    }
}
