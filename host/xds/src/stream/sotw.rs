//! Messages of state-of-the-world xDS.

use super::{Protocol, any};
use crate::ResourceType;
use crate::resource::version_of;
use crate::session::{Dialect, Feedback, Response, Session, StateRequest};
use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::{DiscoveryRequest, DiscoveryResponse};

/// State-of-the-world xDS.
pub(crate) struct StateOfTheWorld;

impl Protocol for StateOfTheWorld {
    type Request = DiscoveryRequest;
    type Response = DiscoveryResponse;

    /// VHDS exists in delta only.
    fn dialect(_node: &Node) -> Dialect {
        Dialect {
            sotw: true,
            inline: true,
        }
    }

    fn take_node(request: &mut Self::Request) -> Option<Node> {
        request.node.take()
    }

    fn type_url(request: &Self::Request) -> &str {
        &request.type_url
    }

    fn tell(session: &mut Session, kind: ResourceType, request: Self::Request) -> Feedback {
        let request = StateRequest {
            names: request.resource_names,
            version: request.version_info,
            nonce: request.response_nonce,
            error: request.error_detail.map(|status| status.message),
        };
        session.on_state_request(kind, request)
    }

    /// There is no way to say that there is nothing.
    fn refuse(_request: Self::Request) -> Option<Self::Response> {
        None
    }

    fn encode(response: &Response) -> Self::Response {
        let body = |entry| any(response.kind, entry);
        DiscoveryResponse {
            version_info: version(response),
            resources: response.resources.iter().map(|e| body(&e.body)).collect(),
            type_url: response.kind.type_url().to_owned(),
            nonce: response.nonce.clone(),
            ..DiscoveryResponse::default()
        }
    }
}

/// The version of what a response holds: the same on every server and every stream.
fn version(response: &Response) -> String {
    let mut versions = String::new();
    for entry in &response.resources {
        versions.extend([&*entry.name, "\n", &*entry.version, "\n"]);
    }
    version_of(versions.as_bytes())
}
