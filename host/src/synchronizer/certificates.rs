//! Certificates of listeners: Secrets with a certificate and the key that belongs to it.
//!
//! Everything that Envoy would refuse is refused here, because Envoy refuses a Secret only after
//! the listener that waits for it is there.

use super::decode;
use super::followed::Followed;
use super::grants::Grants;
use super::ids::secret_name;
use super::model::TlsSecret;
use super::references::Refusal;
use super::secrets;
use crate::store::{Key, Object, Snapshot};
use chiton_ir::ObjectRef;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, EcdsaKeyPair, KeyPair,
    RsaKeyPair,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Reason of the Gateway API for a certificate that does not exist or is none.
pub const INVALID_CERTIFICATE: &str = "InvalidCertificateRef";

const ENTRY_CERTIFICATE: &str = "tls.crt";
const ENTRY_KEY: &str = "tls.key";
/// Type of Secrets that hold a certificate and its key.
const TLS_TYPE: &str = "kubernetes.io/tls";

/// A certificate with its key, or why the Secret holds none.
type Verdict = Result<Arc<TlsSecret>, String>;

/// Verdicts by Secret, so that a change of a Gateway does not check every key pair again.
#[derive(Debug, Default)]
pub struct Certificates {
    checked: BTreeMap<Key, (Arc<Object>, Verdict)>,
}

impl Certificates {
    /// Follows a reference of a Gateway to a certificate.
    ///
    /// # Errors
    /// Why it cannot be used, with the reason of the Gateway API.
    pub fn follow(
        &mut self,
        gateway: &Key,
        to: &ObjectRef,
        inputs: &Snapshot,
        grants: &Grants,
        followed: &mut BTreeSet<Followed>,
    ) -> Result<Arc<TlsSecret>, Refusal> {
        if !to.is("", "Secret") {
            let message = format!("{to} is not a Secret: only Secrets can hold certificates");
            return Err(Refusal::new(INVALID_CERTIFICATE, message));
        }
        if !grants.permits(gateway, to, followed) {
            return Err(Refusal::not_permitted(gateway, to));
        }
        let key = Key::from(to);
        followed.insert(Followed::Object(key.clone()));
        let Some(object) = inputs.get(to) else {
            self.checked.remove(&key);
            let message = format!("{to} does not exist");
            return Err(Refusal::new(INVALID_CERTIFICATE, message));
        };
        self.check(&key, object)
            .map_err(|why| Refusal::new(INVALID_CERTIFICATE, format!("{to}: {why}")))
    }

    fn check(&mut self, key: &Key, object: &Arc<Object>) -> Verdict {
        match self.checked.get(key) {
            Some((before, verdict)) if Arc::ptr_eq(before, object) => verdict.clone(),
            _ => {
                let verdict = read(object).map(Arc::new);
                self.checked
                    .insert(key.clone(), (object.clone(), verdict.clone()));
                verdict
            }
        }
    }

    /// Forgets what is no longer there.
    pub fn forget(&mut self, key: &Key) {
        self.checked.remove(key);
    }
}

#[derive(Deserialize)]
struct Typed {
    #[serde(default)]
    r#type: Option<String>,
}

fn read(object: &Object) -> Result<TlsSecret, String> {
    let typed: Typed = decode::lenient(object).map_err(|_| "it cannot be read".to_owned())?;
    let mut entries = secrets::entries(object)?;
    let mut take = |name: &str| {
        entries
            .remove(name)
            .filter(|bytes| !bytes.is_empty())
            .ok_or_else(|| {
                let kind = typed.r#type.as_deref().unwrap_or("Opaque");
                let hint = if kind == TLS_TYPE {
                    String::new()
                } else {
                    format!(" (its type is {kind}; {TLS_TYPE} is meant)")
                };
                format!("it has no entry {name}{hint}")
            })
    };
    let certificate = take(ENTRY_CERTIFICATE)?;
    let private_key = take(ENTRY_KEY)?;
    let expected = public_key_of_certificate(&certificate)?;
    let actual = public_key_of_key(&private_key)?;
    if expected != actual {
        return Err(format!(
            "the key in {ENTRY_KEY} does not belong to the certificate in {ENTRY_CERTIFICATE}"
        ));
    }
    Ok(TlsSecret {
        name: secret_name(&object.key),
        certificate,
        private_key,
    })
}

/// The public key in the first certificate; the rest of the chain must be certificates too.
fn public_key_of_certificate(pem: &[u8]) -> Result<Vec<u8>, String> {
    let mut first = None;
    for der in CertificateDer::pem_slice_iter(pem) {
        let der = der.map_err(|error| format!("{ENTRY_CERTIFICATE} is not PEM: {error}"))?;
        let (_, certificate) = X509Certificate::from_der(&der)
            .map_err(|_| format!("{ENTRY_CERTIFICATE} holds something that is no certificate"))?;
        if first.is_none() {
            first = Some(certificate.public_key().subject_public_key.data.to_vec());
        }
    }
    first.ok_or_else(|| format!("{ENTRY_CERTIFICATE} holds no certificate in PEM"))
}

/// The public key that belongs to a private one, in the encoding of a certificate.
fn public_key_of_key(pem: &[u8]) -> Result<Vec<u8>, String> {
    let key = PrivateKeyDer::from_pem_slice(pem)
        .map_err(|_| format!("{ENTRY_KEY} holds no private key in PEM"))?;
    let public = match &key {
        PrivateKeyDer::Pkcs1(der) => rsa(RsaKeyPair::from_der(der.secret_pkcs1_der())),
        PrivateKeyDer::Sec1(der) => ecdsa(|curve| wrap_sec1(der.secret_sec1_der(), curve)),
        PrivateKeyDer::Pkcs8(der) => {
            let der = der.secret_pkcs8_der();
            rsa(RsaKeyPair::from_pkcs8(der)).or_else(|| ecdsa(|_| der.to_vec()))
        }
        _ => None,
    };
    public.ok_or_else(|| {
        format!(
            "the key in {ENTRY_KEY} is damaged or of a kind that proxies cannot use; RSA of 2048 to \
             4096 bits and ECDSA on P-256 or P-384 can be used"
        )
    })
}

fn rsa(pair: Result<RsaKeyPair, ring::error::KeyRejected>) -> Option<Vec<u8>> {
    pair.ok().map(|pair| pair.public_key().as_ref().to_vec())
}

/// A curve by its number of bytes and its object identifier (RFC 5480) in DER.
#[derive(Clone, Copy)]
struct Curve(&'static [u8]);

const P256: Curve = Curve(&[0x06, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07]);
const P384: Curve = Curve(&[0x06, 5, 0x2b, 0x81, 0x04, 0x00, 0x22]);

fn ecdsa(pkcs8: impl Fn(Curve) -> Vec<u8>) -> Option<Vec<u8>> {
    let random = ring::rand::SystemRandom::new();
    [
        (&ECDSA_P256_SHA256_ASN1_SIGNING, P256),
        (&ECDSA_P384_SHA384_ASN1_SIGNING, P384),
    ]
    .into_iter()
    .find_map(|(algorithm, curve)| {
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, &pkcs8(curve), &random).ok()?;
        Some(pair.public_key().as_ref().to_vec())
    })
}

/// Puts an `ECPrivateKey` (RFC 5915, `BEGIN EC PRIVATE KEY`) into PKCS #8, which is what `ring`
/// reads.
fn wrap_sec1(sec1: &[u8], curve: Curve) -> Vec<u8> {
    const EC_PUBLIC_KEY: &[u8] = &[0x06, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
    let algorithm = der(0x30, &[EC_PUBLIC_KEY, curve.0].concat());
    let version = [0x02, 1, 0];
    let key = der(0x04, sec1);
    der(0x30, &[&version[..], &algorithm, &key].concat())
}

fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let significant = length
        .iter()
        .position(|byte| *byte != 0)
        .unwrap_or(length.len() - 1);
    let digits = length.get(significant..).unwrap_or_default();
    let mut bytes = vec![tag];
    if content.len() >= 0x80 {
        bytes.push(0x80 | u8::try_from(digits.len()).unwrap_or_default());
    }
    bytes.extend_from_slice(digits);
    bytes.extend_from_slice(content);
    bytes
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    /// Pairs made for this test: RSA in PKCS #1, and P-384 in SEC 1 behind its parameters.
    const PAIRS: [(&str, &str); 2] = [
        (
            include_str!("tests/keys/rsa.crt"),
            include_str!("tests/keys/rsa.key"),
        ),
        (
            include_str!("tests/keys/ec.crt"),
            include_str!("tests/keys/ec.key"),
        ),
    ];

    #[test]
    fn keys_are_read_in_the_encodings_of_openssl() {
        for (certificate, key) in PAIRS {
            assert_eq!(
                public_key_of_certificate(certificate.as_bytes()).expect("a certificate"),
                public_key_of_key(key.as_bytes()).expect("a key"),
            );
        }
    }

    #[test]
    fn keys_that_proxies_cannot_use_are_refused() {
        let ed25519 = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).expect("a key");
        let verdict = public_key_of_key(ed25519.serialize_pem().as_bytes());
        assert!(verdict.is_err_and(|why| why.contains("cannot use")));
    }

    #[test]
    fn every_certificate_of_a_chain_is_read() {
        let chain = format!("{}{}", PAIRS[0].0, PAIRS[1].0);
        assert!(public_key_of_certificate(chain.as_bytes()).is_ok());
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let chain = format!("{}{broken}", PAIRS[0].0);
        assert!(public_key_of_certificate(chain.as_bytes()).is_err());
    }
}
