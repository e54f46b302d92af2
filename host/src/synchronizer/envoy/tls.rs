//! TLS on the client side.

use super::pb::envoy::config::core::v3 as core;
use super::pb::envoy::extensions::transport_sockets::tls::v3 as tls;
use super::wire::{ads, any, resource};
use crate::synchronizer::model::{TlsChain, TlsSecret};
use chiton_xds::{Resource, ResourceType};
use core::data_source::Specifier;
use prost::Message;

/// A certificate with its key, for SDS.
#[must_use]
pub fn tls_secret(secret: &TlsSecret) -> Resource {
    let message = tls::Secret {
        name: secret.name.clone(),
        r#type: Some(tls::secret::Type::TlsCertificate(tls::TlsCertificate {
            certificate_chain: Some(pem(&secret.certificate)),
            private_key: Some(pem(&secret.private_key)),
            ..Default::default()
        })),
    };
    resource(ResourceType::Secret, &secret.name, message.encode_to_vec())
}

/// PEM is text; a file that is none goes as it is, and Envoy says what it thinks of it.
fn pem(bytes: &[u8]) -> core::DataSource {
    let specifier = match std::str::from_utf8(bytes) {
        Ok(text) => Specifier::InlineString(text.to_owned()),
        Err(_) => Specifier::InlineBytes(bytes.to_vec()),
    };
    core::DataSource {
        specifier: Some(specifier),
        ..Default::default()
    }
}

/// The transport socket of a chain: TLS 1.2 and up, HTTP/2 and HTTP/1.1 by ALPN, certificates by
/// SDS. With more than one certificate Envoy chooses by name and key type.
pub fn transport_socket(chain: &TlsChain) -> core::TransportSocket {
    let context = tls::DownstreamTlsContext {
        common_tls_context: Some(tls::CommonTlsContext {
            tls_params: Some(tls::TlsParameters {
                tls_minimum_protocol_version: tls::tls_parameters::TlsProtocol::TlSv12.into(),
                tls_maximum_protocol_version: tls::tls_parameters::TlsProtocol::TlSv13.into(),
                ..Default::default()
            }),
            alpn_protocols: vec!["h2".into(), "http/1.1".into()],
            tls_certificate_sds_secret_configs: chain
                .secrets
                .iter()
                .map(|name| tls::SdsSecretConfig {
                    name: name.clone(),
                    sds_config: Some(ads()),
                })
                .collect(),
            ..Default::default()
        }),
        ..Default::default()
    };
    core::TransportSocket {
        name: "envoy.transport_sockets.tls".into(),
        config_type: Some(core::transport_socket::ConfigType::TypedConfig(any(
            &context,
        ))),
    }
}
