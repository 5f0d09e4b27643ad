//! The stored form of a catalogue: an index, and blocks of definitions.

use context_guard_catalogue::Index;
use context_guard_catalogue::document::Json;
use context_guard_catalogue::score::Usage;
use context_guard_catalogue::tool::Tool;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use super::{CatalogueRequest, CatalogueStep};
use crate::encoding::Stored;
use crate::snapshot::stored::{Entry, Loaded};

/// The number of definitions in a stored block.
pub(super) const BLOCK_TOOLS: usize = 64;

/// Definitions of consecutive tools.
#[derive(Serialize, Deserialize)]
pub(super) struct DefinitionBlock {
    pub(super) definitions: Vec<String>,
    /// The call statistics of the same tools.
    pub(super) usage: Vec<Usage>,
}

impl Stored for DefinitionBlock {
    const FORMAT: &'static [u8; 4] = b"cgd2";
}

/// The header of a stored index.
#[derive(Clone, Copy)]
struct IndexStamp {
    /// A digest of all definitions.
    digest: u64,
    /// The time at which the list was compiled, in milliseconds since 1970.
    compiled_ms: u64,
}

impl IndexStamp {
    const BYTES: usize = 16;

    fn to_bytes(self) -> [u8; Self::BYTES] {
        let both = u128::from(self.digest) | (u128::from(self.compiled_ms) << 64);
        both.to_le_bytes()
    }

    /// Splits a stored index into its stamp and the index itself. `None` if it is too short.
    fn split(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (stamp, index) = bytes.split_first_chunk::<{ Self::BYTES }>()?;
        let both = u128::from_le_bytes(*stamp);
        let low = |value: u128| u64::try_from(value & u128::from(u64::MAX)).unwrap_or_default();
        Some((Self { digest: low(both), compiled_ms: low(both >> 64) }, index))
    }

    /// Returns the store name of the block of definitions with this number.
    fn block(self, number: usize) -> String {
        format!("{:016x}.{number}", self.digest)
    }
}

/// Reads the stored entries of a catalogue. Methods fail with the step that must come first.
pub(super) struct CatalogueReader<'a> {
    request: &'a CatalogueRequest<'a>,
    settings: u128,
    loaded: &'a Loaded,
}

impl<'a> CatalogueReader<'a> {
    pub(super) fn new(request: &'a CatalogueRequest<'a>, loaded: &'a Loaded) -> Self {
        Self { request, settings: request.settings_hash(), loaded }
    }

    /// Returns the bytes of the index, without its stamp.
    pub(super) fn index_bytes(&self) -> Result<&'a [u8], CatalogueStep> {
        Ok(self.index()?.1)
    }

    fn index(&self) -> Result<(IndexStamp, &'a [u8]), CatalogueStep> {
        let stored = IndexStamp::split(self.entry("index")?);
        let is_current = |stamp: &IndexStamp| {
            self.request.now_ms.saturating_sub(stamp.compiled_ms) < self.request.max_age_ms
        };
        stored.filter(|(stamp, _)| is_current(stamp)).ok_or(CatalogueStep::Compile)
    }

    /// Returns the definitions of the tools with these numbers, in the order of `tools`.
    pub(super) fn definitions(&self, tools: &[u32]) -> Result<Vec<String>, CatalogueStep> {
        let tools = self.tools(tools)?;
        Ok(tools.into_iter().map(|(definition, _)| definition).collect())
    }

    /// Returns the definitions and call statistics of the tools with these numbers, in the order of
    /// `tools`.
    pub(super) fn tools(&self, tools: &[u32]) -> Result<Vec<(String, Usage)>, CatalogueStep> {
        let (stamp, _) = self.index()?;
        let mut missing = Vec::new();
        let mut found = Vec::new();
        for tool in tools {
            let block = *tool as usize / BLOCK_TOOLS;
            match self.entry(&stamp.block(block)) {
                Ok(bytes) => {
                    let block = DefinitionBlock::from_bytes(bytes);
                    let mut block = block.ok_or(CatalogueStep::Compile)?;
                    let at = *tool as usize % BLOCK_TOOLS;
                    if at >= block.definitions.len() {
                        return Err(CatalogueStep::Compile);
                    }
                    let usage = block.usage.get(at).copied().unwrap_or_default();
                    found.push((block.definitions.swap_remove(at), usage));
                }
                Err(CatalogueStep::Load(keys)) => {
                    for key in keys {
                        if !missing.contains(&key) {
                            missing.push(key);
                        }
                    }
                }
                Err(step) => return Err(step),
            }
        }
        if missing.is_empty() { Ok(found) } else { Err(CatalogueStep::Load(missing)) }
    }

    fn entry(&self, part: &str) -> Result<&'a [u8], CatalogueStep> {
        let request = self.request;
        let keys = request.keys.catalogue(request.version, self.settings, part);
        if let Some(found) = keys.iter().find_map(|key| self.loaded.get(key)?.as_deref()) {
            return Ok(found);
        }
        let missing: Vec<String> =
            keys.into_iter().filter(|key| !self.loaded.contains_key(key)).collect();
        if missing.is_empty() {
            Err(CatalogueStep::Compile)
        } else {
            Err(CatalogueStep::Load(missing))
        }
    }
}

impl CatalogueRequest<'_> {
    /// Returns a hash of the settings on which the stored form depends.
    fn settings_hash(&self) -> u128 {
        let settings = serde_json::to_vec(self.policy).unwrap_or_default();
        xxhash_rust::xxh3::xxh3_128(&settings)
    }

    /// Returns the entries to store. The names of definition blocks contain the digest of all
    /// definitions, and so does the index. An index is therefore never read with the blocks of
    /// another list.
    pub(super) fn entries(&self, index: Vec<u8>, tools: &[Tool<'_>]) -> Vec<Entry<'static>> {
        let settings = self.settings_hash();
        let mut hash = Xxh3::new();
        for tool in tools {
            hash.update(tool.definition.as_bytes());
        }
        let stamp = IndexStamp { digest: hash.digest(), compiled_ms: self.now_ms };
        let index = [stamp.to_bytes().as_slice(), &index].concat();
        let key = |part: &str| {
            self.keys.catalogue(self.version, settings, part).into_iter().next().unwrap_or_default()
        };
        let mut entries = vec![Entry { key: key("index"), value: index.into() }];
        for (part, tools) in tools.chunks(BLOCK_TOOLS).enumerate() {
            let block = DefinitionBlock {
                definitions: tools.iter().map(|tool| tool.definition.to_owned()).collect(),
                usage: tools.iter().map(|tool| tool.usage).collect(),
            };
            let key = key(&stamp.block(part));
            entries.push(Entry { key, value: block.to_bytes().into() });
        }
        entries
    }
}

/// Returns tool `number` of the index with its definition. `None` if there is no such tool, or if
/// the definition cannot be parsed.
pub(super) fn tool<'t>(index: &Index<'t>, number: u32, definition: &'t str) -> Option<Tool<'t>> {
    let indexed = index.tool(number)?;
    Some(Tool {
        server: indexed.server,
        wire_name: indexed.wire_name,
        name: indexed.name.to_owned(),
        category: indexed.category,
        definition,
        document: Json::parse(definition)?,
        read_only: indexed.read_only,
        usage: Usage::default(),
    })
}
