//! The life of modules: from a file or `ConfigMap` to a reconciler that owns objects.
//!
//! A module is *fetched*, *verified*, *compiled*, *tried*, *live* and at last *retired*. A step that
//! fails refuses that version; what was live before goes on. What is live is an immutable
//! [`Modules`], swapped whole, which the pipeline takes at the start of an epoch.

mod live;

pub use live::{Changes, FailurePolicy, LiveModule, Modules, PolicyModule};
