//! Which listeners of its parents a route attaches to, and for which hostnames.

use crate::parents::{Parent, Parents};
use chiton_guest::ir::check::hostname;
use chiton_guest::ir::condition::words;
use chiton_guest::ir::gateway::{Gateway, Listener, NamespaceScope};
use chiton_guest::ir::identity::names;
use chiton_guest::ir::route::{RouteListener, RouteParent};
use chiton_guest::{Context, Error, Metadata, ObjectRef, ParentRef};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Label that Kubernetes puts on every namespace; in files it is implied.
const NAMESPACE_NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// What came of one parent.
#[derive(Debug)]
pub struct Attachment {
    /// The parent.
    pub parent: ParentRef,
    /// Whether there is such a Gateway.
    exists: bool,
    /// The listeners that took the route, or why none did.
    pub result: Result<Vec<RouteListener>, Refusal>,
}

/// Why a parent did not take the route.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Reason of `Accepted=False`.
    pub reason: &'static str,
    /// The sentence for people.
    pub message: String,
}

impl Attachment {
    /// The parent as the document has it; none if no such Gateway exists.
    pub fn into_parent(self) -> Option<RouteParent> {
        self.exists.then(|| RouteParent {
            parent: self.parent,
            listeners: self.result.unwrap_or_default(),
        })
    }

    /// Whether the parent's references may be spoken of.
    pub fn exists(&self) -> bool {
        self.exists
    }
}

/// Attaches a route to each of its parents.
pub fn attach(
    parents: &Parents,
    namespace: &str,
    hostnames: &[String],
    cx: &mut Context,
) -> Result<Vec<Attachment>, Error> {
    let mut route = Route {
        namespace,
        hostnames,
        labels: None,
    };
    let mut attachments = Vec::with_capacity(parents.ours.len());
    for parent in &parents.ours {
        let result = match (&parents.mistake, &parent.gateway) {
            (Some(mistake), _) => Err(refusal(words::INVALID, mistake.clone())),
            (None, None) => Err(refusal(
                "NoMatchingParent",
                format!("{} does not exist", parent.reference.object),
            )),
            (None, Some(gateway)) => route.listeners(parent, gateway, cx)?,
        };
        attachments.push(Attachment {
            parent: parent.reference.clone(),
            exists: parent.gateway.is_some(),
            result,
        });
    }
    Ok(attachments)
}

fn refusal(reason: &'static str, message: String) -> Refusal {
    Refusal { reason, message }
}

/// What a listener asks about a route.
struct Route<'a> {
    namespace: &'a str,
    hostnames: &'a [String],
    /// Labels of the namespace, once a listener asked for them.
    labels: Option<BTreeMap<String, String>>,
}

impl Route<'_> {
    fn listeners(
        &mut self,
        parent: &Parent,
        gateway: &Gateway,
        cx: &mut Context,
    ) -> Result<Result<Vec<RouteListener>, Refusal>, Error> {
        let reference = &parent.reference;
        let named: Vec<&Listener> = gateway
            .listeners
            .iter()
            .filter(|listener| is_named(listener, reference))
            .collect();
        if named.is_empty() {
            return Ok(Err(no_such_listener(reference, gateway)));
        }
        let mut allowed = Vec::new();
        for listener in &named {
            if takes_http_routes(listener)
                && self.namespace_allowed(&listener.namespaces, &reference.object, cx)?
            {
                allowed.push(*listener);
            }
        }
        if allowed.is_empty() {
            return Ok(Err(not_allowed(self.namespace, reference, &named)));
        }
        let attached: Vec<RouteListener> = allowed
            .iter()
            .filter_map(|listener| self.hostnames_at(listener))
            .collect();
        if attached.is_empty() {
            return Ok(Err(no_hostname(self.hostnames, reference, &allowed)));
        }
        Ok(Ok(attached))
    }

    fn namespace_allowed(
        &mut self,
        scope: &NamespaceScope,
        gateway: &ObjectRef,
        cx: &mut Context,
    ) -> Result<bool, Error> {
        match scope {
            NamespaceScope::All => Ok(true),
            NamespaceScope::Same => Ok(self.namespace == gateway.namespace),
            NamespaceScope::Selector(selector) => Ok(selector.matches(self.labels(cx)?)),
        }
    }

    fn labels(&mut self, cx: &mut Context) -> Result<&BTreeMap<String, String>, Error> {
        let labels = match self.labels.take() {
            Some(labels) => labels,
            None => namespace_labels(self.namespace, cx)?,
        };
        Ok(self.labels.insert(labels))
    }

    /// The attachment to a listener; none if no hostname is meant by both.
    fn hostnames_at(&self, listener: &Listener) -> Option<RouteListener> {
        let own = listener.hostname.as_deref().unwrap_or(hostname::ANY);
        let mut hostnames: Vec<String> = if self.hostnames.is_empty() {
            vec![own.to_owned()]
        } else {
            self.hostnames
                .iter()
                .filter_map(|name| hostname::intersection(own, name))
                .map(ToOwned::to_owned)
                .collect()
        };
        hostnames.sort_unstable();
        hostnames.dedup();
        (!hostnames.is_empty()).then(|| RouteListener {
            name: listener.name.clone(),
            hostnames,
        })
    }
}

fn namespace_labels(namespace: &str, cx: &mut Context) -> Result<BTreeMap<String, String>, Error> {
    #[derive(Deserialize)]
    struct Namespace {
        metadata: Metadata,
    }
    let object = ObjectRef::new("", "Namespace", "", namespace);
    let mut labels = cx
        .get::<Namespace>(&object)?
        .map_or_else(BTreeMap::new, |found| found.metadata.labels);
    labels.insert(NAMESPACE_NAME_LABEL.to_owned(), namespace.to_owned());
    Ok(labels)
}

fn is_named(listener: &Listener, parent: &ParentRef) -> bool {
    parent
        .section
        .as_ref()
        .is_none_or(|name| *name == listener.name)
        && parent.port.is_none_or(|port| port == listener.port)
}

fn takes_http_routes(listener: &Listener) -> bool {
    listener
        .kinds
        .iter()
        .any(|kind| kind.group == names::GATEWAY_GROUP && kind.kind == "HTTPRoute")
}

fn no_such_listener(parent: &ParentRef, gateway: &Gateway) -> Refusal {
    let message = if gateway.listeners.is_empty() {
        format!(
            "{} has no valid listener: see its conditions",
            parent.object
        )
    } else {
        format!(
            "there is no listener that {parent} names; there is {}",
            list(&gateway.listeners)
        )
    };
    refusal("NoMatchingParent", message)
}

fn not_allowed(namespace: &str, parent: &ParentRef, listeners: &[&Listener]) -> Refusal {
    refusal(
        "NotAllowedByListeners",
        format!(
            "no listener that {parent} names allows HTTPRoutes of namespace {namespace}: change \
             allowedRoutes of {}",
            list(listeners.iter().copied())
        ),
    )
}

fn no_hostname(hostnames: &[String], parent: &ParentRef, listeners: &[&Listener]) -> Refusal {
    let theirs: Vec<&str> = listeners
        .iter()
        .filter_map(|listener| listener.hostname.as_deref())
        .collect();
    refusal(
        "NoMatchingListenerHostname",
        format!(
            "none of the hostnames {} is one of {}, which listeners of {} have",
            hostnames.join(", "),
            theirs.join(", "),
            parent.object
        ),
    )
}

/// Listeners as people read them: `http (80), https (443)`.
fn list<'a>(listeners: impl IntoIterator<Item = &'a Listener>) -> String {
    let names: Vec<String> = listeners
        .into_iter()
        .map(|listener| format!("{} ({})", listener.name, listener.port))
        .collect();
    names.join(", ")
}
