//! The measures, one a file.

mod change;
mod churn;
mod cold;
mod memory;
mod peers;
mod reconcile;
mod storm;
mod swap;

use crate::report::Row;
use clap::ValueEnum;

/// A measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Measure {
    /// One route changes while nothing else does.
    Change,
    /// The same while 30 others change a second.
    Churn,
    /// From the process's start until everything is acknowledged.
    Cold,
    /// Resident memory.
    Memory,
    /// One reconcile.
    Reconcile,
    /// 1,000 endpoint slices change in a second.
    Storm,
    /// A module is replaced under 10,000 objects.
    Swap,
    /// Envoy Gateway on the same routes; needs a network of its own.
    Peers,
}

impl Measure {
    /// What is taken unless something else is asked for, in the order of the table.
    pub const ALL: [Self; 7] = [
        Self::Change,
        Self::Churn,
        Self::Cold,
        Self::Memory,
        Self::Reconcile,
        Self::Storm,
        Self::Swap,
    ];

    /// Its name on the command line and in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Change => "change",
            Self::Churn => "churn",
            Self::Cold => "cold",
            Self::Memory => "memory",
            Self::Reconcile => "reconcile",
            Self::Storm => "storm",
            Self::Swap => "swap",
            Self::Peers => "peers",
        }
    }

    /// Takes it.
    pub async fn run(self, scope: &Scope) -> anyhow::Result<Vec<Row>> {
        match self {
            Self::Change => change::run(scope).await,
            Self::Churn => churn::run(scope).await,
            Self::Cold => cold::run(scope).await,
            Self::Memory => memory::run(scope).await,
            Self::Reconcile => reconcile::run(scope),
            Self::Storm => storm::run(scope).await,
            Self::Swap => swap::run(scope).await,
            Self::Peers => peers::run(scope).await,
        }
    }
}

/// How much is measured.
#[derive(Clone, Debug)]
pub struct Scope {
    /// Numbers of routes; none: what the measure is for.
    pub sizes: Vec<usize>,
    /// Fewer runs and the smallest size.
    pub quick: bool,
}

impl Scope {
    /// The sizes that were asked for, else the usual ones.
    pub fn sizes(&self, usual: &[usize]) -> Vec<usize> {
        if !self.sizes.is_empty() {
            return self.sizes.clone();
        }
        let few = if self.quick { 1 } else { usual.len() };
        usual.iter().take(few).copied().collect()
    }

    /// Runs, or a tenth of them for a quick look.
    pub fn runs(&self, usual: usize) -> usize {
        if self.quick {
            (usual / 10).max(2)
        } else {
            usual
        }
    }
}
