//! The clients that see the same lists.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::client::Client;
use crate::protocol_mode::ProtocolMode;

/// The clients that see the same lists of an upstream: those with the same owner of stored answers,
/// description of the client software, and protocol mode.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Audience {
    server: usize,
    owner: Arc<str>,
    client_info: u64,
    mode: ProtocolMode,
}

impl Audience {
    /// Returns the audience to which a client of the upstream at index `server` belongs.
    pub(super) fn of_client(client: &Client, server: usize) -> Self {
        let mut hasher = DefaultHasher::new();
        client.info.hash(&mut hasher);
        let owner = Arc::clone(&client.scope);
        Self { server, owner, client_info: hasher.finish(), mode: client.mode }
    }

    /// Returns the index of the upstream.
    pub(super) fn server(&self) -> usize {
        self.server
    }

    /// Returns the owner of stored answers.
    pub(super) fn owner(&self) -> &Arc<str> {
        &self.owner
    }
}
