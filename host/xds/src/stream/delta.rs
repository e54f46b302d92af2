//! Messages of delta xDS.

use super::{Protocol, any};
use crate::ResourceType;
use crate::session::{Dialect, Feedback, Request, Response, Session};
use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, Resource,
};

/// The `node.user_agent_name` of clients that know VHDS.
const KNOWS_VHDS: &str = "envoy";

/// Delta xDS.
pub(crate) struct Delta;

impl Protocol for Delta {
    type Request = DeltaDiscoveryRequest;
    type Response = DeltaDiscoveryResponse;

    fn dialect(node: &Node) -> Dialect {
        Dialect {
            sotw: false,
            inline: node.user_agent_name != KNOWS_VHDS,
        }
    }

    fn take_node(request: &mut Self::Request) -> Option<Node> {
        request.node.take()
    }

    fn type_url(request: &Self::Request) -> &str {
        &request.type_url
    }

    fn tell(session: &mut Session, kind: ResourceType, request: Self::Request) -> Feedback {
        let request = Request {
            subscribe: request.resource_names_subscribe,
            unsubscribe: request.resource_names_unsubscribe,
            initial_versions: request.initial_resource_versions,
            returned: false,
            nonce: request.response_nonce,
            error: request.error_detail.map(|status| status.message),
        };
        session.on_request(kind, request)
    }

    /// There is nothing of it, and a client should not wait for it.
    fn refuse(request: Self::Request) -> Option<Self::Response> {
        request
            .response_nonce
            .is_empty()
            .then(|| DeltaDiscoveryResponse {
                type_url: request.type_url,
                removed_resources: request.resource_names_subscribe,
                nonce: "none".to_owned(),
                ..DeltaDiscoveryResponse::default()
            })
    }

    fn encode(response: &Response) -> Self::Response {
        let resources = response.resources.iter().map(|entry| Resource {
            name: entry.name.to_string(),
            version: entry.version.to_string(),
            resource: Some(any(response.kind, &entry.body)),
            ..Resource::default()
        });
        DeltaDiscoveryResponse {
            system_version_info: response.generation.to_string(),
            resources: resources.collect(),
            type_url: response.kind.type_url().to_owned(),
            removed_resources: response.removed.iter().map(ToString::to_string).collect(),
            nonce: response.nonce.clone(),
            ..DeltaDiscoveryResponse::default()
        }
    }
}
