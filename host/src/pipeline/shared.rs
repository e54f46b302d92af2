//! Conditions that many objects have.
//!
//! Nearly all routes of a Gateway say the same of themselves, so there is one copy of what they say.

use chiton_ir::Condition;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Lists below which it is not worth looking for unused ones.
const SMALL: usize = 1024;

/// Lists of conditions, each once.
#[derive(Debug, Default)]
pub(super) struct Shared {
    lists: BTreeSet<Arc<[Condition]>>,
    /// Number of lists at which unused ones are dropped.
    full: usize,
}

impl Shared {
    /// The one copy of a list.
    pub fn one(&mut self, list: Vec<Condition>) -> Arc<[Condition]> {
        if let Some(known) = self.lists.get(list.as_slice()) {
            return known.clone();
        }
        if self.lists.len() >= self.full {
            self.lists.retain(|list| Arc::strong_count(list) > 1);
            self.full = SMALL.max(2 * self.lists.len());
        }
        let new: Arc<[Condition]> = list.into();
        self.lists.insert(new.clone());
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_lists_are_one_copy_and_unused_ones_go() {
        let list = |message: &str| vec![Condition::fails("Accepted", "Invalid", message)];
        let mut shared = Shared::default();
        let first = shared.one(list("first"));
        assert!(Arc::ptr_eq(&first, &shared.one(list("first"))));
        for number in 0..3 * SMALL {
            drop(shared.one(list(&number.to_string())));
        }
        assert!(shared.lists.len() <= SMALL);
        assert!(Arc::ptr_eq(&first, &shared.one(list("first"))));
    }
}
