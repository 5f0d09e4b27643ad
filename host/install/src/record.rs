//! The record of an edit, which undo needs.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The edit of one server: the literals before and after, as they are in the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerRecord {
    /// The path of the member that holds the server.
    pub container: Vec<String>,
    /// The name of the server.
    pub name: String,
    /// The literal of the command before.
    pub command: String,
    /// The literal of the command after.
    pub wrapped_command: String,
    /// The literal of the arguments before. `None` if there were none.
    pub args: Option<String>,
    /// The literal of the arguments after.
    pub wrapped_args: String,
    /// The text that added the arguments, with what separates it from the command.
    pub inserted: Option<String>,
}

/// A server that an endpoint replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RemovedServer {
    /// The path of the member that held the server.
    pub container: Vec<String>,
    /// The name of the server.
    pub name: String,
    /// The text of the server: a value in JSON, tables in TOML.
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
    /// The SHA-256 of the file before.
    pub before: String,
    /// The SHA-256 of the file after.
    pub after: String,
    /// The name of the backup in the folder of the record.
    pub backup: String,
    /// The servers that were wrapped.
    #[serde(default)]
    pub servers: Vec<ServerRecord>,
    /// The servers that an endpoint replaced.
    #[serde(default)]
    pub removed: Vec<RemovedServer>,
    /// The container and name of the endpoint.
    #[serde(default)]
    pub added: Option<(Vec<String>, String)>,
}

/// A record and the bytes of its backup, `None` if the backup cannot be read.
#[derive(Clone, Debug)]
pub struct Step {
    /// The record of the edit.
    pub record: Record,
    /// The file before the edit.
    pub backup: Option<Vec<u8>>,
}

/// Returns the SHA-256 of `bytes` in hexadecimal digits.
pub(crate) fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
