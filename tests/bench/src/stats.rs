//! Medians and percentiles.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What is said of several runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Runs.
    pub runs: usize,
    /// The value in the middle.
    pub median: f64,
    /// The value that 99 of 100 do not exceed: the largest, where there are fewer than 100.
    pub p99: f64,
}

impl Summary {
    /// Of values in any order; none if there is no value.
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        Some(Self {
            runs: values.len(),
            median: rank(&values, 50)?,
            p99: rank(&values, 99)?,
        })
    }

    /// Of durations, in seconds.
    pub fn seconds(values: &[Duration]) -> Option<Self> {
        Self::of(values.iter().map(Duration::as_secs_f64).collect())
    }
}

/// The nearest rank: the smallest value that `percent` of the values do not exceed.
fn rank(sorted: &[f64], percent: usize) -> Option<f64> {
    let place = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(place - 1).copied()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::float_cmp)]
    use super::*;

    fn of(values: impl Iterator<Item = u32>) -> Summary {
        Summary::of(values.map(f64::from).collect()).unwrap()
    }

    #[test]
    fn ranks_are_the_nearest() {
        let summary = of((1..=200).rev());
        assert_eq!((summary.median, summary.p99), (100.0, 198.0));
        let summary = of(1..=3);
        assert_eq!((summary.median, summary.p99), (2.0, 3.0));
        let summary = of(7..=7);
        assert_eq!((summary.median, summary.p99), (7.0, 7.0));
        assert_eq!(Summary::of(vec![]), None);
    }
}
