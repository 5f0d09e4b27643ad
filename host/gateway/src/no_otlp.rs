//! Takes the place of the export in builds without the cargo feature `otlp`.

use std::sync::Arc;

use crate::config::OtlpSettings;
use crate::telemetry::Recorder;
use crate::{Error, Result};

/// An export that does not exist.
#[cfg(not(feature = "otlp"))]
pub struct OtlpExport;

impl OtlpExport {
    /// Refuses the setting, which needs another build.
    ///
    /// # Errors
    /// [`Error::Setup`] if an endpoint is configured.
    pub fn start(settings: &OtlpSettings, _recorder: &Arc<Recorder>) -> Result<Option<Self>> {
        match settings.endpoint {
            Some(_) => Err(Error::Setup(
                "telemetry.otlp is not supported by this build: build context-guard with the \
                 cargo feature `otlp`, or use the released program"
                    .to_owned(),
            )),
            None => Ok(None),
        }
    }

    /// Does nothing.
    pub async fn finish(&self) {}
}
