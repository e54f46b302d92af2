//! The objects that files held, for files that are broken when the next host starts.
//!
//! Of Secrets there are names only.

use super::format::{self, Damage, Raw};
use crate::store::{Key, Object, Origin, Snapshot};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::path::Path;

#[derive(Serialize, Deserialize)]
pub(super) struct InputImage<'a> {
    path: &'a str,
    line: usize,
    group: &'a str,
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
    api_version: &'a str,
    labels: Vec<(&'a str, &'a str)>,
    #[serde(borrow)]
    body: Raw<'a>,
    problem: Option<&'a str>,
}

/// The objects that were read in files, in an order that does not depend on how they came.
pub(super) fn images(inputs: &Snapshot) -> Vec<InputImage<'_>> {
    let mut images: Vec<InputImage> = inputs.objects().filter_map(|it| image(it)).collect();
    images.sort_by(|a, b| a.place().cmp(&b.place()));
    images
}

fn image(object: &Object) -> Option<InputImage<'_>> {
    let origin = object.origin.as_ref()?;
    let key = &object.key;
    let image = InputImage {
        path: origin.path.to_str()?,
        line: origin.line,
        group: &key.group,
        kind: &key.kind,
        namespace: &key.namespace,
        name: &key.name,
        api_version: &object.api_version,
        labels: Vec::new(),
        body: Raw(Cow::Borrowed(&[])),
        problem: None,
    };
    if key.is("", "Secret") {
        return Some(image);
    }
    let labels = object.labels.iter();
    Some(InputImage {
        labels: labels
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect(),
        body: Raw(Cow::Borrowed(&object.body)),
        problem: object.problem.as_deref(),
        ..image
    })
}

impl InputImage<'_> {
    fn place(&self) -> impl Ord + use<'_> {
        let identity = [self.group, self.kind, self.namespace, self.name];
        (self.path, self.line, identity)
    }

    fn read(self) -> Object {
        Object {
            key: Key::new(self.group, self.kind, self.namespace, self.name),
            api_version: self.api_version.into(),
            labels: self.labels.into_iter().collect(),
            generation: 0,
            created: None,
            body: self.body.0.into(),
            problem: self.problem.map(str::to_owned),
            origin: Some(Origin {
                path: Path::new(self.path).into(),
                line: self.line,
            }),
        }
    }
}

/// The objects in a checkpoint, by file and line. A Secret has no content.
///
/// # Errors
/// See [`Damage`].
pub(super) fn decode(bytes: &[u8]) -> Result<Vec<Object>, Damage> {
    let image = format::image(bytes)?;
    Ok(image.inputs.into_iter().map(InputImage::read).collect())
}
