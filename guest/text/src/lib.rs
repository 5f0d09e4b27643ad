//! Plain text: lines and boundaries, kinds, severity of log entries, outlines and shortening.
#![forbid(unsafe_code)]

pub mod boundary;
pub mod colours;
pub mod definition;
pub mod element_text;
pub mod embedded;
mod heading;
pub mod kind;
pub mod line_index;
pub mod lines;
mod log_code;
pub mod log_entry;
mod log_field;
pub mod log_format;
pub mod log_line;
mod log_message;
mod log_prefix;
mod log_sample;
mod log_source;
mod log_style;
pub mod log_template;
mod log_time;
pub mod markup;
pub mod outline;
pub mod page_snapshot;
pub mod page_text;
pub mod severity;
pub mod severity_prefilter;
mod severity_translation;
pub mod shorten;
pub mod test_failures;
