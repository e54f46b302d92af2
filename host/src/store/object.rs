//! Objects and their identities.

use chiton_ir::ObjectRef;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

/// A shared [`ObjectRef`]: what everything in the host is keyed by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<ObjectRef>);

impl Key {
    /// A key from its four parts.
    #[must_use]
    pub fn new(group: &str, kind: &str, namespace: &str, name: &str) -> Self {
        ObjectRef::new(group, kind, namespace, name).into()
    }
}

impl From<ObjectRef> for Key {
    fn from(object: ObjectRef) -> Self {
        Self(Arc::new(object))
    }
}

impl From<&ObjectRef> for Key {
    fn from(object: &ObjectRef) -> Self {
        object.clone().into()
    }
}

impl Deref for Key {
    type Target = ObjectRef;
    fn deref(&self) -> &ObjectRef {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Where an object was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// File, relative to the manifests folder.
    pub path: PathBuf,
    /// Line of the document's start, from 1.
    pub line: usize,
}

/// An input object, as reconcilers may see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Identity.
    pub key: Key,
    /// `apiVersion` as written.
    pub api_version: String,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `metadata.generation`; 0 in file mode.
    pub generation: i64,
    /// `metadata.creationTimestamp` (RFC 3339, UTC), which orders objects by age as text; none in
    /// file mode, where it would not be the same on every host.
    pub created: Option<String>,
    /// The object as JSON with sorted keys, without `status`, `metadata.managedFields` and
    /// `metadata.resourceVersion`. Empty if [`Object::problem`] is set.
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
