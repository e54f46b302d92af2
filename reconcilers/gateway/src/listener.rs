//! One listener: what it asks for, and what is wrong with it.

use crate::{routes, tls};
use chiton_guest::ir::check::hostname;
use chiton_guest::ir::condition::words;
use chiton_guest::ir::gateway::{Listener, ListenerTls, Protocol};
use chiton_guest::{Condition, ConditionStatus, Scope};
use gateway_api::apis::standard::gateways::GatewayListeners;

/// A problem: the reason of a condition, and the sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Reason.
    pub reason: &'static str,
    /// What is wrong and what to do.
    pub message: String,
}

impl Problem {
    /// A value that is not supported.
    pub fn value(message: impl Into<String>) -> Self {
        Self {
            reason: words::UNSUPPORTED_VALUE,
            message: message.into(),
        }
    }
}

/// A listener while it is looked at. The first problem of each kind is the one that is said.
#[derive(Debug)]
pub struct Draft {
    listener: Listener,
    /// Whether the protocol is one that is spoken here.
    pub known_protocol: bool,
    /// Why it is not accepted.
    not_accepted: Option<Problem>,
    /// Which reference cannot be followed.
    unresolved: Option<Problem>,
    /// What it is in conflict with.
    conflict: Option<Problem>,
    /// Which listeners' hostnames overlap with its own, for TLS.
    pub overlaps: Vec<String>,
}

/// Looks at a listener by itself. An error is about the Gateway as a whole: the path below the
/// listener, and what is wrong.
pub fn draft(spec: &GatewayListeners, namespace: &str) -> Result<Draft, String> {
    let port = match u16::try_from(spec.port) {
        Ok(port) if port > 0 => port,
        _ => return Err(format!("port: {} is not a port: 1 to 65535", spec.port)),
    };
    let protocol = match spec.protocol.as_str() {
        "HTTP" => Some(Protocol::Http),
        "HTTPS" => Some(Protocol::Https),
        _ => None,
    };
    let mut draft = Draft {
        listener: Listener {
            name: spec.name.clone(),
            hostname: spec.hostname.clone().filter(|name| !name.is_empty()),
            port,
            // Of a listener that is not accepted the protocol says nothing.
            protocol: protocol.unwrap_or(Protocol::Http),
            tls: None,
            namespaces: chiton_guest::ir::gateway::NamespaceScope::Same,
            kinds: Vec::new(),
            accepted: true,
        },
        known_protocol: protocol.is_some(),
        not_accepted: None,
        unresolved: None,
        conflict: None,
        overlaps: Vec::new(),
    };
    if !draft.known_protocol {
        draft.refuse(Problem {
            reason: "UnsupportedProtocol",
            message: format!(
                "protocol {:?} is not supported: use HTTP or HTTPS",
                spec.protocol
            ),
        });
        return Ok(draft);
    }
    draft.read_hostname();
    draft.read_tls(spec, namespace);
    draft.read_routes(spec);
    Ok(draft)
}

impl Draft {
    fn read_hostname(&mut self) {
        if let Some(name) = &self.listener.hostname
            && let Err(message) = hostname::check(name)
        {
            self.refuse(Problem::value(format!("hostname: {message}")));
        }
    }

    fn read_tls(&mut self, spec: &GatewayListeners, namespace: &str) {
        if self.listener.protocol == Protocol::Http {
            if spec.tls.is_some() {
                self.refuse(Problem::value(
                    "tls: must not be given with protocol HTTP: use HTTPS, or remove it",
                ));
            }
            return;
        }
        let tls = tls::read(spec.tls.as_ref(), namespace);
        let usable = !tls.certificates.is_empty();
        self.listener.tls = Some(ListenerTls {
            certificates: tls.certificates,
        });
        if let Some(problem) = tls.not_accepted {
            self.refuse(problem);
        } else if !usable {
            self.refuse(Problem::value(
                "tls.certificateRefs: names no certificate that can be used",
            ));
        }
        if let Some(problem) = tls.unresolved {
            self.unresolved.get_or_insert(problem);
        }
    }

    fn read_routes(&mut self, spec: &GatewayListeners) {
        let allowed = spec.allowed_routes.as_ref();
        match routes::namespaces(allowed.and_then(|allowed| allowed.namespaces.as_ref())) {
            Ok(scope) => self.listener.namespaces = scope,
            Err(message) => self.refuse(Problem::value(message)),
        }
        let kinds = allowed.and_then(|allowed| allowed.kinds.as_deref());
        let (kinds, problem) = routes::kinds(kinds.unwrap_or_default());
        self.listener.kinds = kinds;
        if let Some(problem) = problem {
            self.unresolved.get_or_insert(problem);
        }
    }

    fn refuse(&mut self, problem: Problem) {
        self.not_accepted.get_or_insert(problem);
    }

    /// Notes that the listener is in conflict with others of its Gateway.
    pub fn conflicts(&mut self, problem: Problem) {
        self.refuse(problem.clone());
        self.conflict.get_or_insert(problem);
    }

    /// What was found.
    pub fn listener(&self) -> &Listener {
        &self.listener
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.listener.name
    }

    /// Whether it can be served.
    pub fn is_accepted(&self) -> bool {
        self.not_accepted.is_none()
    }

    /// The listener for the document.
    pub fn into_listener(self) -> Listener {
        Listener {
            accepted: self.not_accepted.is_none(),
            ..self.listener
        }
    }

    /// Its conditions.
    pub fn conditions(&self) -> Vec<Condition> {
        let mut conditions = vec![
            positive(words::ACCEPTED, self.not_accepted.as_ref()),
            positive(words::RESOLVED_REFS, self.unresolved.as_ref()),
            negative(words::CONFLICTED, "NoConflicts", self.conflict.as_ref()),
        ];
        if !self.overlaps.is_empty() {
            let problem = Problem {
                reason: "OverlappingHostnames",
                message: format!(
                    "hostnames overlap with those of {}: a client may reuse a connection of one for \
                     a request to the other",
                    self.overlaps.join(", ")
                ),
            };
            conditions.push(negative("OverlappingTLSConfig", "", Some(&problem)));
        }
        let scope = Scope::Section(self.listener.name.clone());
        conditions
            .into_iter()
            .map(|condition| condition.at(scope.clone()))
            .collect()
    }
}

/// A condition that is true if all is well.
fn positive(r#type: &str, problem: Option<&Problem>) -> Condition {
    match problem {
        None => Condition::holds(r#type, r#type),
        Some(problem) => Condition::fails(r#type, problem.reason, problem.message.clone()),
    }
}

/// A condition that is false if all is well.
fn negative(r#type: &str, well: &str, problem: Option<&Problem>) -> Condition {
    match problem {
        None => Condition::fails(r#type, well, ""),
        Some(problem) => Condition {
            status: ConditionStatus::True,
            ..Condition::fails(r#type, problem.reason, problem.message.clone())
        },
    }
}
