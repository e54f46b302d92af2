//! Files of manifests.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = chiton::fuzzing::file(data);
});
