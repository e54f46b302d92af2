//! Ways of saving a file, against the real folder and the kernel's real events.
//!
//! While files are saved, an auditor looks at the store as fast as it can: the object must be there
//! at every moment, and never in a half-written form.

use super::super::{Earlier, Problem, watch};
use super::write;
use crate::store::{Key, Store};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Far more than anything here needs: reached only by what never happens.
const LONG: Duration = Duration::from_mins(1);

/// An object whose first and last lines say the same, and which is longer than one write.
fn object(version: u64) -> String {
    let filler: String = (0..40).map(|line| format!("  f{line}: {line}\n")).collect();
    format!(
        "apiVersion: example.com/v1\nkind: Thing\nmetadata:\n  name: x\nspec:\n  a: {version}\n{filler}  z: {version}\n"
    )
}

fn key() -> Key {
    Key::new("example.com", "Thing", "default", "x")
}

/// What the store holds of the object: its two versions.
fn versions(store: &Store) -> Option<(u64, Option<u64>)> {
    let snapshot = store.snapshot();
    let object = snapshot.get(&key())?;
    let body: serde_json::Value = serde_json::from_slice(&object.body).ok()?;
    Some((body["spec"]["a"].as_u64()?, body["spec"]["z"].as_u64()))
}

struct Followed {
    dir: TempDir,
    store: Arc<Store>,
    problems: tokio::sync::watch::Receiver<Vec<Problem>>,
    shutdown: CancellationToken,
    task: JoinHandle<()>,
}

impl Followed {
    async fn start(dir: TempDir) -> Self {
        let store = Arc::new(Store::new());
        let (sender, problems) = tokio::sync::watch::channel(Vec::new());
        let shutdown = CancellationToken::new();
        let task = watch(
            dir.path(),
            Earlier::default(),
            store.clone(),
            sender,
            shutdown.clone(),
        )
        .await
        .unwrap();
        Self {
            dir,
            store,
            problems,
            shutdown,
            task,
        }
    }

    /// Waits until the store is as wanted.
    async fn until(&self, what: &str, wanted: impl Fn(&Store) -> bool) {
        let wait = async {
            while !wanted(&self.store) {
                self.store.feed().next().await;
            }
        };
        let reached = tokio::time::timeout(LONG, wait).await.is_ok();
        assert!(
            reached,
            "never: {what}; problems {:?}",
            self.problems.borrow()
        );
    }

    async fn until_version(&self, version: u64, how: &str) {
        self.until(&format!("version {version} saved by {how}"), |store| {
            versions(store).is_some_and(|(a, _)| a == version)
        })
        .await;
    }

    async fn stop(self) {
        self.shutdown.cancel();
        tokio::time::timeout(LONG, self.task)
            .await
            .unwrap()
            .unwrap();
    }
}

/// A way of saving a file.
type Save = (&'static str, fn(&Path, &str));

const WAYS: &[Save] = &[
    ("write in place", |file, text| {
        fs::write(file, text).unwrap();
    }),
    ("rename over", |file, text| {
        let new = file.with_extension("yaml.tmp");
        fs::write(&new, text).unwrap();
        fs::rename(&new, file).unwrap();
    }),
    ("backup by rename, as vim does", |file, text| {
        fs::rename(file, file.with_extension("yaml~")).unwrap();
        fs::write(file, text).unwrap();
    }),
    ("delete and re-create", |file, text| {
        fs::remove_file(file).unwrap();
        pause();
        fs::write(file, text).unwrap();
    }),
    ("truncate and write slowly", |file, text| {
        write_slowly(File::create(file).unwrap(), text);
    }),
    ("truncate, close, and append", |file, text| {
        drop(File::create(file).unwrap());
        pause();
        let mut opened = OpenOptions::new().append(true).open(file).unwrap();
        opened.write_all(text.as_bytes()).unwrap();
    }),
    ("delete, and create slowly", |file, text| {
        fs::remove_file(file).unwrap();
        write_slowly(File::create(file).unwrap(), text);
    }),
    ("hard link in place", |file, text| {
        let new = file.with_extension("yaml.tmp");
        fs::write(&new, text).unwrap();
        fs::remove_file(file).unwrap();
        fs::hard_link(&new, file).unwrap();
        fs::remove_file(&new).unwrap();
    }),
];

/// Gives whoever follows time to see the state between two steps.
fn pause() {
    std::thread::sleep(Duration::from_millis(20));
}

fn write_slowly(mut file: File, text: &str) {
    for chunk in text.as_bytes().chunks(100) {
        file.write_all(chunk).unwrap();
        file.flush().unwrap();
        pause();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_way_of_saving_makes_an_object_vanish() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.yaml");
    fs::write(&file, object(0)).unwrap();
    let followed = Followed::start(dir).await;
    let (stop, audited) = audit(followed.store.clone());

    let mut version = 0;
    // Each way after each other way: what one leaves behind may trip the next.
    for first in WAYS {
        for (how, save) in [first, &WAYS[0], &WAYS[1]] {
            version += 1;
            let (file, text) = (file.clone(), object(version));
            tokio::task::spawn_blocking(move || save(&file, &text))
                .await
                .unwrap();
            followed.until_version(version, how).await;
        }
    }
    stop.store(true, Ordering::Relaxed);
    assert_eq!(audited.join().unwrap(), Vec::<String>::new());
    assert_eq!(*followed.problems.borrow(), []);
    followed.stop().await;
}

/// Looks at the object without a pause, and returns what it saw that must not be.
fn audit(store: Arc<Store>) -> (Arc<AtomicBool>, std::thread::JoinHandle<Vec<String>>) {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let auditor = std::thread::spawn(move || {
        let mut wrong = Vec::new();
        while !stopped.load(Ordering::Relaxed) && wrong.len() < 10 {
            match versions(&store) {
                None => wrong.push("it is gone".to_owned()),
                Some((a, z)) if z != Some(a) => wrong.push(format!("it is torn: {a} {z:?}")),
                Some(_) => {}
            }
            std::thread::yield_now();
        }
        wrong
    });
    (stop, auditor)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_is_synced_and_committed_when_watch_returns() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "a.yaml", &object(1));
    let followed = Followed::start(dir).await;
    assert_eq!(versions(&followed.store), Some((1, Some(1))));
    let snapshot = followed.store.snapshot();
    assert!(snapshot.is_synced(&key().group_kind()));
    for known in super::super::KINDS {
        assert!(snapshot.is_synced(&known.group_kind()), "{known:?}");
    }
    followed.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_and_folders_come_and_go() {
    let followed = Followed::start(tempfile::tempdir().unwrap()).await;
    let root = followed.dir.path().to_owned();
    let there = |store: &Store| versions(store).is_some();
    let gone = |store: &Store| versions(store).is_none();

    fs::create_dir_all(root.join("x/y")).unwrap();
    write(&root, "x/y/a.yaml", &object(1));
    followed.until("a file in a new folder", there).await;
    write(&root, "x/y/a.yaml", &object(2));
    followed.until_version(2, "a change in a new folder").await;

    fs::rename(root.join("x"), root.join("z")).unwrap();
    write(&root, "z/y/a.yaml", &object(3));
    followed
        .until_version(3, "a change in a moved folder")
        .await;
    fs::remove_dir_all(root.join("z")).unwrap();
    followed.until("the folder's objects are gone", gone).await;

    fs::create_dir_all(root.join("z/y")).unwrap();
    write(
        &root,
        "z/y/b.json",
        r#"{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"x"},"spec":{"a":4,"z":4}}"#,
    );
    followed.until_version(4, "a folder made anew").await;
    fs::remove_file(root.join("z/y/b.json")).unwrap();
    followed.until("the file's objects are gone", gone).await;
    followed.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fault_is_published_and_taken_back() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "a.yaml", &object(1));
    let mut followed = Followed::start(dir).await;
    write(followed.dir.path(), "a.yaml", "kind: [\n");
    let problems = &mut followed.problems;
    tokio::time::timeout(LONG, problems.wait_for(|all| all.len() == 1))
        .await
        .expect("reported")
        .unwrap();
    assert_eq!(versions(&followed.store), Some((1, Some(1))));
    write(followed.dir.path(), "a.yaml", &object(2));
    followed.until_version(2, "a correction").await;
    tokio::time::timeout(LONG, followed.problems.wait_for(Vec::is_empty))
        .await
        .expect("taken back")
        .unwrap();
    followed.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mounted_config_map_is_followed() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().to_owned();
    let swap = |version: u64| {
        let folder = format!("..v{version}");
        fs::create_dir(root.join(&folder)).unwrap();
        write(&root.join(&folder), "a.yaml", &object(version));
        symlink(&folder, root.join("..tmp")).unwrap();
        fs::rename(root.join("..tmp"), root.join("..data")).unwrap();
        if version > 1 {
            fs::remove_dir_all(root.join(format!("..v{}", version - 1))).unwrap();
        }
    };
    swap(1);
    symlink("..data/a.yaml", root.join("a.yaml")).unwrap();
    let followed = Followed::start(dir).await;
    let (stop, audited) = audit(followed.store.clone());
    for version in 2..6 {
        swap(version);
        followed.until_version(version, "a swap").await;
    }
    stop.store(true, Ordering::Relaxed);
    assert_eq!(audited.join().unwrap(), Vec::<String>::new());
    assert_eq!(*followed.problems.borrow(), []);
    followed.stop().await;
}
