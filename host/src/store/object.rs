//! Objects.

use super::identity::Key;
use super::text::Text;
use chiton_ir::gateway::LabelSelector;
use std::path::Path;
use std::sync::Arc;

/// Where an object was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// File, relative to the manifests folder; one copy for all its objects.
    pub path: Arc<Path>,
    /// Line of the document's start, from 1.
    pub line: usize,
}

/// Labels of an object, sorted. Strings are there once however many objects have them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(Option<Arc<[(Text, Text)]>>);

impl Labels {
    /// The value of a label.
    #[must_use]
    pub fn get(&self, label: &str) -> Option<&Text> {
        let labels = self.0.as_deref().unwrap_or_default();
        let at = labels
            .binary_search_by(|(known, _)| known.as_str().cmp(label))
            .ok()?;
        labels.get(at).map(|(_, value)| value)
    }

    /// All of them, sorted.
    pub fn iter(&self) -> impl Iterator<Item = &(Text, Text)> {
        self.0.as_deref().unwrap_or_default().iter()
    }

    /// Whether a selector selects an object with these labels.
    #[must_use]
    pub fn match_selector(&self, selector: &LabelSelector) -> bool {
        selector.selects(|label| self.get(label).map(Text::as_str))
    }
}

impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for Labels {
    /// Of equal labels the first counts.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(labels: I) -> Self {
        let mut labels: Vec<(Text, Text)> = labels
            .into_iter()
            .map(|(label, value)| (Text::shared(label.as_ref()), Text::shared(value.as_ref())))
            .collect();
        labels.sort_by(|a, b| a.0.cmp(&b.0));
        labels.dedup_by(|b, a| a.0 == b.0);
        Self((!labels.is_empty()).then(|| labels.into()))
    }
}

/// An input object, as reconcilers may see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Identity.
    pub key: Key,
    /// `apiVersion` as written.
    pub api_version: Text,
    /// `metadata.labels`.
    pub labels: Labels,
    /// `metadata.generation`; 0 in file mode.
    pub generation: i64,
    /// `metadata.creationTimestamp` (RFC 3339, UTC), which orders objects by age as text; none in
    /// file mode, where it would not be the same on every host.
    pub created: Option<String>,
    /// The object as JSON with sorted keys, without `status`, `metadata.managedFields` and
    /// `metadata.resourceVersion`. Empty if [`Object::problem`] is set. This is the only copy.
    pub body: Arc<[u8]>,
    /// Why the object cannot be given to a reconciler (too large, a name that is none), if so. It
    /// is there all the same: references to it are not dangling.
    pub problem: Option<String>,
    /// Where it was read; none from an API server.
    pub origin: Option<Origin>,
}

impl Object {
    /// Age order of the Gateway API: oldest first, then namespace and name. Without time stamps,
    /// namespace and name alone.
    #[must_use]
    pub fn age(&self) -> (Option<&str>, &str, &str) {
        (self.created.as_deref(), &self.key.namespace, &self.key.name)
    }

    /// Whether a reconciler could tell the two apart.
    #[must_use]
    pub fn same_content(&self, other: &Self) -> bool {
        self.body == other.body
            && self.generation == other.generation
            && self.created == other.created
            && self.problem == other.problem
    }
}
