//! Inputs of the fuzz targets (`tests/fuzz`), those that were found by them among these, without a
//! fuzzer.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use chiton::fuzzing::{self, FrontDoor, World};
use std::path::Path;

/// Calls `run` with every file in `tests/<dir>` and below it.
fn each(dir: &str, run: &mut dyn FnMut(&[u8])) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../tests")
        .join(dir);
    let mut folders = vec![root];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            // A panic does not say which input it was.
            println!("{}", path.display());
            run(&std::fs::read(&path).unwrap());
            files += 1;
        }
    }
    assert!(files > 0, "there are no files in {dir}");
}

#[test]
fn files() {
    let mut run = |data: &[u8]| drop(fuzzing::file(data));
    each("fuzz/seeds/file", &mut run);
    each("golden", &mut run);
}

#[test]
fn module_manifests() {
    each("fuzz/seeds/module_manifest", &mut fuzzing::module_manifest);
}

#[test]
fn components() {
    let door = FrontDoor::new();
    each("fuzz/seeds/component", &mut |data| door.knock(data));
}

#[test]
fn objects() {
    let mut world = World::new();
    let mut run = |data: &[u8]| world.visit(data);
    each("fuzz/seeds/objects", &mut run);
    each("golden", &mut run);
}

#[test]
fn discovery() {
    each("fuzz/seeds/discovery", &mut chiton_xds::fuzzing::discovery);
}
