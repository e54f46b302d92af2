//! What a client says to a response: acknowledgements and rejections.

use super::Session;
use super::subscription::{InFlight, Part, Sent};
use crate::ResourceType;
use crate::rows::Nack;
use crate::snapshot::Entry;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::SystemTime;

/// What a request said that others want to know.
#[derive(Debug, Default)]
pub(crate) struct Feedback {
    /// It rejected a response, with these words.
    pub rejected: Option<String>,
    /// Types, names and versions whose fault the rejection is, as far as that is known: of a response
    /// with several resources, parts are sent again until it is.
    pub culprits: Vec<(ResourceType, Arc<str>, Arc<str>)>,
    /// The client has too many subscriptions.
    pub too_many: bool,
}

impl Session {
    pub(super) fn on_answer(
        &mut self,
        kind: ResourceType,
        nonce: &str,
        error: Option<String>,
        feedback: &mut Feedback,
    ) {
        let in_flight = &mut self.subscriptions[kind].in_flight;
        let Some(position) = in_flight.iter().position(|sent| sent.nonce == nonce) else {
            return;
        };
        let Some(response) = in_flight.remove(position) else {
            return;
        };
        if let Some(text) = error {
            let culprits = self.on_rejection(kind, &response, &text);
            feedback.culprits = culprits
                .into_iter()
                .map(|(kind, entry)| (kind, entry.name.clone(), entry.version.clone()))
                .collect();
            feedback.rejected = Some(text);
        } else {
            self.subscriptions[kind].accepted = true;
            for (kind, entry) in &response.parts {
                self.on_accept(*kind, entry);
            }
        }
        self.subscriptions[kind].answered(&response);
    }

    fn on_accept(&mut self, kind: ResourceType, entry: &Arc<Entry>) {
        let name = &entry.name;
        let repeats = self.repeats(kind);
        let subscription = &mut self.subscriptions[kind];
        let row = subscription.rows.get(name);
        let was_accepted = row.is_some_and(|row| row.acked.is_some());
        subscription.rows.accept(name, &entry.version);
        let row = subscription.rows.get(name);
        let is_accepted = row.is_some_and(|row| row.acked.is_some());
        if repeats && row.is_some_and(|row| row.acked.as_ref() == Some(&entry.version)) {
            let before = subscription.forms.insert(name.clone(), entry.clone());
            self.snapshot.remember(kind, entry);
            if before.is_none() && self.holds_virtual_hosts(kind) {
                self.mark_unsent_virtual_hosts(name);
            }
        }
        let is_parent = kind == ResourceType::RouteConfiguration && !self.dialect.inline;
        if is_parent && is_accepted && !was_accepted {
            // A client that never had it has none of its virtual hosts.
            self.fresh.insert(name.clone());
            self.mark_virtual_hosts(name, true);
        }
    }

    /// Marks virtual hosts that were looked at while there was no form of their route configuration
    /// to send them with. Those that are sent again anyway are not.
    fn mark_unsent_virtual_hosts(&mut self, route_config: &str) {
        let snapshot = Arc::clone(&self.snapshot);
        let (carrier, kind) = (ResourceType::RouteConfiguration, ResourceType::VirtualHost);
        let retried: BTreeSet<Part> = self.subscriptions[carrier]
            .retry
            .iter()
            .flatten()
            .cloned()
            .collect();
        for entry in snapshot.virtual_hosts(route_config) {
            if !retried.contains(&(kind, entry.name.clone())) {
                self.mark(kind, entry.name.clone(), false);
            }
        }
    }

    /// Finds whose fault a rejection is, or has the response sent again in parts.
    ///
    /// What a client keeps of a response that it rejects is its affair, so the innocent are sent
    /// again, and removals too. The text names culprits only for clusters and listeners. Else halves
    /// of what was new in the response are tried until single resources are left, so a version is
    /// sent again a few times (the logarithm of the response's size), and once it is found guilty
    /// not at all.
    fn on_rejection(
        &mut self,
        carrier: ResourceType,
        response: &InFlight,
        text: &str,
    ) -> Vec<Sent> {
        let tells = matches!(carrier, ResourceType::Cluster | ResourceType::Listener);
        let is_current = |(kind, entry): &&Sent| {
            let row = self.rows(*kind).get(&entry.name);
            row.is_some_and(|row| row.sent == entry.version && row.nack.is_none())
        };
        let current = response.parts.iter().filter(is_current).cloned();
        let (mut guilty, rest): (Vec<_>, Vec<_>) =
            current.partition(|(_, entry)| tells && mentions(text, &entry.name));
        let (mut innocent, mut suspects): (Vec<_>, Vec<_>) =
            rest.into_iter().partition(|part| self.is_proven(part));
        let proven = response.parts.iter().filter(|part| self.is_proven(part));
        let mut candidates = response.parts.len() - proven.count();
        if suspects.is_empty() && guilty.is_empty() {
            // It was accepted once, and is not now.
            std::mem::swap(&mut suspects, &mut innocent);
            candidates = response.parts.len();
        }
        // A single one that is left may be innocent: others were in the response with it.
        if guilty.is_empty() && suspects.len() == 1 && candidates == 1 {
            std::mem::swap(&mut guilty, &mut suspects);
        }
        if !response.parts.is_empty() {
            self.remove_again(&response.removed);
        }
        for part in &guilty {
            self.condemn(part, text);
        }
        let holds_everything = self.holds_everything(carrier);
        let subscription = &mut self.subscriptions[carrier];
        // What the client had before this stream may have to go.
        subscription.greet |= holds_everything && !guilty.is_empty() && !subscription.accepted;
        self.retry(carrier, suspects, innocent, !guilty.is_empty());
        guilty
    }

    /// Whether the client has accepted this form before.
    fn is_proven(&self, (kind, entry): &Sent) -> bool {
        let form = self.subscriptions[*kind].forms.get(&entry.name);
        form.is_some_and(|form| form.version == entry.version)
    }

    fn remove_again(&mut self, removed: &[Part]) {
        for (kind, name) in removed {
            if self.covers(*kind, name) {
                let carrier = self.carrier(*kind);
                self.subscriptions[carrier].mark((*kind, name.clone()), true);
            }
        }
    }

    fn condemn(&mut self, part: &Sent, text: &str) {
        let (kind, entry) = part;
        let nack = Nack {
            version: entry.version.clone(),
            text: text.to_owned(),
            at: SystemTime::now(),
        };
        let is_proven = self.is_proven(part);
        let subscription = &mut self.subscriptions[*kind];
        subscription.rows.reject(&entry.name, nack);
        if is_proven {
            subscription.forms.remove(&entry.name);
        }
        self.refers_on(*kind);
    }

    /// Has parts of a rejected response sent again: all if the culprits are known, else in halves.
    fn retry(
        &mut self,
        carrier: ResourceType,
        suspects: Vec<Sent>,
        innocent: Vec<Sent>,
        are_culprits_known: bool,
    ) {
        let name = |(kind, entry): Sent| (kind, entry.name.clone());
        let suspects: Vec<Part> = suspects.into_iter().map(name).collect();
        for (kind, name) in &suspects {
            self.subscriptions[*kind].rows.doubt(name);
        }
        let [second, mut first] = if are_culprits_known {
            [Vec::new(), suspects]
        } else {
            self.halves(suspects)
        };
        first.extend(innocent.into_iter().map(name));
        for half in [second, first].into_iter().filter(|half| !half.is_empty()) {
            self.subscriptions[carrier].retry.push_front(half);
        }
    }

    /// Two halves of what was rejected, that to be tried first last. Route configurations of which
    /// there is no accepted form are tried before the virtual hosts that need one.
    fn halves(&self, parts: Vec<Part>) -> [Vec<Part>; 2] {
        let (bases, mut others): (Vec<_>, Vec<_>) = parts.into_iter().partition(|(kind, name)| {
            self.holds_virtual_hosts(*kind) && self.form(*kind, name).is_none()
        });
        if !bases.is_empty() && !others.is_empty() {
            return [others, bases];
        }
        others.extend(bases);
        let second = others.split_off(others.len() / 2);
        [second, others]
    }
}

/// Whether the text has the name as a word of its own.
fn mentions(text: &str, name: &str) -> bool {
    let part_of_name = |c: char| c.is_alphanumeric() || "-_./".contains(c);
    text.match_indices(name).any(|(start, found)| {
        let before = text[..start].chars().next_back();
        let rest = &text[start + found.len()..];
        let mut after = rest.chars();
        // A full stop that ends a sentence is not part of a name.
        let follows = match after.next() {
            Some('.') => after.next().is_some_and(part_of_name),
            Some(c) => part_of_name(c),
            None => false,
        };
        !before.is_some_and(part_of_name) && !follows && !name.is_empty()
    })
}

#[cfg(test)]
mod tests {
    use super::mentions;

    #[test]
    fn a_name_is_mentioned_only_as_a_word() {
        let text = "Error adding/updating listener(s) http-8080: bad filter. See also: a_b.";
        assert!(mentions(text, "http-8080"));
        assert!(mentions(text, "a_b"));
        assert!(!mentions(text, "http-80"));
        assert!(!mentions(text, "8080"));
        assert!(!mentions(text, "a_"));
        assert!(!mentions(text, ""));
    }
}
