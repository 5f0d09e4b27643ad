//! The recorder of a gateway, with its audit log, alerts and history.

use std::sync::Arc;

use crate::config::{Config, alert_rules};
use crate::filter::Filter;
use crate::telemetry::{AuditLog, Recorder};
use crate::{Clock, Result, history};

/// Opens the recorder that a configuration describes. It also records changes of revisions.
pub(crate) fn start(
    config: &Config,
    filter: &Filter,
    clock: Arc<dyn Clock>,
) -> Result<Arc<Recorder>> {
    let audit = config.audit.as_ref().map(|audit| {
        let folder = config.folder.join(&audit.folder);
        AuditLog::open(&folder, audit.retention_days, audit.required)
    });
    let audit = audit.transpose()?;
    let recorder = Recorder::new(config.telemetry.ring, audit, clock);
    // The file was checked when it was read.
    let recorder = recorder.with_alerts(alert_rules(config).unwrap_or_default());
    let recorder = Arc::new(recorder.with_history(history::open(config)));
    let observer = Arc::clone(&recorder);
    filter.revisions().observe(move |change| observer.changed(change));
    Ok(recorder)
}
