//! The bytes of a checkpoint.
//!
//! ```text
//! "chiton checkpoint\n"   format (u32, little endian)   image (bincode)   SHA-256 of all before
//! ```
//!
//! The same state gives the same bytes: everything is sorted, and nothing of it depends on time.

use super::inputs::{self, InputImage};
use crate::pipeline::{Reconciled, Saved, World};
use crate::store::Key;
use crate::synchronizer::envoy::holds_secrets;
use crate::synchronizer::holding::AcceptedForms;
use chiton_xds::{Resource, ResourceName, ResourceType};
use memchr::memmem::Finder;
use serde::de::{Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

const MAGIC: &[u8; 18] = b"chiton checkpoint\n";
const HEADER: usize = MAGIC.len() + size_of::<u32>();
const CHECKSUM: usize = 32;

/// The format that is written, and the only one that is read. Any change of the structures below, of
/// [`ResourceType`] included, is another format.
pub const FORMAT: u32 = 2;

/// What a checkpoint holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// What was served, by fleet.
    pub fleets: BTreeMap<String, Fleet>,
    /// The newest good results of objects, sorted by object.
    pub results: Vec<(Key, Saved)>,
    /// The objects that were held, with the forms that proxies accepted last.
    pub accepted: AcceptedForms,
}

/// What a fleet was served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fleet {
    /// Resources, sorted by name.
    pub resources: Vec<Resource>,
    /// Names and versions of the others, which hold secrets. The version of what holds API keys is
    /// empty: it could serve to guess a short key.
    pub withheld: Vec<(ResourceName, String)>,
}

impl Fleet {
    /// What a proxy that has nothing can be served: a listener or cluster that names something that is
    /// withheld would wait for it, and with it everything else that a proxy starts with.
    #[must_use]
    pub fn servable(self) -> Vec<Resource> {
        let missing: Vec<Vec<u8>> = self
            .withheld
            .iter()
            .map(|(name, _)| encoded(&name.name))
            .collect();
        let missing: Vec<_> = missing.iter().map(Finder::new).collect();
        let mut resources = self.resources;
        resources.retain(|resource| {
            let waits = matches!(
                resource.name.kind,
                ResourceType::Listener | ResourceType::Cluster
            );
            !waits
                || missing
                    .iter()
                    .all(|name| name.find(&resource.body).is_none())
        });
        resources
    }
}

/// A name as it stands in a message.
fn encoded(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    prost::encoding::encode_varint(name.len() as u64, &mut bytes);
    bytes.extend_from_slice(name.as_bytes());
    bytes
}

/// Why bytes are no checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// It does not begin as one.
    #[error("it is not a checkpoint")]
    Foreign,
    /// Another version of this program wrote it.
    #[error("it has format {0}, and this version of Chiton reads format {FORMAT} only")]
    Format(u32),
    /// It is not what was written.
    #[error("it is damaged or incomplete: its checksum is wrong")]
    Checksum,
    /// It was written like this.
    #[error("it cannot be decoded: {0}")]
    Content(String),
}

#[derive(Serialize, Deserialize)]
pub(super) struct Image<'a> {
    #[serde(borrow)]
    fleets: Vec<FleetImage<'a>>,
    #[serde(borrow)]
    results: Vec<ResultImage<'a>>,
    accepted: Cow<'a, AcceptedForms>,
    #[serde(borrow)]
    pub inputs: Vec<InputImage<'a>>,
}

#[derive(Serialize, Deserialize)]
struct FleetImage<'a> {
    name: &'a str,
    #[serde(borrow)]
    resources: Vec<ResourceImage<'a>>,
    #[serde(borrow)]
    withheld: Vec<WithheldImage<'a>>,
}

#[derive(Serialize, Deserialize)]
struct ResourceImage<'a> {
    kind: ResourceType,
    name: &'a str,
    body: Raw<'a>,
}

#[derive(Serialize, Deserialize)]
struct WithheldImage<'a> {
    kind: ResourceType,
    name: &'a str,
    version: &'a str,
}

#[derive(Serialize, Deserialize)]
struct ResultImage<'a> {
    group: &'a str,
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
    module: &'a str,
    generation: i64,
    /// JSON: optional fields are left out of it, which bincode cannot do.
    #[serde(borrow)]
    conditions: Raw<'a>,
    #[serde(borrow)]
    documents: Vec<(&'a str, Raw<'a>)>,
}

/// Bytes that are copied at once, not one by one as a `Vec<u8>` is.
pub(super) struct Raw<'a>(pub Cow<'a, [u8]>);

impl Serialize for Raw<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Raw<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl<'de> Visitor<'de> for Bytes {
            type Value = &'de [u8];
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("bytes")
            }
            fn visit_borrowed_bytes<E>(self, bytes: &'de [u8]) -> Result<&'de [u8], E> {
                Ok(bytes)
            }
        }
        let bytes = deserializer.deserialize_bytes(Bytes)?;
        Ok(Self(Cow::Borrowed(bytes)))
    }
}

/// What a checkpoint is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct State<'a> {
    /// What is served, by fleet; of each sorted by name.
    pub served: &'a BTreeMap<String, Vec<Resource>>,
    /// The world that it was assembled from.
    pub world: &'a World,
    /// [`Checkpoint::accepted`].
    pub accepted: &'a AcceptedForms,
}

/// Writes a checkpoint.
pub(super) fn encode(state: State, out: impl Write) -> io::Result<()> {
    let image = Image {
        fleets: state
            .served
            .iter()
            .map(|(name, resources)| fleet(name, resources))
            .collect(),
        results: state
            .world
            .good()
            .map(|(key, result)| self::result(key, result))
            .collect::<io::Result<_>>()?,
        accepted: Cow::Borrowed(state.accepted),
        inputs: inputs::images(&state.world.inputs),
    };
    let mut out = Summed::new(out);
    out.write_all(MAGIC)?;
    out.write_all(&FORMAT.to_le_bytes())?;
    bincode::serde::encode_into_std_write(image, &mut out, bincode::config::standard())
        .map_err(io::Error::other)?;
    out.finish()
}

fn fleet<'a>(name: &'a str, resources: &'a [Resource]) -> FleetImage<'a> {
    let (withheld, resources): (Vec<_>, Vec<_>) =
        resources.iter().partition(|it| holds_secrets(it));
    FleetImage {
        name,
        resources: resources
            .into_iter()
            .map(|resource| ResourceImage {
                kind: resource.name.kind,
                name: &resource.name.name,
                body: Raw(Cow::Borrowed(&resource.body)),
            })
            .collect(),
        withheld: withheld
            .into_iter()
            .map(|resource| WithheldImage {
                kind: resource.name.kind,
                name: &resource.name.name,
                version: match resource.name.kind {
                    ResourceType::Secret => &resource.version,
                    _ => "",
                },
            })
            .collect(),
    }
}

fn result<'a>(key: &'a Key, result: &'a Reconciled) -> io::Result<ResultImage<'a>> {
    Ok(ResultImage {
        group: &key.group,
        kind: &key.kind,
        namespace: &key.namespace,
        name: &key.name,
        module: &result.module,
        generation: result.generation,
        conditions: Raw(Cow::Owned(serde_json::to_vec(&*result.conditions)?)),
        documents: result
            .documents
            .json
            .iter()
            .map(|(name, body)| (name.as_str(), Raw(Cow::Borrowed(body))))
            .collect(),
    })
}

/// Reads a checkpoint.
///
/// # Errors
/// See [`Damage`].
pub(super) fn decode(bytes: &[u8]) -> Result<Checkpoint, Damage> {
    let image = image(bytes)?;
    let fleets = image.fleets.into_iter().map(FleetImage::read).collect();
    let results = image.results.into_iter().map(ResultImage::read);
    Ok(Checkpoint {
        fleets,
        results: results
            .collect::<Result<_, _>>()
            .map_err(|error| Damage::Content(error.to_string()))?,
        accepted: image.accepted.into_owned(),
    })
}

/// What is in a checkpoint, not copied.
pub(super) fn image(bytes: &[u8]) -> Result<Image<'_>, Damage> {
    let rest = bytes.strip_prefix(MAGIC).ok_or(Damage::Foreign)?;
    let (format, _) = rest.split_first_chunk().ok_or(Damage::Checksum)?;
    let format = u32::from_le_bytes(*format);
    if format != FORMAT {
        return Err(Damage::Format(format));
    }
    let (content, checksum) = bytes
        .split_last_chunk::<CHECKSUM>()
        .ok_or(Damage::Checksum)?;
    if content.len() < HEADER || Sha256::digest(content)[..] != *checksum {
        return Err(Damage::Checksum);
    }
    let image = content.get(HEADER..).unwrap_or_default();
    let (image, read): (Image, usize) =
        bincode::serde::borrow_decode_from_slice(image, bincode::config::standard())
            .map_err(|error| Damage::Content(error.to_string()))?;
    if HEADER + read != content.len() {
        return Err(Damage::Content("there is more than one".to_owned()));
    }
    Ok(image)
}

impl FleetImage<'_> {
    fn read(self) -> (String, Fleet) {
        let resources = self.resources.into_iter().map(|it| {
            // The version is the body's hash.
            Resource::new(it.kind, it.name, it.body.0.into_owned())
        });
        let withheld = self
            .withheld
            .into_iter()
            .map(|it| (ResourceName::new(it.kind, it.name), it.version.to_owned()));
        let fleet = Fleet {
            resources: resources.collect(),
            withheld: withheld.collect(),
        };
        (self.name.to_owned(), fleet)
    }
}

impl ResultImage<'_> {
    fn read(self) -> serde_json::Result<(Key, Saved)> {
        let documents = self
            .documents
            .into_iter()
            .map(|(name, body)| (name.to_owned(), Arc::from(&*body.0)));
        let saved = Saved {
            module: self.module.to_owned(),
            generation: self.generation,
            conditions: serde_json::from_slice(&self.conditions.0)?,
            documents: documents.collect(),
        };
        let key = Key::new(self.group, self.kind, self.namespace, self.name);
        Ok((key, saved))
    }
}

/// Sums up what is written.
struct Summed<W> {
    out: W,
    digest: Sha256,
}

impl<W: Write> Summed<W> {
    fn new(out: W) -> Self {
        Self {
            out,
            digest: Sha256::new(),
        }
    }

    /// Writes the sum.
    fn finish(mut self) -> io::Result<()> {
        self.out.write_all(&self.digest.finalize())
    }
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.digest.update(bytes.get(..written).unwrap_or_default());
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
