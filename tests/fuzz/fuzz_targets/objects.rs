//! Objects through the built-in reconcilers and the synchronizer.
#![no_main]

use chiton::fuzzing::World;
use std::sync::{LazyLock, Mutex};

static WORLD: LazyLock<Mutex<World>> = LazyLock::new(Mutex::default);

libfuzzer_sys::fuzz_target!(|data: &[u8]| WORLD.lock().unwrap().visit(data));
