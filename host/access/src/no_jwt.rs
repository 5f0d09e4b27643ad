//! Replaces the module `jwt` in a build without the cargo feature `jwt`.

use std::path::Path;
use std::sync::Arc;

use super::Refusal;
use crate::config::Jwt as Config;
use crate::{HttpClient, Result};

/// The JWT verifier of builds without the cargo feature `jwt`. It cannot be created, because `new`
/// always fails.
#[cfg(not(feature = "jwt"))]
pub(super) enum Jwt {}

impl Jwt {
    pub(super) fn new(_: &Config, _: &Path, _: HttpClient) -> Result<Self> {
        Err(crate::config::Error::Feature { setting: "access.jwt", feature: "jwt" }.into())
    }

    #[allow(clippy::unused_async, reason = "the signature of the other implementation")]
    pub(super) async fn refresh(&self) {
        match *self {}
    }

    #[allow(clippy::unused_async, reason = "the signature of the other implementation")]
    pub(super) async fn check(&self, _: &str) -> Result<Arc<str>, Refusal> {
        match *self {}
    }
}
