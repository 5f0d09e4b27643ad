//! The stored form of a catalogue: an index, and blocks of definitions.

use context_guard_catalogue::Index;
use context_guard_catalogue::document::Json;
use context_guard_catalogue::score::Usage;
use context_guard_catalogue::tool::Tool;
use serde::{Deserialize, Serialize};

use super::{CatalogueRequest, CatalogueStep};
use crate::encoding::Stored;
use crate::snapshot::stored::{Entry, Loaded};

/// The number of definitions in a stored block.
pub(super) const BLOCK_TOOLS: usize = 64;

/// Definitions of consecutive tools.
#[derive(Serialize, Deserialize)]
pub(super) struct DefinitionBlock {
    pub(super) definitions: Vec<String>,
    /// The recorded calls of the same tools.
    pub(super) usage: Vec<Usage>,
}

impl Stored for DefinitionBlock {
    const FORMAT: &'static [u8; 4] = b"cgd2";
}

/// Reads the entries of a catalogue.
pub(super) struct CatalogueReader<'a> {
    request: &'a CatalogueRequest<'a>,
    settings: u128,
    loaded: &'a Loaded,
}

impl<'a> CatalogueReader<'a> {
    pub(super) fn new(request: &'a CatalogueRequest<'a>, loaded: &'a Loaded) -> Self {
        Self { request, settings: request.settings_hash(), loaded }
    }

    /// Returns the bytes of the index.
    pub(super) fn index_bytes(&self) -> Result<&'a [u8], CatalogueStep> {
        self.entry("index")
    }

    /// Returns the definitions of tools, in the order of `tools`.
    pub(super) fn definitions(&self, tools: &[u32]) -> Result<Vec<String>, CatalogueStep> {
        let tools = self.tools(tools)?;
        Ok(tools.into_iter().map(|(definition, _)| definition).collect())
    }

    /// Returns the definitions and recorded calls of tools, in the order of `tools`.
    pub(super) fn tools(&self, tools: &[u32]) -> Result<Vec<(String, Usage)>, CatalogueStep> {
        let mut missing = Vec::new();
        let mut found = Vec::new();
        for tool in tools {
            let block = *tool as usize / BLOCK_TOOLS;
            match self.entry(&block.to_string()) {
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

    /// Returns the keys of all parts of a stored catalogue, for all signing keys. `parts` is the
    /// number of entries.
    #[must_use]
    pub fn keys_of_parts(&self, parts: usize) -> Vec<String> {
        let settings = self.settings_hash();
        let blocks = (0..parts.saturating_sub(1)).map(|part| part.to_string());
        let names = std::iter::once("index".to_owned()).chain(blocks);
        names.flat_map(|part| self.keys.catalogue(self.version, settings, &part)).collect()
    }

    /// Returns the entries to store.
    pub(super) fn entries(&self, index: Vec<u8>, tools: &[Tool<'_>]) -> Vec<Entry<'static>> {
        let settings = self.settings_hash();
        let key = |part: &str| {
            self.keys.catalogue(self.version, settings, part).into_iter().next().unwrap_or_default()
        };
        let mut entries = vec![Entry { key: key("index"), value: index.into() }];
        for (part, tools) in tools.chunks(BLOCK_TOOLS).enumerate() {
            let block = DefinitionBlock {
                definitions: tools.iter().map(|tool| tool.definition.to_owned()).collect(),
                usage: tools.iter().map(|tool| tool.usage).collect(),
            };
            let key = key(&part.to_string());
            entries.push(Entry { key, value: block.to_bytes().into() });
        }
        entries
    }
}

/// Returns a tool of the index with its definition.
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
