//! The modes in which Envoy sends bodies.

use std::sync::atomic::{AtomicBool, Ordering};

use context_guard_grpc::ext_proc::ProtocolConfiguration;
use context_guard_grpc::ext_proc::processing_mode::BodySendMode;
use context_guard_protocol::code::NOT_CONFIGURED;
use context_guard_protocol::http::HttpResponse;
use context_guard_protocol::response;
use tracing::error;

/// The error message, for clients and the log, if Envoy's configuration sends no bodies.
const NOT_SENT: &str = "Envoy does not send bodies to context-guard. Set request_body_mode and response_body_mode of ext_proc to FULL_DUPLEX_STREAMED, or set allow_mode_override: true. See \"Guard the traffic of another gateway\" in the documentation of context-guard.";

/// The modes in which Envoy sends the bodies of an exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Transfers {
    pub(crate) request_is_duplex: bool,
    pub(crate) response_is_duplex: bool,
    /// True if response bodies arrive in parts, even if the guard requests a whole body.
    pub(crate) response_is_streamed: bool,
}

impl Transfers {
    /// Reads the modes that the first message of a stream reports.
    ///
    /// # Errors
    /// The mode that the guard does not support, with the supported ones.
    pub(crate) fn read(configuration: &ProtocolConfiguration) -> Result<Self, &'static str> {
        let (request, response) =
            (configuration.request_body_mode(), configuration.response_body_mode());
        match (request, response) {
            (BodySendMode::Streamed | BodySendMode::BufferedPartial | BodySendMode::Grpc, _) => {
                Err("request_body_mode must be FULL_DUPLEX_STREAMED, BUFFERED or NONE")
            }
            (_, BodySendMode::BufferedPartial | BodySendMode::Grpc) => {
                Err("response_body_mode must be FULL_DUPLEX_STREAMED, STREAMED, BUFFERED or NONE")
            }
            _ => Ok(Self {
                request_is_duplex: request == BodySendMode::FullDuplexStreamed,
                response_is_duplex: response == BodySendMode::FullDuplexStreamed,
                response_is_streamed: response == BodySendMode::Streamed,
            }),
        }
    }
}

/// Returns the response to a request whose body Envoy did not send. Logs the reason the first time.
pub(crate) fn refusal() -> HttpResponse {
    static IS_LOGGED: AtomicBool = AtomicBool::new(false);
    if !IS_LOGGED.swap(true, Ordering::Relaxed) {
        error!("{NOT_SENT}");
    }
    HttpResponse::json(500, response::error("null", NOT_CONFIGURED, NOT_SENT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_that_lose_bodies_are_refused() {
        use BodySendMode::{Buffered, BufferedPartial, FullDuplexStreamed, Grpc, None, Streamed};
        let read = |request: BodySendMode, response: BodySendMode| {
            Transfers::read(&ProtocolConfiguration {
                request_body_mode: request.into(),
                response_body_mode: response.into(),
                send_body_without_waiting_for_header_response: false,
            })
        };
        for mode in [Streamed, BufferedPartial, Grpc] {
            assert!(read(mode, None).unwrap_err().contains("request_body_mode"));
        }
        for mode in [BufferedPartial, Grpc] {
            assert!(read(Buffered, mode).unwrap_err().contains("response_body_mode"));
        }
        assert_eq!(read(None, None), Ok(Transfers::default()));
        assert!(read(Buffered, Streamed).unwrap().response_is_streamed);
        let duplex = read(FullDuplexStreamed, FullDuplexStreamed).unwrap();
        assert!(duplex.request_is_duplex && duplex.response_is_duplex);
    }
}
