//! Requests of xDS clients, in both forms of the protocol.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| chiton_xds::fuzzing::discovery(data));
