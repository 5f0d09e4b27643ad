//! Names of other tools for the fields of log entries.

use super::{FieldName, FieldPath, FieldStep, NameSegment};
use crate::json::outline::NodeId;
use crate::query::records::RecordSet;

/// Names of other tools for the members of log entries, without underscores, each with the members
/// that they may be.
const LOG_MEMBERS: [(&[&str], &[&str]); 12] = [
    (
        &["timestamp", "ts", "datetime", "date", "asctime", "eventtime", "timelocal", "when"],
        &["time", "timeOfYear", "timeOfDay"],
    ),
    (&["severity", "loglevel", "lvl", "levelname", "priority"], &["level"]),
    (&["msg", "text", "body"], &["message"]),
    (&["logger", "loggername", "component", "module", "class", "name"], &["source", "process"]),
    (&["ip", "clientip", "remoteaddr", "remoteip", "sourceip", "srcip", "addr"], &["client"]),
    (&["url", "uri", "requesturi", "endpoint", "route"], &["path"]),
    (&["verb", "requestmethod", "httpmethod"], &["method"]),
    (&["statuscode", "code", "httpstatus", "responsecode", "response"], &["status"]),
    (&["size", "bytessent", "bodybytessent", "length", "responsesize"], &["bytes"]),
    (&["useragent", "httpuseragent", "ua"], &["agent"]),
    (&["referrer", "httpreferer"], &["referer"]),
    (&["username", "remoteuser"], &["user"]),
];

impl FieldName {
    /// Returns the member of log entries that other tools call by this name. `None` if the records
    /// are not the entries of a log, or have no such member.
    pub(super) fn of_log(&self, records: &RecordSet<'_>, all: &[NodeId]) -> Option<FieldPath> {
        let [NameSegment::Key(name)] = self.segments.as_slice() else { return None };
        let name = name.trim_start_matches('@').to_lowercase().replace(['_', '-'], "");
        let is_entry = |id: NodeId| {
            let has = |key: &str| records.outline.member(id, key).is_some();
            has("line") && has("message") && (has("time") || has("timeOfYear") || has("timeOfDay"))
        };
        if !all.first().is_some_and(|id| is_entry(*id)) {
            return None;
        }
        let (_, own) = LOG_MEMBERS.iter().find(|(names, _)| names.contains(&name.as_str()))?;
        let is_present =
            |key: &&&str| all.iter().any(|id| records.outline.member(*id, key).is_some());
        let key = own.iter().find(is_present)?;
        Some(FieldPath::new(vec![FieldStep::Key((*key).to_owned())]))
    }
}
