//! One value for each resource type.

use crate::ResourceType;
use std::ops::{Index, IndexMut};

/// One value for each [`ResourceType`].
#[derive(Clone, Debug, Default)]
pub(crate) struct PerType<T>([T; ResourceType::ALL.len()]);

impl<T> PerType<T> {
    /// The values with their types, in the order in which types are sent.
    pub fn iter(&self) -> impl Iterator<Item = (ResourceType, &T)> {
        ResourceType::ALL.into_iter().zip(&self.0)
    }
}

impl<T> Index<ResourceType> for PerType<T> {
    type Output = T;
    fn index(&self, kind: ResourceType) -> &T {
        &self.0[kind.index()]
    }
}

impl<T> IndexMut<ResourceType> for PerType<T> {
    fn index_mut(&mut self, kind: ResourceType) -> &mut T {
        &mut self.0[kind.index()]
    }
}
