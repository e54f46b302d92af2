//! The built-in gateway reconciler: what a `GatewayClass` and a `Gateway` mean.
//!
//! A class of another controller, and a Gateway of such a class or of one that does not exist, get
//! nothing: no document and no condition. A Gateway of ours always gets a `gateway` document, an
//! empty one if it is refused as a whole, so that its routes can be told.
//!
//! It follows no reference to a certificate: it returns them, and the host does.

mod class;
mod conflicts;
mod gateway;
mod listener;
mod routes;
mod tls;

use chiton_guest::ir::identity::names;
use chiton_guest::{Context, Error, Output, Raw, Reconciler, Role};

/// The reconciler.
pub struct Gateways;

impl Reconciler for Gateways {
    const NAME: &'static str = "gateway";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const ROLE: Role = Role::Gateway;
    const HANDLES: &'static [(&'static str, &'static str)] = &[
        (names::GATEWAY_GROUP, "GatewayClass"),
        (names::GATEWAY_GROUP, "Gateway"),
    ];
    const READS: &'static [(&'static str, &'static str)] =
        &[(names::GATEWAY_GROUP, "GatewayClass")];

    fn reconcile(object: &Raw, cx: &mut Context) -> Result<Output, Error> {
        if object.reference.is(names::GATEWAY_GROUP, "GatewayClass") {
            Ok(class::reconcile(object))
        } else {
            gateway::reconcile(object, cx)
        }
    }
}

chiton_guest::export!(Gateways);

#[cfg(test)]
mod tests;
