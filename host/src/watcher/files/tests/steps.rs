//! The tree step by step, with a clock of the test's own.

use super::super::tree::Tree;
use super::super::wake::{Touch, Wake};
use super::super::{
    DELETE_GRACE, Earlier, MAX_FILE_BYTES, REPORT_AFTER, SETTLE, WRITING_LIMIT, load,
};
use super::{service, write};
use crate::store::Change;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tempfile::TempDir;

struct Steps {
    dir: TempDir,
    tree: Tree,
    now: Instant,
}

impl Steps {
    fn new(files: &[(&str, &str)]) -> Self {
        Self::after(Earlier::default(), files)
    }

    /// A tree that is looked at after a restart.
    fn after(earlier: Earlier, files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            if let Some((folder, _)) = name.split_once('/') {
                fs::create_dir_all(dir.path().join(folder)).unwrap();
            }
            write(dir.path(), name, text);
        }
        let mut steps = Self {
            tree: Tree::new(dir.path().to_owned(), earlier),
            dir,
            now: Instant::now(),
        };
        steps.look();
        steps
    }

    fn write(&self, name: &str, text: &str) {
        write(self.dir.path(), name, text);
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.dir.path().join(name)).unwrap();
    }

    fn real(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    fn touch(&mut self, name: &str, touch: Touch) -> Vec<Change> {
        let mut wake = Wake::default();
        wake.files.insert(self.real(name), touch);
        self.tree.refresh(&wake, self.now)
    }

    /// Somebody wrote the file and closed it.
    fn save(&mut self, name: &str, text: &str) -> Vec<Change> {
        self.write(name, text);
        self.touch(name, Touch::Done)
    }

    fn look(&mut self) -> Vec<Change> {
        self.tree.refresh(&Wake::everything(), self.now)
    }

    fn pass(&mut self, time: Duration) -> Vec<Change> {
        self.now += time;
        self.tree.refresh(&Wake::default(), self.now)
    }

    fn objects(&self) -> Vec<String> {
        self.tree
            .objects()
            .filter(|object| object.origin.is_some())
            .map(|object| {
                let body = String::from_utf8_lossy(&object.body);
                let port = body.rsplit("\"port\":").next().unwrap_or_default();
                let port = port.trim_end_matches(['}', ']']);
                format!("{}:{port}", object.key.name)
            })
            .collect()
    }

    fn problems(&self) -> Vec<String> {
        self.tree
            .problems()
            .iter()
            .map(ToString::to_string)
            .collect()
    }
}

#[test]
fn load_finds_objects_and_problems() {
    let steps = Steps::new(&[
        ("b.yaml", &service("b", 1)),
        (
            "a.yaml",
            &format!("{}---\n{}", service("a", 1), service("b", 2)),
        ),
        ("c.yaml", "a: [1\n"),
    ]);
    let loaded = load(steps.dir.path()).unwrap();
    let keys: Vec<_> = loaded.objects.iter().map(|o| o.key.to_string()).collect();
    assert_eq!(
        keys,
        [
            "Namespace default",
            "Service default/a",
            "Service default/b"
        ]
    );
    assert_eq!(steps.objects(), ["a:1", "b:2"]);
    assert_eq!(loaded.problems.len(), 2, "{:?}", loaded.problems);
    let [duplicate, unparseable] = &loaded.problems[..] else {
        unreachable!()
    };
    assert_eq!(
        duplicate.to_string(),
        "b.yaml:1: Service default/b: is there already in a.yaml line 9, and that one is used; \
         remove one of the two, or give it another name"
    );
    assert_eq!(unparseable.path, PathBuf::from("c.yaml"));
    assert!(unparseable.line.is_some());
    assert!(load(&steps.dir.path().join("nowhere")).is_err());
}

#[test]
fn a_deleted_file_takes_its_objects_with_it_after_the_grace() {
    let mut steps = Steps::new(&[("a.yaml", &service("a", 1)), ("b.yaml", &service("b", 1))]);
    steps.remove("a.yaml");
    assert!(steps.look().is_empty());
    assert_eq!(steps.objects(), ["a:1", "b:1"]);
    assert_eq!(steps.tree.deadline(), Some(steps.now + DELETE_GRACE));
    assert_eq!(steps.pass(DELETE_GRACE).len(), 1);
    assert_eq!(steps.objects(), ["b:1"]);
    assert_eq!(steps.tree.deadline(), None);
}

#[test]
fn an_object_that_leaves_its_file_goes_after_the_grace() {
    let both = format!("{}---\n{}", service("a", 1), service("b", 1));
    let mut steps = Steps::new(&[("a.yaml", &both)]);
    assert!(steps.save("a.yaml", &service("b", 1)).is_empty() || steps.objects().len() == 2);
    assert_eq!(steps.objects(), ["a:1", "b:1"]);
    steps.pass(DELETE_GRACE / 2);
    steps.save("a.yaml", &both);
    steps.pass(DELETE_GRACE);
    assert_eq!(steps.objects(), ["a:1", "b:1"], "it came back in time");
    steps.save("a.yaml", "# nothing but a comment\n");
    steps.pass(DELETE_GRACE);
    assert!(steps.objects().is_empty());
    assert_eq!(steps.problems(), Vec::<String>::new());
}

#[test]
fn a_moved_object_or_file_never_vanishes_and_is_no_duplicate() {
    let mut steps = Steps::new(&[("a.yaml", &service("x", 1))]);
    fs::rename(steps.real("a.yaml"), steps.real("z.yaml")).unwrap();
    let mut wake = Wake::everything();
    wake.files.insert(steps.real("z.yaml"), Touch::Done);
    let changes = steps.tree.refresh(&wake, steps.now);
    assert!(changes.is_empty(), "{changes:?}");
    assert_eq!(steps.problems(), Vec::<String>::new());
    let changes = steps.pass(DELETE_GRACE);
    assert!(matches!(&changes[..], [Change::Put(_)]), "{changes:?}");
    assert_eq!(steps.objects(), ["x:1"]);
}

#[test]
fn what_cannot_be_used_keeps_the_last_good_objects_and_is_reported_when_it_lasts() {
    for (bad, word) in [
        ("a: [1\n", "does not parse"),
        ("", "is empty"),
        ("{", "does not parse"),
    ] {
        let mut steps = Steps::new(&[("a.yaml", &service("a", 1)), ("e.yaml", "")]);
        steps.save("a.yaml", bad);
        assert_eq!(steps.objects(), ["a:1"]);
        assert_eq!(steps.problems(), Vec::<String>::new(), "not yet");
        steps.pass(REPORT_AFTER);
        assert_eq!(steps.tree.deadline(), None);
        let problems = steps.problems();
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems.iter().all(|problem| problem.contains(word)));
        steps.pass(DELETE_GRACE * 100);
        assert_eq!(steps.objects(), ["a:1"]);
        steps.save("a.yaml", &service("a", 2));
        assert_eq!(steps.objects(), ["a:2"]);
        assert_eq!(steps.problems(), Vec::<String>::new());
    }
}

#[test]
fn a_file_that_is_bad_and_then_gone_does_not_keep_the_clock_busy() {
    let mut steps = Steps::new(&[("a.yaml", &service("a", 1))]);
    steps.save("a.yaml", "[");
    steps.pass(REPORT_AFTER);
    steps.remove("a.yaml");
    steps.look();
    assert_eq!(steps.tree.deadline(), Some(steps.now + DELETE_GRACE));
    steps.pass(DELETE_GRACE);
    assert_eq!(steps.problems(), Vec::<String>::new());
    assert!(steps.objects().is_empty());
}

#[test]
fn a_huge_file_is_refused() {
    let mut steps = Steps::new(&[("a.yaml", &service("a", 1))]);
    let size = usize::try_from(MAX_FILE_BYTES).unwrap();
    steps.save(
        "a.yaml",
        &format!("{}#{}", service("a", 2), "x".repeat(size)),
    );
    steps.pass(REPORT_AFTER);
    assert_eq!(steps.objects(), ["a:1"]);
    assert!(steps.problems().concat().contains("larger than 16 MiB"));
}

#[test]
fn a_file_is_not_read_while_it_is_written() {
    let mut steps = Steps::new(&[("a.yaml", &service("a", 1))]);
    steps.write("a.yaml", &service("a", 2));
    steps.touch("a.yaml", Touch::Writing);
    steps.look();
    assert_eq!(steps.objects(), ["a:1"]);
    assert_eq!(steps.tree.deadline(), Some(steps.now + WRITING_LIMIT));
    steps.touch("a.yaml", Touch::Done);
    assert_eq!(steps.objects(), ["a:2"]);

    steps.write("a.yaml", &service("a", 3));
    steps.touch("a.yaml", Touch::Writing);
    steps.pass(WRITING_LIMIT);
    assert_eq!(
        steps.objects(),
        ["a:3"],
        "a writer that never ends is not waited for"
    );
}

#[test]
fn a_change_that_nobody_told_of_settles_first() {
    let mut steps = Steps::new(&[("a.yaml", &service("a", 1))]);
    steps.write("a.yaml", &service("a", 2));
    steps.look();
    assert_eq!(steps.objects(), ["a:1"]);
    steps.pass(SETTLE);
    assert_eq!(steps.objects(), ["a:2"]);
}

#[test]
fn the_first_path_wins_and_the_second_takes_over() {
    let mut steps = Steps::new(&[("b.yaml", &service("x", 2)), ("c.yaml", &service("x", 3))]);
    assert_eq!(steps.objects(), ["x:2"]);
    assert_eq!(steps.problems().len(), 1);
    steps.save("a.yaml", &service("x", 1));
    assert_eq!(steps.objects(), ["x:1"]);
    assert_eq!(steps.problems().len(), 2);
    steps.remove("a.yaml");
    steps.look();
    assert_eq!(steps.objects(), ["x:1"]);
    steps.pass(DELETE_GRACE);
    assert_eq!(steps.objects(), ["x:2"]);
    steps.remove("b.yaml");
    steps.look();
    let changes = steps.pass(DELETE_GRACE);
    assert!(matches!(&changes[..], [Change::Put(_)]), "{changes:?}");
    assert_eq!(steps.objects(), ["x:3"]);
    assert_eq!(steps.problems(), Vec::<String>::new());
}

#[test]
fn a_namespace_that_is_used_is_there_and_a_given_one_is_the_one() {
    let namespaces = |steps: &Steps| -> Vec<(String, usize)> {
        steps
            .tree
            .objects()
            .filter(|object| object.key.kind == "Namespace")
            .map(|object| (object.key.name.to_string(), object.labels.iter().count()))
            .collect()
    };
    let mut steps = Steps::new(&[("a.yaml", &service("a", 1))]);
    assert_eq!(namespaces(&steps), [("default".to_owned(), 1)]);
    let given = "{apiVersion: v1, kind: Namespace, metadata: {name: default, labels: {a: b}}}";
    steps.save("n.yaml", given);
    assert_eq!(namespaces(&steps), [("default".to_owned(), 2)]);
    steps.remove("n.yaml");
    steps.look();
    steps.pass(DELETE_GRACE);
    assert_eq!(namespaces(&steps), [("default".to_owned(), 1)]);
    steps.remove("a.yaml");
    steps.look();
    steps.pass(DELETE_GRACE);
    assert_eq!(namespaces(&steps), []);
}

#[test]
fn a_folder_that_cannot_be_read_keeps_its_objects() {
    let mut steps = Steps::new(&[("a.yaml", &service("a", 1))]);
    let away = steps.dir.path().with_extension("away");
    fs::rename(steps.dir.path(), &away).unwrap();
    steps.look();
    steps.pass(DELETE_GRACE);
    assert_eq!(steps.objects(), ["a:1"]);
    assert!(steps.problems().concat().contains("cannot be read"));
    fs::rename(&away, steps.dir.path()).unwrap();
    steps.look();
    assert_eq!(steps.problems(), Vec::<String>::new());
}

#[test]
fn a_mounted_config_map_changes_as_a_whole() {
    let mut steps = Steps::new(&[]);
    let root = steps.dir.path().to_owned();
    let version = |port: u16| {
        let folder = root.join(format!("..v{port}"));
        fs::create_dir(&folder).unwrap();
        write(&folder, "a.yaml", &service("a", port));
        write(&folder, "b.yaml", &service("b", port));
        symlink(format!("..v{port}"), root.join("..tmp")).unwrap();
        fs::rename(root.join("..tmp"), root.join("..data")).unwrap();
    };
    version(1);
    for name in ["a.yaml", "b.yaml"] {
        symlink(format!("..data/{name}"), root.join(name)).unwrap();
    }
    steps.look();
    steps.pass(SETTLE);
    assert_eq!(steps.objects(), ["a:1", "b:1"]);
    version(2);
    fs::remove_dir_all(root.join("..v1")).unwrap();
    steps.look();
    assert_eq!(steps.objects(), ["a:1", "b:1"]);
    let changes = steps.pass(SETTLE);
    assert_eq!(changes.len(), 2, "both in one commit");
    assert_eq!(steps.objects(), ["a:2", "b:2"]);
    assert_eq!(steps.problems(), Vec::<String>::new());
}

/// The kernel says that names came or went, and nothing else.
fn told(steps: &mut Steps, names: &[&str], done: &[&str]) -> Vec<Change> {
    let files = done.iter().map(|name| (steps.real(name), Touch::Done));
    let wake = Wake {
        names: names.iter().map(|name| steps.real(name)).collect(),
        files: files.collect(),
        ..Wake::default()
    };
    steps.tree.refresh(&wake, steps.now)
}

#[test]
fn a_name_that_comes_or_goes_is_looked_at_alone() {
    let mut steps = Steps::new(&[("a.yaml", &service("a", 1)), ("d/b.yaml", &service("b", 1))]);
    // Nobody tells of this one, so only a look at everything finds it.
    steps.write("unseen.yaml", &service("unseen", 1));
    steps.write("d/c.yaml", &service("c", 1));
    steps.write(".hidden", "");
    steps.write("a.yaml~", "");
    let names = ["d/c.yaml", ".hidden", "a.yaml~", "never.yaml", "never"];
    assert_eq!(told(&mut steps, &names, &["d/c.yaml"]).len(), 1);
    assert_eq!(steps.objects(), ["a:1", "b:1", "c:1"]);

    steps.remove("d/b.yaml");
    told(&mut steps, &["d/b.yaml"], &[]);
    assert_eq!(steps.pass(DELETE_GRACE).len(), 1);
    fs::rename(steps.real("a.yaml"), steps.real("z.yaml")).unwrap();
    told(&mut steps, &["a.yaml", "z.yaml"], &["a.yaml", "z.yaml"]);
    assert_eq!(steps.objects(), ["a:1", "c:1"]);
    steps.pass(DELETE_GRACE);
    assert_eq!(steps.save("z.yaml", &service("a", 2)).len(), 1);
    assert_eq!(steps.objects(), ["a:2", "c:1"]);
    assert_eq!(steps.problems(), Vec::<String>::new());
}

#[test]
fn a_name_that_may_mean_more_has_everything_looked_at() {
    let more: [fn(&Steps) -> &'static str; 4] = [
        |steps| {
            fs::create_dir(steps.real("x.yaml")).unwrap();
            "x.yaml"
        },
        |steps| {
            fs::rename(steps.real("d"), steps.real(".d")).unwrap();
            "d"
        },
        |steps| {
            symlink("a.yaml", steps.real("x.yaml")).unwrap();
            "x.yaml"
        },
        |steps| {
            fs::hard_link(steps.real("a.yaml"), steps.real("x.yaml")).unwrap();
            "x.yaml"
        },
    ];
    for change in more {
        let mut steps = Steps::new(&[("a.yaml", &service("a", 1)), ("d/b.yaml", "")]);
        let name = change(&steps);
        steps.write("unseen.yaml", &service("unseen", 1));
        told(&mut steps, &[name], &[]);
        steps.pass(SETTLE);
        assert_eq!(steps.objects(), ["a:1", "unseen:1"], "{name}");
        assert_eq!(steps.problems(), Vec::<String>::new());
    }
}

/// What an earlier host had of two files with two Services and a Secret.
fn earlier() -> Earlier {
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {port: x}\n";
    let files = [
        ("a.yaml", format!("{}---\n{secret}", service("a", 1))),
        ("b.yaml", service("b", 2)),
        ("c/c.yaml", service("c", 3)),
    ];
    let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
    let steps = Steps::new(&files);
    let mut objects: Vec<_> = steps.tree.objects().map(|it| (**it).clone()).collect();
    for secret in objects.iter_mut().filter(|it| it.key.is("", "Secret")) {
        secret.body = std::sync::Arc::default();
    }
    Earlier::new(|| objects)
}

#[test]
fn a_file_that_is_broken_at_the_start_has_what_it_had_before() {
    let broken = format!("{}---\nb: [1\n", service("b", 3));
    let mut steps = Steps::after(
        earlier(),
        &[("a.yaml", &broken), ("b.yaml", " \n"), ("d.yaml", &broken)],
    );
    assert_eq!(
        steps.objects(),
        ["a:1", "b:2"],
        "c is gone, d never was good"
    );
    let problems = steps.problems();
    assert!(
        problems[1].starts_with("a.yaml:9: Secret default/s: is missing since the restart"),
        "{problems:?}"
    );
    assert!(
        problems[0].starts_with("a.yaml:9: does not parse: ")
            && problems[0].ends_with("its last good objects are kept"),
        "{problems:?}"
    );
    assert!(
        problems[2].starts_with("b.yaml: is empty; its last good"),
        "{problems:?}"
    );
    assert!(
        problems[3].ends_with("nothing of it is used"),
        "{problems:?}"
    );
    assert_eq!(problems.len(), 4, "{problems:?}");

    // From here on it is like any other broken file.
    steps.save("a.yaml", "b: [2\n");
    assert_eq!(steps.objects(), ["a:1", "b:2"]);
    steps.save("a.yaml", &service("a", 4));
    steps.remove("b.yaml");
    steps.look();
    steps.pass(DELETE_GRACE);
    assert_eq!(steps.objects(), ["a:4"]);
    assert_eq!(steps.problems().len(), 1, "{:?}", steps.problems());
}

#[test]
fn a_good_file_is_what_it_is_whatever_it_was_before() {
    let steps = Steps::after(
        earlier(),
        &[("a.yaml", &service("a", 4)), ("b.yaml", "# nothing\n")],
    );
    assert_eq!(steps.objects(), ["a:4"]);
    assert_eq!(steps.problems(), [""; 0]);
}

#[test]
fn what_cannot_be_looked_at_since_the_start_is_what_it_was() {
    // A link to itself cannot be followed.
    let dir = tempfile::tempdir().unwrap();
    symlink("c.yaml", dir.path().join("c.yaml")).unwrap();
    fs::create_dir(dir.path().join("c")).unwrap();
    let held = Steps::new(&[("c.yaml", &service("c", 3))]);
    let objects: Vec<_> = held.tree.objects().map(|it| (**it).clone()).collect();
    let mut steps = Steps {
        tree: Tree::new(dir.path().to_owned(), Earlier::new(|| objects)),
        dir,
        now: Instant::now(),
    };
    steps.look();
    assert_eq!(steps.objects(), ["c:3"]);
    assert!(
        steps.problems()[0].contains("cannot be read"),
        "{:?}",
        steps.problems()
    );
    steps.remove("c.yaml");
    steps.look();
    steps.pass(DELETE_GRACE);
    assert_eq!(steps.objects(), [""; 0]);
}
