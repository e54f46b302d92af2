//! What a reconciler author imports.
//!
//! A reconciler is a pure function from one object, and what it reads through [`Context`], to an
//! [`Output`]. Most authors write a [`Policy`]: settings in, effects out; the SDK reads the object,
//! its targets and its mistakes. [`Reconciler`] is the whole contract, for gateways, routes and
//! APIs. [`export!`] makes a component of either; natively it makes nothing, and the same function
//! runs in a unit test against [`testing::World`].
//!
//! ```
//! use chiton_guest::ir::policy::{Effect, Respond};
//! use chiton_guest::{Context, Error, Policy, schemars};
//!
//! /// Answers everything with one status.
//! struct Closed;
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Settings {
//!     status: u16,
//! }
//!
//! impl Policy for Closed {
//!     type Settings = Settings;
//!     const NAME: &'static str = "closed";
//!     const VERSION: &'static str = env!("CARGO_PKG_VERSION");
//!
//!     fn effects(settings: Settings, _: &mut Context) -> Result<Vec<Effect>, Error> {
//!         if !(400..=599).contains(&settings.status) {
//!             return Err(Error::invalid("status must be 400 to 599"));
//!         }
//!         Ok(vec![Effect::Respond(Respond { status: settings.status, body: String::new() })])
//!     }
//! }
//!
//! chiton_guest::export!(Closed);
//! ```

#[cfg(target_family = "wasm")]
#[doc(hidden)]
pub mod component;
mod context;
mod decode;
pub mod headers;
mod policy;
mod reconciler;
#[cfg(not(target_family = "wasm"))]
pub mod testing;

pub use chiton_ir as ir;
pub use chiton_ir::{Condition, ConditionStatus, GroupKind, ObjectRef, ParentRef, Scope};
pub use context::{Context, Level, Unreadable};
pub use decode::{Metadata, Object, decode};
pub use policy::Policy;
pub use reconciler::{Document, Error, Output, Raw, Reconciler, Role};
pub use schemars;

/// Makes a component of a [`Reconciler`] or a [`Policy`]. Once a crate, whose `crate-type` has
/// `cdylib`. Where the target is not WebAssembly it only checks the type.
#[macro_export]
macro_rules! export {
    ($reconciler:ty) => {
        #[cfg(target_family = "wasm")]
        const _: () = {
            type Exported = $crate::component::Exported<$reconciler>;
            $crate::component::bindings::export_component!(
                Exported with_types_in $crate::component::bindings
            );
        };
        #[cfg(not(target_family = "wasm"))]
        const _: &str = <$reconciler as $crate::Reconciler>::NAME;
    };
}
