//! The rules for TLS settings.

use crate::document::Issue;
use crate::gateway_file::Config;
use crate::tls::UpstreamTls;
use crate::upstream::Upstream;

/// Returns the errors in all TLS settings of a gateway file.
pub(crate) fn tls_errors(config: &Config) -> Vec<Issue> {
    let mut issues = Vec::new();
    let admin = config.admin.as_ref().and_then(|admin| admin.tls.as_ref());
    for (path, tls) in [(&["tls"][..], config.tls.as_ref()), (&["admin", "tls"], admin)] {
        if tls.is_some_and(|tls| tls.client_crl.is_some() && tls.client_ca.is_none()) {
            let reason = "without clientCa, clients have no certificates that could be revoked";
            issues.push(Issue::new(&[path, &["clientCrl"]].concat(), reason));
        }
    }
    for (at, upstream) in config.upstreams.iter().enumerate() {
        if let Some(tls) = &upstream.tls
            && let Some((member, reason)) = upstream_fault(upstream, tls)
        {
            let at = at.to_string();
            let steps: Vec<&str> = ["upstreams", &at, "tls"].into_iter().chain(member).collect();
            issues.push(Issue::new(&steps, reason));
        }
    }
    issues
}

/// Returns the error in the TLS settings of an upstream: the member, if any, and the reason. `None`
/// if they are valid.
fn upstream_fault(
    upstream: &Upstream,
    tls: &UpstreamTls,
) -> Option<(Option<&'static str>, &'static str)> {
    let url = upstream.url.as_ref().or(upstream.rest.as_ref().map(|rest| &rest.url));
    let uses_tls = |url: &String| !url.to_ascii_lowercase().starts_with("http://");
    match (url, tls) {
        (None, _) => Some((None, "a command does not use TLS: only `url` and `rest` do")),
        (Some(url), _) if !uses_tls(url) => Some((None, "an http:// URL does not use TLS")),
        (_, UpstreamTls { ca: None, cert: None, key: None }) => {
            Some((None, "it has no effect without `ca`, or `cert` and `key`"))
        }
        (_, UpstreamTls { cert: Some(_), key: None, .. }) => {
            Some((Some("cert"), "the certificate needs its private key (`key`)"))
        }
        (_, UpstreamTls { cert: None, key: Some(_), .. }) => {
            Some((Some("key"), "the private key needs its certificate (`cert`)"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::{References, parse};

    fn fault(text: &str) -> Option<String> {
        let parsed = parse(Path::new("gateway.yaml"), text, [], References::Keep);
        parsed.err().map(|error| error.to_string())
    }

    #[test]
    fn settings_without_effect_are_refused() {
        for (upstream, path) in [
            ("command: [cat], tls: {ca: ca.pem}", "upstreams[0].tls:"),
            ("url: 'http://a.example', tls: {ca: ca.pem}", "upstreams[0].tls:"),
            ("url: 'HTTP://${env:HOST}/', tls: {ca: ca.pem}", "upstreams[0].tls:"),
            ("rest: {url: 'http://a.example'}, tls: {cert: a, key: b}", "upstreams[0].tls:"),
            ("url: 'https://a.example', tls: {}", "upstreams[0].tls:"),
            ("url: 'https://a.example', tls: {cert: a}", "upstreams[0].tls.cert:"),
            ("url: 'https://a.example', tls: {ca: c, key: b}", "upstreams[0].tls.key:"),
        ] {
            let found = fault(&format!("upstreams: [{{name: a, {upstream}}}]")).unwrap_or_default();
            assert!(found.contains(path), "{upstream}: {found}");
        }
        for (tls, path) in [
            ("{clientCa: ca.pem}", "tls: `cert` is missing"),
            ("{clientCa: ca.pem, key: k}", "tls: `cert` is missing"),
            ("{cert: c, key: k, clientCrl: crl.pem}", "tls.clientCrl:"),
        ] {
            for of_admin in [false, true] {
                let (start, end, parent) =
                    if of_admin { ("admin: {tls: ", "}", "admin.") } else { ("tls: ", "", "") };
                let upstream = "upstreams: [{name: a, command: [cat]}]";
                let found = fault(&format!("{start}{tls}{end}\n{upstream}")).unwrap_or_default();
                assert!(found.contains(&format!("{parent}{path}")), "{tls}: {found}");
            }
        }
    }

    #[test]
    fn settings_with_effect_are_accepted() {
        for upstream in [
            "url: 'https://a.example', tls: {ca: ca.pem}",
            "url: '${env:URL}', tls: {cert: a, key: b}",
            "rest: {url: 'https://a.example'}, tls: {ca: c, cert: a, key: b}",
        ] {
            let text = format!(
                "tls: {{cert: c, key: k, clientCa: a, clientCrl: l}}\n\
                 upstreams: [{{name: a, {upstream}}}]"
            );
            assert_eq!(fault(&text), None, "{upstream}");
        }
    }
}
