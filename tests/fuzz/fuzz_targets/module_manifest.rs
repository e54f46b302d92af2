//! `module.yaml`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| chiton::fuzzing::module_manifest(data));
