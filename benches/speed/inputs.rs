//! Inputs: answers of every kind, the same in every run.

use std::fmt::Write as _;

use serde_json::json;

/// A generator of pseudorandom numbers with a fixed seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }

    fn one_of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        let at = usize::try_from(self.below(words.len() as u64)).unwrap_or(0);
        words.get(at).copied().unwrap_or_default()
    }
}

const WORDS: [&str; 16] = [
    "quiet", "harbour", "view", "late", "arrival", "extra", "bed", "child", "window", "allergic",
    "feathers", "please", "call", "before", "noon", "garden",
];

/// Returns a document with a list of nested bookings of about 1.2 kB, of at least `bytes` bytes.
pub(crate) fn bookings(bytes: usize) -> String {
    let mut numbers = Numbers(0x1234_5678_9ABC);
    let mut text = "{\"bookings\":[".to_owned();
    let mut id = 0;
    while text.len() < bytes {
        if id > 0 {
            text.push(',');
        }
        id += 1;
        let notes: Vec<&str> = (0..60).map(|_| numbers.one_of(&WORDS)).collect();
        let mut day = || format!("2026-{:02}-{:02}", numbers.below(12) + 1, numbers.below(28) + 1);
        let (from, to, at) = (day(), day(), day());
        let booking = json!({
            "id": format!("bk_{id:06}"),
            "status": numbers.one_of(&["confirmed", "cancelled", "pending"]),
            "guest": {
                "name": format!("Guest {}", numbers.below(9_999)),
                "email": format!("guest{}@example.com", numbers.below(9_999)),
                "address": {"street": format!("Harbour Street {}", numbers.below(200)), "city": "Hamburg", "country": "DE"},
            },
            "stay": {"checkIn": from, "checkOut": to, "nights": numbers.below(9) + 1, "rooms": [
                {"type": "double", "beds": 2, "floor": numbers.below(9)},
                {"type": "single", "beds": 1, "floor": numbers.below(9)},
            ]},
            "price": {"base": numbers.below(50_000) as f64 / 100.0, "currency": "EUR", "lines": [
                {"what": "room", "amount": numbers.below(500)},
                {"what": "breakfast", "amount": numbers.below(50)},
                {"what": "parking", "amount": numbers.below(30)},
            ]},
            "tags": [numbers.one_of(&WORDS), numbers.one_of(&WORDS)],
            "notes": notes.join(" "),
            "internal": {
                "etag": format!("{:016x}", numbers.below(u64::MAX)),
                "trace": format!("{:016x}{:016x}", numbers.below(u64::MAX), numbers.below(u64::MAX)),
                "audit": [
                    {"at": at, "by": format!("agent{}", numbers.below(99)), "what": "created"},
                    {"at": at, "by": format!("agent{}", numbers.below(99)), "what": "confirmed by mail"},
                ],
            },
            "url": format!("https://example.com/bookings/{id}"),
        });
        let _ = write!(text, "{booking}");
    }
    text.push_str("],\"page\":1}");
    text
}

/// Returns a log of at least `bytes` bytes.
pub(crate) fn log(bytes: usize) -> String {
    let mut numbers = Numbers(0x9876_5432_1ABC);
    let mut text = String::new();
    let mut second = 0;
    while text.len() < bytes {
        second += 1;
        let level = match numbers.below(100) {
            0 => "ERROR",
            1 | 2 => "WARN",
            _ => "INFO",
        };
        let _ = writeln!(
            text,
            "2026-11-01T{:02}:{:02}:{:02}.{:03}Z {level} [worker-{}] request {second} to \"/api/v1/items/{}\" took {} ms, {} bytes",
            second / 3_600 % 24,
            second / 60 % 60,
            second % 60,
            numbers.below(1_000),
            numbers.below(16),
            numbers.below(100_000),
            numbers.below(900),
            numbers.below(100_000),
        );
    }
    text
}

/// Returns a document without a dominant list, settings with many parts, of at least `bytes` bytes.
pub(crate) fn settings(bytes: usize) -> String {
    let mut numbers = Numbers(0x5555_1234_ABCD);
    let mut text = "{\"name\":\"cluster\"".to_owned();
    let mut part = 0;
    while text.len() < bytes {
        part += 1;
        let words: Vec<&str> = (0..40).map(|_| numbers.one_of(&WORDS)).collect();
        let value = json!({
            "enabled": part % 2 == 0,
            "size": numbers.below(9_999),
            "note": words.join(" "),
            "limits": {"cpu": numbers.below(16), "memory": numbers.below(64_000)},
        });
        let _ = write!(text, ",\"{}{part}\":{value}", numbers.one_of(&WORDS));
    }
    text.push('}');
    text
}

/// Returns an answer to `tools/list` with `tools` tools.
pub(crate) fn catalogue(tools: usize) -> Vec<u8> {
    let mut numbers = Numbers(0x7777_4321_0F0F);
    let tools: Vec<_> = (0..tools)
        .map(|at| {
            let words: Vec<&str> = (0..30).map(|_| numbers.one_of(&WORDS)).collect();
            json!({"name": format!("tool_{at}"), "description": words.join(" "), "annotations": {"readOnlyHint": at % 2 == 0}, "inputSchema": {"type": "object", "properties": {
                "query": {"type": "string", "description": "What is looked for"},
                "region": {"type": "string", "enum": ["north", "south", "east", "west"]},
                "since": {"type": "string", "format": "date-time"},
            }, "required": ["query"]}})
        })
        .collect();
    json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": tools}}).to_string().into_bytes()
}

/// Returns the merged list of `tools` tools of 40 servers, and a query for one of them.
/// Descriptions have 25 words of a vocabulary of 4,000, few of which are frequent, as in languages.
pub(crate) fn tool_servers(tools: usize) -> (Vec<u8>, String) {
    const SYLLABLES: [&str; 16] = [
        "ra", "to", "mi", "sel", "dor", "ken", "pla", "vu", "gri", "no", "fas", "le", "bor", "ti",
        "quo", "zan",
    ];
    let mut numbers = Numbers(0x5151_2323_9F9F);
    let vocabulary: Vec<String> = (0..4_000_usize)
        .map(|at| [at % 16, at / 16 % 16, at / 256].map(|part| SYLLABLES[part]).concat())
        .collect();
    let mut word = || {
        // The product of two numbers makes the first words frequent.
        let at = numbers.below(4_000) * numbers.below(4_000) / 4_000;
        vocabulary[usize::try_from(at).unwrap_or(0)].as_str()
    };
    let (mut definitions, mut query) = (Vec::new(), String::new());
    let mut servers: Vec<Vec<String>> = vec![Vec::new(); 40];
    for at in 0..tools {
        let name = format!("{}_{}_{at}", word(), word());
        let words: Vec<&str> = (0..25).map(|_| word()).collect();
        if at == 41 {
            query = format!("{} {}", name.replace('_', " "), words[..4].join(" "));
        }
        definitions.push(json!({
            "name": format!("server_{}__{name}", at % 40),
            "description": words.join(" "),
            "inputSchema": {"type": "object", "properties": {
                word(): {"type": "string", "description": word()},
                word(): {"type": "integer"},
            }},
        }));
        servers[at % 40].push(name);
    }
    let servers = (0..)
        .zip(servers)
        .map(|(at, tools): (usize, _)| json!({"name": format!("server_{at}"), "tools": tools}));
    let facts = json!({"servers": servers.collect::<Vec<_>>(), "usage": {}, "pageSize": 1_000});
    let result = json!({"tools": definitions, "_meta": {"dev.context-guard/catalogue": facts}});
    let list = json!({"jsonrpc": "2.0", "id": 1, "result": result});
    (list.to_string().into_bytes(), query)
}

/// Returns an answer with a document as structured content only.
pub(crate) fn structured(document: &str) -> Vec<u8> {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{{\"content\":[],\"structuredContent\":{document}}}}}").into_bytes()
}

/// Returns an answer with one text block, in which a JSON document is escaped.
pub(crate) fn text(text: &str) -> Vec<u8> {
    json!({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": text}]}})
        .to_string()
        .into_bytes()
}

/// Returns an answer with a text, and a document as structured content.
pub(crate) fn both(text: &str, document: &str) -> Vec<u8> {
    let text = json!(text);
    format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{{\"content\":[{{\"type\":\"text\",\"text\":{text}}}],\"structuredContent\":{document}}}}}").into_bytes()
}

/// Returns a tool call.
pub(crate) fn call(tool: &str, arguments: &serde_json::Value) -> Vec<u8> {
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
        .to_string()
        .into_bytes()
}
