//! Builds the messages to Envoy.

use context_guard_grpc::ext_proc::body_mutation::Mutation;
use context_guard_grpc::ext_proc::header_value_option::HeaderAppendAction;
use context_guard_grpc::ext_proc::processing_mode::{BodySendMode, HeaderSendMode};
use context_guard_grpc::ext_proc::processing_response::Response;
use context_guard_grpc::ext_proc::{
    BodyMutation, BodyResponse, CommonResponse, HeaderMutation, HeaderValue, HeaderValueOption,
    HeadersResponse, HttpBody, HttpStatus, ImmediateResponse, ProcessingMode, ProcessingResponse,
    StreamedBodyResponse, TrailersResponse,
};
use context_guard_protocol::header::WHOLE_BODY_HEADERS;
use context_guard_protocol::http::{HttpResponse, Replacement};

/// The maximum size of a chunk, in bytes, that Envoy recommends.
const CHUNK_BYTES: usize = 64 << 10;
pub(crate) const CONTENT_LENGTH: &str = "content-length";

/// The direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Request,
    Response,
}

/// The changes of a request's or response's head.
#[derive(Debug, Default)]
pub(crate) struct HeadChange {
    pub(crate) set: Vec<(&'static str, String)>,
    pub(crate) append: Vec<(&'static str, String)>,
    pub(crate) remove: Vec<&'static str>,
}

impl HeadChange {
    /// Returns the changes that a replacement of the upstream's response needs.
    pub(crate) fn for_replacement(replacement: &Replacement) -> Self {
        let length = (CONTENT_LENGTH, replacement.body().len().to_string());
        let mut change = Self { set: vec![length], ..Self::default() };
        if let Some(head) = replacement.head() {
            change.set.push((":status", head.status.to_string()));
            change.set.push(("content-type", head.content_type.to_owned()));
            change.append.clone_from(&head.headers);
            change.remove.extend(WHOLE_BODY_HEADERS);
        }
        change
    }

    fn mutation(&self) -> Option<HeaderMutation> {
        let option = |(name, value): &(&str, String), action: HeaderAppendAction| {
            let value = value.clone().into_bytes().into();
            let header =
                HeaderValue { key: (*name).to_owned(), value: String::new(), raw_value: value };
            HeaderValueOption { header: Some(header), append_action: action.into() }
        };
        let set =
            self.set.iter().map(|one| option(one, HeaderAppendAction::OverwriteIfExistsOrAdd));
        let append =
            self.append.iter().map(|one| option(one, HeaderAppendAction::AppendIfExistsOrAdd));
        let set_headers: Vec<_> = set.chain(append).collect();
        let remove_headers: Vec<_> = self.remove.iter().map(|name| (*name).to_owned()).collect();
        let is_empty = set_headers.is_empty() && remove_headers.is_empty();
        (!is_empty).then_some(HeaderMutation { set_headers, remove_headers })
    }
}

/// The change of a body, or of a part of it.
pub(crate) enum BodyChange {
    None,
    Replace(Vec<u8>),
}

/// The parts of an exchange that Envoy sends next. Has an effect if Envoy's configuration allows
/// `mode_override`.
pub(crate) struct Overrides {
    response_head: HeaderSendMode,
    request_body: BodySendMode,
    response_body: BodySendMode,
    response_trailers: HeaderSendMode,
}

/// Requests the head of the response, without bodies and trailers.
const NOTHING: Overrides = Overrides {
    response_head: HeaderSendMode::Send,
    request_body: BodySendMode::None,
    response_body: BodySendMode::None,
    response_trailers: HeaderSendMode::Skip,
};

impl Overrides {
    /// Requests nothing more of this exchange.
    pub(crate) const IGNORE: Self = Self { response_head: HeaderSendMode::Skip, ..NOTHING };
    /// Requests the head of the response, and no body.
    pub(crate) const SEND_RESPONSE_HEAD: Self = NOTHING;
    /// Requests the whole request body in one message, and the head of the response.
    pub(crate) const SEND_REQUEST_BODY: Self =
        Self { request_body: BodySendMode::Buffered, ..NOTHING };
    /// Requests the whole response body in one message.
    pub(crate) const BUFFER_RESPONSE: Self =
        Self { response_body: BodySendMode::Buffered, ..NOTHING };
    /// Requests the response body in chunks, and the trailers. Trailers show that no chunk was
    /// marked as the last.
    pub(crate) const STREAM_RESPONSE: Self = Self {
        response_body: BodySendMode::Streamed,
        response_trailers: HeaderSendMode::Send,
        ..NOTHING
    };

    fn mode(&self) -> ProcessingMode {
        ProcessingMode {
            request_header_mode: HeaderSendMode::Default.into(),
            response_header_mode: self.response_head.into(),
            request_body_mode: self.request_body.into(),
            response_body_mode: self.response_body.into(),
            request_trailer_mode: HeaderSendMode::Skip.into(),
            response_trailer_mode: self.response_trailers.into(),
        }
    }
}

/// Builds the messages about a request, or about a response.
#[derive(Clone, Copy)]
pub(crate) struct Replies {
    direction: Direction,
    is_duplex: bool,
}

impl Replies {
    pub(crate) fn new(direction: Direction, is_duplex: bool) -> Self {
        Self { direction, is_duplex }
    }

    /// Returns the message that continues with a head and its changes.
    pub(crate) fn head(
        &self,
        change: &HeadChange,
        overrides: &Overrides,
    ) -> [ProcessingResponse; 1] {
        let header_mutation = change.mutation();
        let common = CommonResponse { header_mutation, ..CommonResponse::default() };
        let head = HeadersResponse { response: Some(common) };
        let response = match self.direction {
            Direction::Request => Response::RequestHeaders(head),
            Direction::Response => Response::ResponseHeaders(head),
        };
        // Envoy reports an override that it cannot apply as an error.
        let mode_override = (!self.is_duplex).then(|| overrides.mode());
        [ProcessingResponse { mode_override, response: Some(response) }]
    }

    /// Returns the message that sends the guard's own response to the client.
    pub(crate) fn immediate(&self, response: &HttpResponse) -> [ProcessingResponse; 1] {
        let head = HeadChange {
            set: vec![("content-type", response.content_type.to_owned())],
            append: response.headers.clone(),
            remove: Vec::new(),
        };
        let immediate = ImmediateResponse {
            status: Some(HttpStatus { code: response.status.into() }),
            headers: head.mutation(),
            body: response.body.clone().into(),
            details: "context_guard".to_owned(),
        };
        let response = Some(Response::ImmediateResponse(immediate));
        [ProcessingResponse { mode_override: None, response }]
    }

    /// Returns true if the message sends the guard's own response to the client.
    pub(crate) fn is_immediate(response: &ProcessingResponse) -> bool {
        matches!(response.response, Some(Response::ImmediateResponse(_)))
    }

    /// Returns the messages that forward a part of a body unchanged.
    pub(crate) fn pass(&self, part: HttpBody) -> Vec<ProcessingResponse> {
        match self.is_duplex {
            true => vec![self.streamed(part.body, part.end_of_stream)],
            false => self.changed_body(&HeadChange::default(), BodyChange::None).into(),
        }
    }

    /// Returns the messages that replace a part of a body. `is_last` is true for the last part.
    pub(crate) fn replace_part(&self, body: Vec<u8>, is_last: bool) -> Vec<ProcessingResponse> {
        match self.is_duplex {
            true if body.is_empty() && !is_last => Vec::new(),
            true => self.chunks(body, is_last),
            false => self.changed_body(&HeadChange::default(), BodyChange::Replace(body)).into(),
        }
    }

    /// Returns the message with the changes of a head, and of a part of its body.
    pub(crate) fn changed_body(
        &self,
        change: &HeadChange,
        body: BodyChange,
    ) -> [ProcessingResponse; 1] {
        let mutation = match body {
            BodyChange::None => None,
            BodyChange::Replace(body) if body.is_empty() => Some(Mutation::ClearBody(true)),
            BodyChange::Replace(body) => Some(Mutation::Body(body.into())),
        };
        let common = CommonResponse {
            header_mutation: change.mutation(),
            body_mutation: mutation.map(|mutation| BodyMutation { mutation: Some(mutation) }),
            ..CommonResponse::default()
        };
        [self.body(common)]
    }

    /// Returns the messages that continue with a head, and then with this body. `is_last` is true
    /// if no trailers follow.
    pub(crate) fn forward(
        &self,
        mut change: HeadChange,
        body: Vec<u8>,
        is_last: bool,
    ) -> Vec<ProcessingResponse> {
        // Envoy has removed the length, and not every server accepts a request without one.
        if is_last && !change.set.iter().any(|(name, _)| *name == CONTENT_LENGTH) {
            change.set.push((CONTENT_LENGTH, body.len().to_string()));
        }
        let head = self.head(&change, &Overrides::IGNORE).into_iter();
        head.chain(self.chunks(body, is_last)).collect()
    }

    /// Returns the message that continues with trailers.
    pub(crate) fn trailers(&self) -> ProcessingResponse {
        let trailers = TrailersResponse::default();
        let response = Some(match self.direction {
            Direction::Request => Response::RequestTrailers(trailers),
            Direction::Response => Response::ResponseTrailers(trailers),
        });
        ProcessingResponse { mode_override: None, response }
    }

    fn chunks(&self, body: Vec<u8>, is_last: bool) -> Vec<ProcessingResponse> {
        let mut rest = bytes::Bytes::from(body);
        let mut chunks = Vec::new();
        loop {
            let chunk = rest.split_to(rest.len().min(CHUNK_BYTES));
            chunks.push(self.streamed(chunk, is_last && rest.is_empty()));
            if rest.is_empty() {
                return chunks;
            }
        }
    }

    fn streamed(&self, body: bytes::Bytes, end_of_stream: bool) -> ProcessingResponse {
        let streamed = Mutation::StreamedResponse(StreamedBodyResponse { body, end_of_stream });
        let body_mutation = Some(BodyMutation { mutation: Some(streamed) });
        self.body(CommonResponse { body_mutation, ..CommonResponse::default() })
    }

    fn body(&self, common: CommonResponse) -> ProcessingResponse {
        let body = BodyResponse { response: Some(common) };
        let response = Some(match self.direction {
            Direction::Request => Response::RequestBody(body),
            Direction::Response => Response::ResponseBody(body),
        });
        ProcessingResponse { mode_override: None, response }
    }
}
