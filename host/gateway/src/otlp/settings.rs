//! The settings of the export, from the gateway file and the standard environment variables.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Uri};

use crate::config::{OtlpSettings, is_url};
use crate::telemetry::TraceSampler;
use crate::telemetry::otlp::ProcessAttributes;
use crate::{Error, Result};

/// The options of the export.
pub(super) struct ExportOptions {
    /// The URL of the collector, without a trailing slash.
    pub(super) endpoint: String,
    pub(super) headers: HeaderMap,
    pub(super) process: ProcessAttributes,
    /// The sampling rule of traces. `None` if no traces are recorded.
    pub(super) sampler: Option<TraceSampler>,
    pub(super) metric_interval: Duration,
}

impl ExportOptions {
    /// Returns the options from the settings, and from environment variables for missing settings.
    /// `None` without an endpoint.
    ///
    /// # Errors
    /// A value is invalid.
    pub(super) fn new(
        settings: &OtlpSettings,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>> {
        let is_disabled = variable("OTEL_SDK_DISABLED").is_some_and(|value| value == "true");
        let named = variable("OTEL_EXPORTER_OTLP_ENDPOINT").filter(|_| !is_disabled);
        let Some(endpoint) = settings.endpoint.clone().or(named) else { return Ok(None) };
        if !is_url(&endpoint) {
            let reason = "OTEL_EXPORTER_OTLP_ENDPOINT: an http:// or https:// URL is needed";
            return Err(Error::Setup(reason.to_owned()));
        }
        let mut headers = HeaderMap::new();
        let from_environment = pairs("OTEL_EXPORTER_OTLP_HEADERS", variable)?;
        let own =
            settings.headers.iter().map(|(name, value)| (name.clone(), value.expose().to_owned()));
        for (name, value) in from_environment.into_iter().chain(own) {
            let valid = HeaderName::try_from(&name).ok().zip(HeaderValue::try_from(value).ok());
            let Some((header, mut value)) = valid else {
                return Err(Error::Setup(format!("the OTLP header {name:?} is invalid")));
            };
            value.set_sensitive(true);
            headers.insert(header, value);
        }
        let mut process = pairs("OTEL_RESOURCE_ATTRIBUTES", variable)?;
        let service = variable("OTEL_SERVICE_NAME");
        let is_named = process.iter().any(|(key, _)| key == "service.name");
        if service.is_some() || !is_named {
            process.retain(|(key, _)| key != "service.name");
            let service = service.unwrap_or_else(|| "context-guard".to_owned());
            process.push(("service.name".to_owned(), service));
        }
        if process.iter().all(|(key, _)| key != "service.version") {
            let version = env!("CARGO_PKG_VERSION").to_owned();
            process.push(("service.version".to_owned(), version));
        }
        let metric_interval = match variable("OTEL_METRIC_EXPORT_INTERVAL") {
            None => Duration::from_secs(60),
            Some(text) => text.parse().map(Duration::from_millis).map_err(|_| {
                Error::Setup("OTEL_METRIC_EXPORT_INTERVAL: milliseconds are needed".to_owned())
            })?,
        };
        Ok(Some(Self {
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            headers,
            process: ProcessAttributes(process),
            sampler: sampler(variable)?,
            metric_interval,
        }))
    }

    /// Returns the host of the endpoint, for the log.
    pub(super) fn host(&self) -> String {
        let uri = self.endpoint.parse::<Uri>().ok();
        uri.and_then(|uri| Some(uri.authority()?.to_string())).unwrap_or_default()
    }
}

fn sampler(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<TraceSampler>> {
    let exporter = variable("OTEL_TRACES_EXPORTER");
    if exporter.is_some_and(|name| name == "none") {
        return Ok(None);
    }
    let name =
        variable("OTEL_TRACES_SAMPLER").unwrap_or_else(|| "parentbased_always_on".to_owned());
    let argument = variable("OTEL_TRACES_SAMPLER_ARG").unwrap_or_default();
    match TraceSampler::named(&name, &argument) {
        Some(sampler) => Ok(Some(sampler)),
        None => Err(Error::Setup(format!(
            "OTEL_TRACES_SAMPLER: {name:?} with argument {argument:?} is invalid: there are \
             always_on, always_off, traceidratio, parentbased_always_on, parentbased_always_off \
             and parentbased_traceidratio; the argument is a share from 0 to 1"
        ))),
    }
}

/// Returns the key-value pairs of an environment variable such as `a=b,c=d`, with percent-decoded
/// values.
///
/// # Errors
/// A part is not a pair.
fn pairs(name: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<Vec<(String, String)>> {
    let text = variable(name).unwrap_or_default();
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts
        .map(|part| match part.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() => {
                Ok((key.trim().to_owned(), decode(value.trim())))
            }
            // The part may contain a secret.
            _ => Err(Error::Setup(format!("{name}: pairs such as key=value are needed"))),
        })
        .collect()
}

/// Decodes percent-encoded bytes. Invalid sequences remain unchanged.
fn decode(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|_| *first == b'%');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(
        settings: &OtlpSettings,
        environment: &[(&str, &str)],
    ) -> Result<Option<ExportOptions>> {
        let found = |name: &str| environment.iter().find(|(own, _)| *own == name);
        ExportOptions::new(settings, &|name| found(name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn environment_has_what_the_file_lacks() {
        let none = OtlpSettings::default();
        assert!(options(&none, &[]).unwrap().is_none());
        let environment = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20b, other=1"),
            ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test,service.name=ignored"),
            ("OTEL_SERVICE_NAME", "edge"),
        ];
        let found = options(&none, &environment).unwrap().unwrap();
        assert_eq!(found.endpoint, "http://collector:4318");
        assert_eq!(
            (&found.headers["x-key"], found.host().as_str()),
            (&"a b".parse().unwrap(), "collector:4318")
        );
        let attribute = |key: &str| {
            let found = found.process.0.iter().filter(|(own, _)| own == key);
            found.map(|(_, value)| value.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(attribute("service.name"), ["edge"]);
        assert_eq!(attribute("deployment.environment"), ["test"]);
        let own = OtlpSettings { endpoint: Some("http://other:1".to_owned()), ..none.clone() };
        assert_eq!(options(&own, &environment).unwrap().unwrap().host(), "other:1");
        let off = [environment[0], ("OTEL_SDK_DISABLED", "true")];
        assert!(options(&none, &off).unwrap().is_none());
    }

    #[test]
    fn invalid_values_are_named() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318");
        for (name, value) in [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "secret"),
            ("OTEL_TRACES_SAMPLER", "sometimes"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "1m"),
        ] {
            let environment = [(name, value), endpoint];
            let error = options(&OtlpSettings::default(), &environment).err().unwrap().to_string();
            assert!(error.contains(name), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
