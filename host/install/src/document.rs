//! A parsed configuration of a client.

use crate::client::Client;
use crate::tree::{self, Node, Syntax, Value};
use crate::{Error, Result};

const BYTE_ORDER_MARK: &str = "\u{feff}";

/// A parsed configuration of a client, with the position of each value.
#[derive(Clone, Debug)]
pub struct Document {
    pub(crate) client: Client,
    pub(crate) has_mark: bool,
    pub(crate) text: String,
    pub(crate) root: Node,
}

impl Document {
    /// Parses the bytes of a client's configuration.
    ///
    /// # Errors
    /// [`Error::Format`] if the file is not UTF-8, is invalid, or has no object at its root. The
    /// client could not read it either. A syntax error has its line and column.
    pub fn parse(client: Client, bytes: &[u8]) -> Result<Self> {
        let text = std::str::from_utf8(bytes).map_err(|error| {
            Error::Format(format!("byte {} is not UTF-8: save it as UTF-8", error.valid_up_to()))
        })?;
        let (has_mark, text) = match text.strip_prefix(BYTE_ORDER_MARK) {
            Some(text) => (true, text),
            None => (false, text),
        };
        let root = tree::parse(client.syntax(), text)?;
        if !matches!(root.value, Value::Table(_) | Value::Null) {
            return Err(Error::Format("expected an object at the root of the file".to_owned()));
        }
        Ok(Self { client, has_mark, text: text.to_owned(), root })
    }

    /// Returns true if a file of settings may have servers, even if it cannot be parsed: it
    /// contains the names of the members in which the client's settings have them.
    #[must_use]
    pub fn may_have_servers(client: Client, bytes: &[u8]) -> bool {
        let text = String::from_utf8_lossy(bytes);
        let root = Node { span: 0..0, value: Value::Null };
        let has = |name: &String| text.contains(name.as_str());
        client.containers(&root).last().is_some_and(|container| container.iter().all(has))
    }

    /// Returns the client that reads the file.
    #[must_use]
    pub const fn client(&self) -> Client {
        self.client
    }

    /// Returns the line of a byte offset, counted from 1.
    #[must_use]
    pub fn line(&self, position: usize) -> usize {
        self.text.get(..position).unwrap_or_default().matches('\n').count() + 1
    }

    pub(crate) const fn syntax(&self) -> Syntax {
        self.client.syntax()
    }

    /// Returns the bytes of a file with this text. Keeps the byte-order mark of the original.
    pub(crate) fn bytes(&self, text: &str) -> Vec<u8> {
        let mark = if self.has_mark { BYTE_ORDER_MARK } else { "" };
        [mark, text].concat().into_bytes()
    }
}
