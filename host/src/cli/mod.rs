//! The command line.
//!
//! Exit codes: 0 all is well; 1 the answer is "no" (`validate` found problems, a host is not ready) or
//! the command failed, and says why on standard error; 2 the command line is wrong.

mod ask;
mod logging;
mod problems;
mod render;
mod serve;

use crate::config::Settings;
use crate::sandbox::compiler;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A Kubernetes gateway control plane whose reconcile logic is WebAssembly.
#[derive(Parser)]
#[command(name = "chiton", version)]
struct Command {
    #[command(subcommand)]
    command: Commands,
}

#[derive(Subcommand)]
enum Commands {
    /// Reconcile a folder of manifests and configure Envoy, until stopped
    Serve(Serve),
    /// Print the Envoy resources and conditions that a folder of manifests leads to
    Render(Render),
    /// Print what is wrong in a folder of manifests; exit with 1 if anything is
    Validate(Offline),
    /// Show the objects of a running host and their conditions
    Status(Ask),
    /// Show the modules of a running host
    Modules(Ask),
    /// Print a bootstrap for an Envoy that somebody else runs
    Bootstrap(Bootstrap),
    /// Compile the built-in reconcilers into a folder, as `chiton-compiled` beside the program to be
    /// part of a package: first starts are quick then
    Precompile(Precompile),
    /// Compile the component on standard input into a folder of compiled modules
    #[command(name = compiler::COMMAND, hide = true)]
    CompileModule(Precompile),
}

#[derive(Args)]
struct Precompile {
    /// The folder; it is made if it is not there
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

#[derive(Args)]
struct Serve {
    /// Configuration (YAML); flags win over it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    settings: Settings,
    /// How to write the log
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
}

/// How the log is written.
#[derive(Clone, Copy, ValueEnum)]
enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Commands that work on a folder alone.
#[derive(Args)]
struct Offline {
    /// Configuration (YAML); flags win over it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Args)]
struct Render {
    #[command(flatten)]
    offline: Offline,
    /// Format
    #[arg(short, long, value_enum, default_value_t = Format::Yaml)]
    output: Format,
}

/// A format of documents.
#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// YAML.
    Yaml,
    /// JSON.
    Json,
}

/// Commands that ask a running host.
#[derive(Args)]
struct Ask {
    /// Address of the host's admin server
    #[arg(long, value_name = "ADDR:PORT", default_value = crate::config::DEFAULT_ADMIN)]
    admin_address: SocketAddr,
    /// Format
    #[arg(short, long, value_enum, default_value_t = AskFormat::Table)]
    output: AskFormat,
}

/// A format of answers.
#[derive(Clone, Copy, ValueEnum)]
enum AskFormat {
    /// A table for people.
    Table,
    /// JSON, as the admin server gives it.
    Json,
}

#[derive(Args)]
struct Bootstrap {
    /// Where the xDS server is
    #[arg(long, value_name = "HOST:PORT", default_value = crate::config::DEFAULT_XDS)]
    xds_address: String,
    /// The fleet that the Envoy belongs to: `default` in file mode
    #[arg(long, default_value = "default")]
    cluster: String,
    /// Name of the Envoy, unique in its fleet
    #[arg(long, default_value = "envoy-1")]
    id: String,
}

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    let command = Command::parse().command;
    let result = match command {
        Commands::Serve(options) => serve::run(options),
        Commands::Render(options) => render::run(options),
        Commands::Validate(options) => render::validate(options),
        Commands::Status(options) => ask::status(&options),
        Commands::Modules(options) => ask::modules(&options),
        Commands::Bootstrap(options) => ask::bootstrap(&options),
        Commands::Precompile(options) => precompile(&options.folder),
        Commands::CompileModule(options) => compiler::run(&options.folder),
    };
    result.unwrap_or_else(|error| {
        eprintln!("chiton: {error:#}");
        ExitCode::FAILURE
    })
}

fn precompile(folder: &Path) -> anyhow::Result<ExitCode> {
    crate::modules::precompile(folder, crate::runtime::THIS_PROGRAM.into())?;
    Ok(ExitCode::SUCCESS)
}

/// The settings of a command, from its flags and its file.
fn settings(config: Option<&PathBuf>, flags: Settings) -> anyhow::Result<Settings> {
    let below = config
        .map(|path| Settings::read(path))
        .transpose()?
        .unwrap_or_default();
    Ok(flags.over(below))
}
