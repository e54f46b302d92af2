//! Components at the front door of the sandbox.
#![no_main]

use chiton::fuzzing::FrontDoor;
use std::sync::LazyLock;

static DOOR: LazyLock<FrontDoor> = LazyLock::new(FrontDoor::new);

libfuzzer_sys::fuzz_target!(|data: &[u8]| DOOR.knock(data));
