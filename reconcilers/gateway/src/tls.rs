//! TLS of a listener: which certificates it names.

use crate::listener::Problem;
use chiton_guest::ObjectRef;
use gateway_api::apis::standard::gateways::{
    GatewayListenersTls as SpecTls, GatewayListenersTlsCertificateRefs as SpecCertificate,
    GatewayListenersTlsMode as Mode,
};

/// Most certificates, as in the CRD of the Gateway API.
const MAX_CERTIFICATES: usize = 64;
const INVALID_CERTIFICATE_REF: &str = "InvalidCertificateRef";

/// What an HTTPS listener says of TLS.
#[derive(Debug, Default)]
pub struct Tls {
    /// Secrets that may hold its certificates, each once.
    pub certificates: Vec<ObjectRef>,
    /// Why the listener cannot be accepted.
    pub not_accepted: Option<Problem>,
    /// Which reference can never be followed.
    pub unresolved: Option<Problem>,
}

/// Reads the TLS part of an HTTPS listener.
pub fn read(spec: Option<&SpecTls>, namespace: &str) -> Tls {
    let mut tls = Tls::default();
    let references = spec
        .and_then(|spec| spec.certificate_refs.as_deref())
        .unwrap_or_default();
    if spec.is_some_and(|spec| spec.mode == Some(Mode::Passthrough)) {
        tls.not_accepted = Some(Problem::value(
            "tls.mode: Passthrough is not supported: use Terminate",
        ));
        return tls;
    }
    if let Some(option) = spec
        .and_then(|spec| spec.options.as_ref())
        .and_then(|options| options.keys().next())
    {
        tls.not_accepted = Some(Problem::value(format!(
            "tls.options: {option:?} is not known: remove it"
        )));
    }
    if references.len() > MAX_CERTIFICATES {
        tls.not_accepted = Some(Problem::value(format!(
            "tls.certificateRefs: has {} entries, at most {MAX_CERTIFICATES} are allowed",
            references.len()
        )));
        return tls;
    }
    if references.is_empty() {
        tls.unresolved = Some(invalid(
            "tls.certificateRefs: HTTPS needs at least one".into(),
        ));
    }
    for (index, reference) in references.iter().enumerate() {
        match certificate(reference, namespace) {
            Ok(secret) if tls.certificates.contains(&secret) => {}
            Ok(secret) => tls.certificates.push(secret),
            Err(message) => {
                let message = format!("tls.certificateRefs[{index}]: {message}");
                tls.unresolved.get_or_insert(invalid(message));
            }
        }
    }
    tls
}

fn invalid(message: String) -> Problem {
    Problem {
        reason: INVALID_CERTIFICATE_REF,
        message,
    }
}

fn certificate(reference: &SpecCertificate, namespace: &str) -> Result<ObjectRef, String> {
    let group = reference.group.as_deref().unwrap_or_default();
    let kind = reference.kind.as_deref().unwrap_or("Secret");
    if !group.is_empty() || kind != "Secret" {
        return Err(format!(
            "a certificate cannot be a {kind} of the group {group:?}: name a Secret of the core group"
        ));
    }
    if reference.name.is_empty() {
        return Err("the name must not be empty".into());
    }
    let namespace = reference.namespace.as_deref().unwrap_or(namespace);
    Ok(ObjectRef::new("", "Secret", namespace, &reference.name))
}
