//! What a reconciler author imports.
//!
//! A reconciler is a pure function from one object, and what it reads through [`Context`], to an
//! [`Output`]. Most authors write a [`Policy`]: settings in, effects out; the SDK reads the object,
//! its targets and its mistakes. [`Reconciler`] is the whole contract, for gateways, routes and
//! APIs. [`export!`] makes a component of either; natively it makes nothing, and the same function
//! runs in a unit test against [`testing::World`].
//!
//! ```
//! use chiton_guest::prelude::*;
//!
//! /// Settings, as they stand under `default` or `override` of a `Policy`.
//! #[derive(Deserialize, JsonSchema)]
//! struct Settings {
//!     text: String,
//! }
//!
//! struct Hello;
//!
//! impl Policy for Hello {
//!     type Settings = Settings;
//!     const NAME: &'static str = "hello";
//!     const VERSION: &'static str = "1.0.0";
//!
//!     fn effects(settings: Settings, _: &mut Context) -> Result<Vec<Effect>, Error> {
//!         Ok(vec![set_response_header("x-hello", &settings.text)?])
//!     }
//! }
//!
//! chiton_guest::export!(Hello);
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

/// What a policy needs. Its crate depends on `serde` (with `derive`) and `schemars` as well.
pub mod prelude {
    pub use crate::headers::{set_request_header, set_response_header};
    pub use crate::ir::policy::Effect;
    pub use crate::{Context, Error, Policy};
    pub use schemars::JsonSchema;
    pub use serde::Deserialize;
}

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
