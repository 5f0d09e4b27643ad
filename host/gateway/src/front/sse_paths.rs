//! The paths of the HTTP+SSE transport of MCP 2024-11-05, which are siblings of the MCP endpoint's
//! path.

use http::Uri;

/// The query parameter with the session id, in the URL for messages.
const SESSION_PARAMETER: &str = "sessionId";

/// A request of the HTTP+SSE transport, by its URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SseEndpoint {
    /// The event stream. Contains the URL for messages, without the session id.
    Stream(String),
    /// A message to the session with this id.
    Messages(String),
}

/// The paths of event streams and messages.
#[derive(Clone, Debug)]
pub(crate) struct SsePaths {
    stream: String,
    messages: String,
}

impl SsePaths {
    /// Returns the paths `sse` and `messages` in the folder of the MCP endpoint. `None` if one of
    /// them is the endpoint itself.
    pub(crate) fn beside(endpoint: &str) -> Option<Self> {
        let folder = endpoint.rsplit_once('/').map_or("", |(folder, _)| folder);
        let (stream, messages) = (format!("{folder}/sse"), format!("{folder}/messages"));
        (stream != endpoint && messages != endpoint).then_some(Self { stream, messages })
    }

    /// Returns the part of the transport to which a URL belongs. `None` for other URLs, such as a
    /// URL `messages` of a JSON API.
    pub(crate) fn find(&self, url: &Uri) -> Option<SseEndpoint> {
        if url.path() == self.stream {
            return Some(SseEndpoint::Stream(format!("{}?{SESSION_PARAMETER}=", self.messages)));
        }
        if url.path() != self.messages {
            return None;
        }
        let parameters = url.query()?.split('&').filter_map(|parameter| parameter.split_once('='));
        let mut ids = parameters.filter(|(name, _)| *name == SESSION_PARAMETER);
        ids.next().map(|(_, id)| SseEndpoint::Messages(id.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_beside_the_endpoint() {
        let paths = SsePaths::beside("/team/mcp").unwrap();
        let find = |url: &str| paths.find(&url.parse().unwrap());
        let stream = SseEndpoint::Stream("/team/messages?sessionId=".to_owned());
        assert_eq!(find("/team/sse"), Some(stream));
        assert_eq!(
            find("/team/messages?x=1&sessionId=a-_"),
            Some(SseEndpoint::Messages("a-_".into()))
        );
        assert_eq!((find("/team/messages"), find("/team/messages?limit=5")), (None, None));
        assert_eq!((find("/sse"), find("/team/mcp")), (None, None));
        let root = SsePaths::beside("/mcp").unwrap();
        assert!(root.find(&"/sse".parse().unwrap()).is_some());
        assert!(SsePaths::beside("/sse").is_none() && SsePaths::beside("/a/messages").is_none());
    }
}
