//! The configuration of `chiton serve`: a YAML file, overridden by flags.

use crate::modules::Builtins;
use crate::pipeline;
use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use serde::Deserialize;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Who runs Envoy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EnvoyMode {
    /// This process starts, supervises and stops one.
    Managed,
    /// Somebody else does; it connects to the xDS address.
    None,
}

/// Settings as a file or the command line gives them: each may be absent.
#[derive(Clone, Debug, Default, Args, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Settings {
    /// Folder of manifests (YAML and JSON), watched for changes
    #[arg(long, value_name = "DIR")]
    pub manifests: Option<PathBuf>,
    /// Who runs Envoy [default: managed]
    #[arg(long, value_name = "MODE")]
    pub envoy: Option<EnvoyMode>,
    /// Address of all listeners, instead of the ones that Gateways ask for
    #[arg(long, value_name = "ADDR")]
    pub bind_address: Option<IpAddr>,
    /// Where the xDS server listens for Envoys of somebody else [default: off with a managed Envoy,
    /// else 127.0.0.1:18000]
    #[arg(long, value_name = "ADDR:PORT")]
    pub xds_address: Option<SocketAddr>,
    /// Where the admin server listens [default: 127.0.0.1:19000]
    #[arg(long, value_name = "ADDR:PORT")]
    pub admin_address: Option<SocketAddr>,
    /// Folder for what outlives a restart; one process at a time
    /// [default: `$XDG_STATE_HOME/chiton` or `~/.local/state/chiton`]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Least seconds between two saves of what is served, for the next start; 0: nothing is saved or
    /// read [default: 1]
    #[arg(long, value_name = "SECONDS")]
    pub checkpoint_interval: Option<u32>,
    /// Write Envoy's access log to standard output
    #[arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    pub access_log: Option<bool>,
    /// Added to listener ports below 1024, for a proxy that may not bind them [default: 0]
    #[arg(long, value_name = "N")]
    pub low_port_offset: Option<u16>,
    /// How long one layer of an epoch may take, in milliseconds: what has not been reconciled by then
    /// goes on in the next epoch, oldest first [default: 1000]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub batch_time_ms: Option<u64>,
    /// Built-in reconcilers.
    #[command(flatten)]
    #[serde(default)]
    pub reconcilers: Reconcilers,
}

/// Which built-in reconcilers are active, and where they come from.
#[derive(Clone, Debug, Default, Args, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Reconcilers {
    /// Names of the active built-in reconcilers, separated by commas [default: all]
    #[arg(
        long = "reconcilers-enabled",
        value_name = "NAMES",
        value_delimiter = ','
    )]
    pub enabled: Option<Vec<String>>,
    /// Folder of components (`gateway.wasm`, …) instead of the ones in this binary
    #[arg(long = "reconcilers", value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

impl From<Reconcilers> for Builtins {
    fn from(settings: Reconcilers) -> Self {
        Self {
            enabled: settings.enabled,
            dir: settings.dir,
        }
    }
}

/// Settings of `chiton serve`, complete.
#[derive(Clone, Debug)]
pub struct Config {
    /// Folder of manifests.
    pub manifests: PathBuf,
    /// Who runs Envoy.
    pub envoy: EnvoyMode,
    /// Address of all listeners, if set.
    pub bind_address: Option<IpAddr>,
    /// Where the xDS server listens on TCP, if it does.
    pub xds_address: Option<SocketAddr>,
    /// Where the admin server listens.
    pub admin_address: SocketAddr,
    /// Folder for what outlives a restart.
    pub data_dir: PathBuf,
    /// Least time between two saves of what is served; none: it is not saved.
    pub checkpoint_interval: Option<Duration>,
    /// Whether Envoy writes an access log.
    pub access_log: bool,
    /// Added to listener ports below 1024.
    pub low_port_offset: u16,
    /// How long one layer of an epoch may take.
    pub batch_time: Duration,
    /// Built-in reconcilers.
    pub reconcilers: Reconcilers,
}

/// Default address of the admin server, which the commands that ask a running host use too.
pub const DEFAULT_ADMIN: &str = "127.0.0.1:19000";
/// Default address of the xDS server without a managed Envoy.
pub const DEFAULT_XDS: &str = "127.0.0.1:18000";

impl Settings {
    /// Reads a file. Errors name the file, the place and what is wrong.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the configuration {}", path.display()))?;
        serde_saphyr::from_str(&text)
            .with_context(|| format!("the configuration {} is not valid", path.display()))
    }

    /// These settings, with what they do not say taken from `below`.
    #[must_use]
    pub fn over(self, below: Self) -> Self {
        Self {
            manifests: self.manifests.or(below.manifests),
            envoy: self.envoy.or(below.envoy),
            bind_address: self.bind_address.or(below.bind_address),
            xds_address: self.xds_address.or(below.xds_address),
            admin_address: self.admin_address.or(below.admin_address),
            data_dir: self.data_dir.or(below.data_dir),
            checkpoint_interval: self.checkpoint_interval.or(below.checkpoint_interval),
            access_log: self.access_log.or(below.access_log),
            low_port_offset: self.low_port_offset.or(below.low_port_offset),
            batch_time_ms: self.batch_time_ms.or(below.batch_time_ms),
            reconcilers: Reconcilers {
                enabled: self.reconcilers.enabled.or(below.reconcilers.enabled),
                dir: self.reconcilers.dir.or(below.reconcilers.dir),
            },
        }
    }

    /// Completes the settings with defaults.
    pub fn complete(self) -> anyhow::Result<Config> {
        let Some(manifests) = self.manifests else {
            bail!("no manifests: say --manifests DIR, or `manifests` in the configuration");
        };
        if !manifests.is_dir() {
            bail!(
                "{} is not a folder; --manifests takes a folder of YAML or JSON files",
                manifests.display()
            );
        }
        let envoy = self.envoy.unwrap_or(EnvoyMode::Managed);
        let default_xds = (envoy == EnvoyMode::None)
            .then(|| DEFAULT_XDS.parse())
            .transpose()?;
        Ok(Config {
            manifests,
            envoy,
            bind_address: self.bind_address,
            xds_address: self.xds_address.or(default_xds),
            admin_address: match self.admin_address {
                Some(address) => address,
                None => DEFAULT_ADMIN.parse()?,
            },
            data_dir: match self.data_dir {
                Some(dir) => dir,
                None => default_data_dir()?,
            },
            checkpoint_interval: match self.checkpoint_interval.unwrap_or(1) {
                0 => None,
                seconds => Some(Duration::from_secs(seconds.into())),
            },
            access_log: self.access_log.unwrap_or(false),
            low_port_offset: self.low_port_offset.unwrap_or(0),
            batch_time: batch_time(self.batch_time_ms)?,
            reconcilers: self.reconcilers,
        })
    }
}

/// At most a minute: nobody's change may wait longer for others'.
fn batch_time(milliseconds: Option<u64>) -> anyhow::Result<Duration> {
    match milliseconds {
        None => Ok(pipeline::Options::default().layer),
        Some(milliseconds @ 1..=60_000) => Ok(Duration::from_millis(milliseconds)),
        Some(other) => bail!("batchTimeMs is {other}; 1 to 60000 are allowed"),
    }
}

/// `$XDG_STATE_HOME/chiton`, or `~/.local/state/chiton` (XDG Base Directory Specification).
fn default_data_dir() -> anyhow::Result<PathBuf> {
    let var = |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    var("XDG_STATE_HOME")
        .or_else(|| var("HOME").map(|home| home.join(".local/state")))
        .map(|state| state.join("chiton"))
        .context("no data folder: set HOME, or say --data-dir DIR")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn file(text: &str) -> anyhow::Result<Settings> {
        let file = tempfile::NamedTempFile::new()?;
        std::fs::write(file.path(), text)?;
        Settings::read(file.path())
    }

    #[test]
    fn flags_win_over_the_file() {
        let below =
            file("bindAddress: 127.0.0.1\nenvoy: none\nreconcilers: {enabled: [gateway]}").unwrap();
        let flags = Settings {
            envoy: Some(EnvoyMode::Managed),
            ..Settings::default()
        };
        let settings = flags.over(below);
        assert_eq!(settings.envoy, Some(EnvoyMode::Managed));
        assert_eq!(settings.bind_address, Some("127.0.0.1".parse().unwrap()));
        assert_eq!(
            settings.reconcilers.enabled,
            Some(vec!["gateway".to_owned()])
        );
    }

    #[test]
    fn an_unknown_setting_is_an_error_that_names_it() {
        let error = format!("{:#}", file("bindAddres: 127.0.0.1").unwrap_err());
        assert!(error.contains("bindAddres"), "{error}");
    }

    #[test]
    fn xds_is_off_by_default_beside_a_managed_envoy_only() {
        let manifests = tempfile::tempdir().unwrap();
        let settings = |envoy| Settings {
            manifests: Some(manifests.path().to_owned()),
            data_dir: Some("x".into()),
            envoy,
            ..Settings::default()
        };
        assert_eq!(settings(None).complete().unwrap().xds_address, None);
        let none = settings(Some(EnvoyMode::None)).complete().unwrap();
        assert_eq!(none.xds_address, Some(DEFAULT_XDS.parse().unwrap()));
    }
}
