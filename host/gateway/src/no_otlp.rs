//! Replaces the OTLP export in builds without the cargo feature `otlp`.

use std::sync::Arc;

use crate::config::OtlpSettings;
use crate::telemetry::Recorder;
use crate::{Error, Result};

/// The OTLP export, which this build lacks.
#[cfg(not(feature = "otlp"))]
pub struct OtlpExport;

impl OtlpExport {
    /// Refuses a configured endpoint, because the export needs a build with the feature `otlp`.
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

    /// Does nothing, because there is no export.
    pub async fn finish(&self) {}
}
