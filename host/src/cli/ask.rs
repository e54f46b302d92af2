//! Commands that ask a running host.

use super::{Ask, AskFormat, Bootstrap};
use crate::modules::ModuleInfo;
use crate::status::ObjectStatus;
use crate::status::table::{modules_table, table};
use anyhow::{Context as _, bail};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde::de::DeserializeOwned;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

/// How long a host may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn status(options: &Ask) -> anyhow::Result<ExitCode> {
    let body = get(options.admin_address, "/api/v1/objects")?;
    print(options, &body, |objects: Vec<ObjectStatus>| table(&objects))
}

pub(super) fn modules(options: &Ask) -> anyhow::Result<ExitCode> {
    let body = get(options.admin_address, "/api/v1/modules")?;
    print(options, &body, |modules: Vec<ModuleInfo>| {
        modules_table(&modules)
    })
}

pub(super) fn bootstrap(options: &Bootstrap) -> anyhow::Result<ExitCode> {
    let text = crate::envoy::bootstrap(&options.xds_address, &options.cluster, &options.id)?;
    print!("{text}");
    Ok(ExitCode::SUCCESS)
}

fn print<T: DeserializeOwned>(
    options: &Ask,
    body: &[u8],
    table: impl Fn(T) -> String,
) -> anyhow::Result<ExitCode> {
    match options.output {
        AskFormat::Json => print!("{}", String::from_utf8_lossy(body)),
        AskFormat::Table => {
            let value = serde_json::from_slice(body)
                .context("the host's answer cannot be read; is it another version of chiton?")?;
            print!("{}", table(value));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// GETs from the admin server of a running host.
fn get(address: SocketAddr, path: &str) -> anyhow::Result<Bytes> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
        let uri = format!("http://{address}{path}").parse()?;
        let response = tokio::time::timeout(PATIENCE, client.get(uri))
            .await
            .with_context(|| format!("the host at {address} did not answer in {PATIENCE:?}"))?
            .with_context(|| {
                format!("no host answers at {address}; is `chiton serve` running there? (--admin-address)")
            })?;
        if !response.status().is_success() {
            bail!("the host at {address} answered {} to {path}", response.status());
        }
        Ok(response.into_body().collect().await?.to_bytes())
    })
}
