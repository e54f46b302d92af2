//! The folder of manifests, seen by those whose requests flow while its files are saved.

use chiton_tests::{Load, World, wait};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

/// Connections of a load, and requests a second on each.
const WORKERS: u32 = 4;
const PER_SECOND: u32 = 75;

/// How long a slow writer waits between two parts of a file.
const PAUSE: Duration = Duration::from_millis(150);

/// The route `steady`, whose answers say in a header how its file was last saved.
fn steady(saved: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: steady}}
spec:
  parentRefs: [{{name: gateway}}]
  rules:
    - matches: [{{path: {{type: PathPrefix, value: /steady}}}}]
      filters:
        - type: ResponseHeaderModifier
          responseHeaderModifier: {{set: [{{name: x-saved, value: {saved}}}]}}
      backendRefs: [{{group: chiton.dev, kind: Backend, name: a}}]
"
    )
}

/// The same as JSON.
fn steady_json(saved: &str) -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": "steady"},
        "spec": {
            "parentRefs": [{"name": "gateway"}],
            "rules": [{
                "matches": [{"path": {"type": "PathPrefix", "value": "/steady"}}],
                "filters": [{
                    "type": "ResponseHeaderModifier",
                    "responseHeaderModifier": {"set": [{"name": "x-saved", "value": saved}]},
                }],
                "backendRefs": [{"group": "chiton.dev", "kind": "Backend", "name": "a"}],
            }],
        },
    })
}

/// A route to a backend of the world.
fn route(name: &str, backend: &str) -> String {
    steady("no")
        .replace("name: steady", &format!("name: {name}"))
        .replace("/steady", &format!("/{name}"))
        .replace("name: a}", &format!("name: {backend}}}"))
}

fn load(world: &World) -> Load {
    Load::start(world.port, &world.get("/steady"), WORKERS, PER_SECOND)
}

/// Waits until the newest form of `steady` is served.
async fn saved(world: &World, value: &str) -> anyhow::Result<()> {
    let check = |answer: &chiton_tests::http::Answer| match answer.header("x-saved") {
        header if header == value => Ok(()),
        header => Err(format!("saved by {header:?}, not {value:?}")),
    };
    world
        .host
        .eventually(&world.get("/steady"), check)
        .await
        .map(drop)
}

/// Problems of files, once there are any or none.
async fn problems(world: &World, any: bool) -> anyhow::Result<Vec<Value>> {
    wait::until("the list of problems is as it should be", async || {
        let all = world
            .host
            .admin("/api/v1/problems")
            .await
            .map_err(|error| format!("{error:#}"))?
            .json();
        match all.as_array() {
            Some(list) if list.is_empty() != any => Ok(list.clone()),
            _ => Err(format!("{all:#}")),
        }
    })
    .await
}

/// Truncates a file and writes it in three parts.
async fn write_slowly(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut file = File::create(path)?;
    let third = text.len() / 3;
    for part in [&text[..third], &text[third..2 * third], &text[2 * third..]] {
        tokio::time::sleep(PAUSE).await;
        file.write_all(part.as_bytes())?;
    }
    tokio::time::sleep(PAUSE).await;
    Ok(())
}

#[tokio::test]
async fn no_way_of_saving_a_file_loses_a_request() -> anyhow::Result<()> {
    let world = World::start(&steady("first")).await?;
    saved(&world, "first").await?;
    let path = world.host.manifests().join("test.yaml");
    let load = load(&world);

    world.replace(&steady("renamed"))?;
    saved(&world, "renamed").await?;

    write_slowly(&path, &steady("slowly")).await?;
    saved(&world, "slowly").await?;

    // Each part is closed, as a shell's `>` and `>>` do. A file is read when it is closed, so this is
    // safe for what parses only once it is whole: JSON, unlike YAML.
    fs::write(&path, "")?;
    for line in serde_json::to_string_pretty(&steady_json("appended"))?.lines() {
        let mut file = File::options().append(true).open(&path)?;
        writeln!(file, "{line}")?;
    }
    saved(&world, "appended").await?;

    fs::remove_file(&path)?;
    tokio::time::sleep(PAUSE).await;
    fs::write(&path, steady("created"))?;
    saved(&world, "created").await?;

    // Some editors move the old file away first.
    fs::rename(&path, path.with_extension("yaml~"))?;
    tokio::time::sleep(PAUSE).await;
    fs::write(&path, steady("moved"))?;
    saved(&world, "moved").await?;

    // The object moves to another file.
    world.write("other.yaml", &steady("elsewhere"))?;
    fs::remove_file(&path)?;
    saved(&world, "elsewhere").await?;

    load.flawless(50).await?;
    assert!(problems(&world, false).await?.is_empty());
    world.host.stop().await
}

#[tokio::test]
async fn a_folder_that_is_swapped_by_a_link_is_followed() -> anyhow::Result<()> {
    let world = World::start("").await?;
    let mount = world.host.manifests().join("mounted");
    // As the kubelet does: `..data` is a link to a folder with a time in its name, and each file a
    // link through it.
    let fill = |version: &str, text: &str| -> anyhow::Result<()> {
        let folder = mount.join(format!("..{version}"));
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("steady.yaml"), text)?;
        std::os::unix::fs::symlink(format!("..{version}"), mount.join("..data_tmp"))?;
        fs::rename(mount.join("..data_tmp"), mount.join("..data"))?;
        Ok(())
    };
    fill("2026_01", &steady("mounted"))?;
    std::os::unix::fs::symlink("..data/steady.yaml", mount.join("steady.yaml"))?;
    saved(&world, "mounted").await?;

    let load = load(&world);
    for version in ["2026_02", "2026_03", "2026_04"] {
        fill(version, &steady(version))?;
        saved(&world, version).await?;
    }
    fs::remove_dir_all(mount.join("..2026_01"))?;
    fs::remove_dir_all(mount.join("..2026_02"))?;
    load.flawless(50).await?;
    world.host.stop().await
}

#[tokio::test]
async fn a_broken_file_keeps_its_objects_and_is_reported() -> anyhow::Result<()> {
    let mut world = World::start(&(steady("good") + "---\n" + &route("b", "b"))).await?;
    saved(&world, "good").await?;
    world.served_by("/b", "b").await?;
    let load = load(&world);
    let broken = steady("broken").replace("spec:\n", "spec: [\n");
    world.replace(&broken)?;
    let found = problems(&world, true).await?;
    let [problem] = found.as_slice() else {
        anyhow::bail!("{found:#?}");
    };
    assert_eq!(problem["path"], "test.yaml");
    assert!(
        problem["line"].as_u64().is_some_and(|line| line >= 4),
        "{problem:#}"
    );
    assert!(
        problem["reason"]
            .as_str()
            .is_some_and(|reason| reason.contains("does not parse")),
        "{problem:#}"
    );
    // What comes later is not held up, and the other object of the file stays too.
    world.write("later.yaml", &route("later", "c"))?;
    world.served_by("/later", "c").await?;
    world.served_by("/b", "b").await?;
    saved(&world, "good").await?;
    let output = world.host.process().output();
    assert_eq!(output.matches("does not parse").count(), 1, "{output}");

    world.replace(&steady("mended"))?;
    saved(&world, "mended").await?;
    assert!(problems(&world, false).await?.is_empty());
    // The mended file does not hold it any more.
    world.status(&world.get("/b"), 404).await?;
    load.flawless(50).await?;
    world.host.stop().await
}

#[tokio::test]
async fn of_two_files_with_one_object_the_first_wins_and_the_other_is_reported()
-> anyhow::Result<()> {
    let world = World::start(&steady("test.yaml")).await?;
    saved(&world, "test.yaml").await?;
    let load = load(&world);
    world.write("zz.yaml", &steady("zz.yaml"))?;
    let found = problems(&world, true).await?;
    let [problem] = found.as_slice() else {
        anyhow::bail!("{found:#?}");
    };
    assert_eq!(problem["path"], "zz.yaml");
    assert_eq!(problem["line"], 1);
    assert_eq!(problem["object"]["name"], "steady");
    assert!(
        problem["reason"]
            .as_str()
            .is_some_and(|reason| reason.contains("test.yaml")),
        "{problem:#}"
    );
    saved(&world, "test.yaml").await?;

    world.write("aa.yaml", &steady("aa.yaml"))?;
    saved(&world, "aa.yaml").await?;
    world.host.remove("aa.yaml")?;
    saved(&world, "test.yaml").await?;
    world.host.remove("test.yaml")?;
    saved(&world, "zz.yaml").await?;
    assert!(problems(&world, false).await?.is_empty());
    load.flawless(50).await?;
    world.host.stop().await
}

#[tokio::test]
async fn deleting_a_file_deletes_its_objects_and_nothing_else() -> anyhow::Result<()> {
    let world = World::start(&steady("kept")).await?;
    world.write(
        "gone.yaml",
        &(route("one", "b") + "---\n" + &route("two", "c")),
    )?;
    world.served_by("/one", "b").await?;
    world.served_by("/two", "c").await?;
    let load = load(&world);
    world.host.remove("gone.yaml")?;
    world.status(&world.get("/one"), 404).await?;
    world.status(&world.get("/two"), 404).await?;
    for name in ["one", "two"] {
        let left = world.host.object("HTTPRoute", name).await?;
        assert_eq!(left, Value::Null);
    }
    saved(&world, "kept").await?;
    load.flawless(50).await?;
    world.host.stop().await
}
