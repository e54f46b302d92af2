//! An instance that is called again and again, without the host's limits.

use super::Answers;
use chiton::sandbox::Reads as _;
use chiton::store::Object;
use wasmtime::component::{Component, HasSelf, Linker};
use wasmtime::{Config, Engine, Store};

#[allow(missing_docs, clippy::pedantic)]
mod generated {
    wasmtime::component::bindgen!({ path: "../../wit", world: "host" });
}

use generated::Host_ as Guest;
use generated::chiton::reconcile::{attached, clock, logging, objects, outputs, types};

/// The instance.
pub struct Warm {
    store: Store<Imports>,
    guest: Guest,
}

impl Warm {
    /// Compiles and instantiates a component.
    pub fn load(component: &[u8], answers: Answers) -> wasmtime::Result<Self> {
        let mut config = Config::new();
        // As the host's engine, as far as it changes the code.
        config
            .concurrency_support(false)
            .cranelift_nan_canonicalization(true)
            .relaxed_simd_deterministic(true);
        let engine = Engine::new(&config)?;
        let component = Component::new(&engine, component)?;
        let mut linker = Linker::new(&engine);
        Guest::add_to_linker::<_, HasSelf<_>>(&mut linker, |imports: &mut Imports| imports)?;
        let mut store = Store::new(&engine, Imports(answers));
        let guest = Guest::instantiate(&mut store, &component, &linker)?;
        Ok(Self { store, guest })
    }

    /// Calls it.
    pub fn reconcile(&mut self, object: &Object) -> wasmtime::Result<types::Outcome> {
        let reference = types::ObjectRef {
            group: object.key.group.to_string(),
            kind: object.key.kind.to_string(),
            namespace: object.key.namespace.to_string(),
            name: object.key.name.to_string(),
        };
        let body = object.body.to_vec();
        let reconciler = self.guest.chiton_reconcile_reconciler();
        let answer =
            reconciler.call_reconcile(&mut self.store, &reference, &body, &b"{}".to_vec())?;
        answer.map_err(wasmtime::Error::msg)
    }
}

struct Imports(Answers);

impl types::Host for Imports {}

impl objects::Host for Imports {
    fn get(&mut self, _: types::ObjectRef) -> Option<Vec<u8>> {
        None
    }

    fn list(
        &mut self,
        _: types::GroupKind,
        _: Option<String>,
        _: Vec<objects::Requirement>,
    ) -> Vec<objects::Object> {
        Vec::new()
    }
}

impl outputs::Host for Imports {
    fn output(&mut self, object: types::ObjectRef, name: String) -> Option<Vec<u8>> {
        let object =
            chiton_ir::ObjectRef::new(object.group, object.kind, object.namespace, object.name);
        let found = self.0.output(&object, &name).ok().flatten();
        found.map(|document| document.to_vec())
    }
}

impl attached::Host for Imports {
    fn policies(&mut self, _: types::ObjectRef, _: Option<String>) -> Vec<Vec<u8>> {
        Vec::new()
    }
}

impl clock::Host for Imports {
    fn time_reached(&mut self, _: u64) -> bool {
        false
    }
}

impl logging::Host for Imports {
    fn log(&mut self, _: logging::Level, _: String) {}
}
