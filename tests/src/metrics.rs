//! Metrics of a host, as a test reads them.

use crate::Host;
use std::collections::BTreeMap;

/// All samples of one moment.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    samples: Vec<Sample>,
    text: String,
}

#[derive(Clone, Debug)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: u64,
}

impl Metrics {
    /// The metrics of a host, now.
    pub async fn of(host: &Host) -> anyhow::Result<Self> {
        let answer = host.admin("/metrics").await?;
        anyhow::ensure!(answer.status == 200, "{answer:?}");
        Ok(Self::parse(&String::from_utf8_lossy(&answer.body)))
    }

    /// Metrics from their text.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        Self {
            samples: text.lines().filter_map(sample).collect(),
            text: text.to_owned(),
        }
    }

    /// The sum of the samples of this name that have these labels, whatever else they have. What is no
    /// whole number does not count.
    #[must_use]
    pub fn count(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        self.with(name, labels).map(|sample| sample.value).sum()
    }

    /// Whether there is a sample of this name with these labels.
    #[must_use]
    pub fn has(&self, name: &str, labels: &[(&str, &str)]) -> bool {
        self.with(name, labels).next().is_some()
    }

    /// The text that they were read from.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    fn with<'a>(
        &'a self,
        name: &'a str,
        labels: &'a [(&str, &str)],
    ) -> impl Iterator<Item = &'a Sample> {
        self.samples.iter().filter(move |sample| {
            let has = |(label, value): &(&str, &str)| {
                sample
                    .labels
                    .get(*label)
                    .is_some_and(|found| found == value)
            };
            sample.name == name && labels.iter().all(has)
        })
    }
}

/// `name{label="value",...} number`; values of labels in these tests hold no comma and no quote.
fn sample(line: &str) -> Option<Sample> {
    if line.starts_with('#') {
        return None;
    }
    let (series, value) = line.rsplit_once(' ')?;
    let (name, labels) = match series.split_once('{') {
        Some((name, labels)) => (name, labels.strip_suffix('}')?),
        None => (series, ""),
    };
    let labels = labels
        .split(',')
        .filter_map(|label| {
            let (name, value) = label.split_once('=')?;
            Some((name.to_owned(), value.trim_matches('"').to_owned()))
        })
        .collect();
    Some(Sample {
        name: name.to_owned(),
        labels,
        value: value.parse().unwrap_or_default(),
    })
}
