//! Lists by labels without a scan.
//!
//! A selector is looked up by one of its requirements: a label with a value (`=`, `In`), else a
//! label that must be there (`Exists`). What it says besides is checked on what was found. A
//! selector with none of these (`NotIn`, `DoesNotExist`, the empty one) can only be checked on
//! everything.

use super::identity::Key;
use super::text::Text;
use chiton_ir::GroupKind;
use chiton_ir::gateway::{LabelOperator, LabelRequirement, LabelSelector};
use equivalent::{Comparable, Equivalent};
use std::cmp::Ordering;

/// The requirement of a selector by which it is looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handle<'a> {
    /// The label has one of these values.
    Pairs(&'a str, Vec<&'a str>),
    /// The label is there.
    Label(&'a str),
}

impl<'a> Handle<'a> {
    /// The narrowest one of a selector; none if it has no requirement that can be looked up.
    #[must_use]
    pub fn of(selector: &'a LabelSelector) -> Option<Self> {
        if let Some((label, value)) = selector.match_labels.first_key_value() {
            return Some(Self::Pairs(label, vec![value]));
        }
        let with = |operator: LabelOperator| {
            let all = selector.match_expressions.iter();
            all.filter(move |requirement| requirement.operator == operator)
        };
        let values = |it: &'a LabelRequirement| it.values.iter().map(String::as_str).collect();
        with(LabelOperator::In)
            .min_by_key(|requirement| requirement.values.len())
            .map(|requirement| Self::Pairs(&requirement.key, values(requirement)))
            .or_else(|| {
                with(LabelOperator::Exists)
                    .next()
                    .map(|requirement| Self::Label(&requirement.key))
            })
    }
}

/// A label of an object, in order of kind, label, value, namespace and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Posting {
    pub label: Text,
    pub value: Text,
    pub key: Key,
}

/// A place in that order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place<'a> {
    group: &'a str,
    kind: &'a str,
    label: &'a str,
    value: &'a str,
    namespace: &'a str,
    name: &'a str,
}

impl<'a> Place<'a> {
    /// Before all objects of a kind and namespace (empty: any) with this label and value.
    pub fn first(kind: &'a GroupKind, label: &'a str, value: &'a str, namespace: &'a str) -> Self {
        Self {
            group: &kind.group,
            kind: &kind.kind,
            label,
            value,
            namespace,
            name: "",
        }
    }
}

impl Posting {
    fn place(&self) -> Place<'_> {
        Place {
            group: &self.key.group,
            kind: &self.key.kind,
            label: &self.label,
            value: &self.value,
            namespace: &self.key.namespace,
            name: &self.key.name,
        }
    }

    /// Whether it is of the kind and label.
    pub fn is_of(&self, kind: &GroupKind, label: &str) -> bool {
        self.key.is(&kind.group, &kind.kind) && self.label == label
    }
}

impl PartialOrd for Posting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Posting {
    fn cmp(&self, other: &Self) -> Ordering {
        self.place().cmp(&other.place())
    }
}

impl Equivalent<Posting> for Place<'_> {
    fn equivalent(&self, posting: &Posting) -> bool {
        *self == posting.place()
    }
}

impl Comparable<Posting> for Place<'_> {
    fn compare(&self, posting: &Posting) -> Ordering {
        self.cmp(&posting.place())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requirement(key: &str, operator: LabelOperator, values: &[&str]) -> LabelRequirement {
        LabelRequirement {
            key: key.to_owned(),
            operator,
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        }
    }

    #[test]
    fn the_narrowest_requirement_is_looked_up() {
        use LabelOperator::{DoesNotExist, Exists, In, NotIn};
        let mut selector = LabelSelector {
            match_expressions: vec![
                requirement("n", NotIn, &["x"]),
                requirement("d", DoesNotExist, &[]),
            ],
            ..LabelSelector::default()
        };
        assert_eq!(Handle::of(&selector), None);
        selector
            .match_expressions
            .push(requirement("e", Exists, &[]));
        assert_eq!(Handle::of(&selector), Some(Handle::Label("e")));
        selector
            .match_expressions
            .push(requirement("i", In, &["a", "b"]));
        selector
            .match_expressions
            .push(requirement("j", In, &["c"]));
        assert_eq!(Handle::of(&selector), Some(Handle::Pairs("j", vec!["c"])));
        selector.match_labels = [("l".to_owned(), "v".to_owned())].into();
        assert_eq!(Handle::of(&selector), Some(Handle::Pairs("l", vec!["v"])));
        assert_eq!(Handle::of(&LabelSelector::default()), None);
    }
}
