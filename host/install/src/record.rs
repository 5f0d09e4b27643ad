//! The record of an edit, which undo needs.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The edit of one server: the literals before and after, as in the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerRecord {
    /// The path of the member that contains the server.
    pub container: Vec<String>,
    /// The name of the server.
    pub name: String,
    /// The literal of the command before the edit.
    pub command: String,
    /// The literal of the command after the edit.
    pub wrapped_command: String,
    /// The literal of the arguments before the edit. `None` if there were none.
    pub args: Option<String>,
    /// The literal of the arguments after the edit.
    pub wrapped_args: String,
    /// The text that the edit inserted for new arguments, including the separator from the command.
    /// `None` if the server had arguments.
    pub inserted: Option<String>,
}

/// A server that an endpoint replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RemovedServer {
    /// The path of the member that contained the server.
    pub container: Vec<String>,
    /// The name of the server.
    pub name: String,
    /// The text of the server: a value in JSON, or tables in TOML.
    pub text: String,
}

/// One edit of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The name of the client on the command line.
    pub client: String,
    /// The path of the file.
    pub path: String,
    /// The time of the edit, in seconds since 1970.
    pub seconds: u64,
    /// The SHA-256 digest of the file before the edit.
    pub before: String,
    /// The SHA-256 digest of the file after the edit.
    pub after: String,
    /// The file name of the backup in the folder of the record.
    pub backup: String,
    /// The servers that were wrapped.
    #[serde(default)]
    pub servers: Vec<ServerRecord>,
    /// The servers that an endpoint replaced.
    #[serde(default)]
    pub removed: Vec<RemovedServer>,
    /// The container and name of the endpoint. `None` if the edit added no endpoint.
    #[serde(default)]
    pub added: Option<(Vec<String>, String)>,
    /// True if the edit was undone, but not byte for byte. Its backup remains for the user.
    #[serde(default)]
    pub is_undone: bool,
}

/// A record of an edit, with the contents of its backup.
#[derive(Clone, Debug)]
pub struct Step {
    /// The record of the edit.
    pub record: Record,
    /// The contents of the file before the edit. `None` if the backup cannot be read.
    pub backup: Option<Vec<u8>>,
}

/// Returns the SHA-256 digest of `bytes`, in hexadecimal.
pub(crate) fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
