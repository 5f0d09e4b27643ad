//! Headers and bodies of HTTP messages in Envoy's buffers.

use context_guard_protocol::header as headers;
use context_guard_protocol::http::{HttpResponse, Replacement};
use proxy_wasm::hostcalls::{
    add_map_value, get_buffer, get_map_value_bytes, set_buffer, set_map_value,
};
use proxy_wasm::types::{BufferType, MapType};

/// Replaces the `size` bytes in Envoy's buffer by `replacement` or, if that is `None`, by `body`.
/// If `sets_length`, also sets the `content-length` of the response.
pub(crate) fn replace_body(
    replacement: Option<&Replacement>,
    body: &[u8],
    size: usize,
    sets_length: bool,
) {
    let sent = replacement.map_or(body, |new| new.body());
    if let Some(head) = replacement.and_then(|new| new.head()) {
        change_head(head);
    }
    if sets_length {
        set(MapType::HttpResponseHeaders, "content-length", &sent.len().to_string());
    }
    if replacement.is_some() || sent.len() != size {
        let _ = set_buffer(BufferType::HttpResponseBody, 0, size, sent);
    }
}

/// Replaces status and content type of the upstream's response by those of `head`, and adds the
/// other headers of `head`. Removes the headers that describe the upstream's body.
pub(crate) fn change_head(head: &HttpResponse) {
    let map = MapType::HttpResponseHeaders;
    headers::WHOLE_BODY_HEADERS.iter().for_each(|name| remove(map, name));
    set(map, ":status", &head.status.to_string());
    set(map, "content-type", head.content_type);
    for (name, value) in &head.headers {
        let _ = add_map_value(map, name, value);
    }
}

/// Reads the header `name`. `None` if it is absent. Replaces invalid UTF-8 in its value, because a
/// header may contain any bytes.
pub(crate) fn header(map: MapType, name: &str) -> Option<String> {
    let value = get_map_value_bytes(map, name).ok()??;
    Some(String::from_utf8_lossy(&value).into_owned())
}

pub(crate) fn set(map: MapType, name: &str, value: &str) {
    let _ = set_map_value(map, name, Some(value));
}

pub(crate) fn remove(map: MapType, name: &str) {
    let _ = set_map_value(map, name, None);
}

pub(crate) fn content_length(map: MapType) -> Option<usize> {
    header(map, "content-length")?.trim().parse().ok()
}

pub(crate) fn buffer(kind: BufferType, size: usize) -> Vec<u8> {
    if size == 0 {
        Vec::new()
    } else {
        get_buffer(kind, 0, size).ok().flatten().unwrap_or_default()
    }
}
