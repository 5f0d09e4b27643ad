//! JSON Web Tokens: none is accepted that the issuer did not sign for this gateway.
#![no_main]
#![allow(missing_docs, unsafe_code, reason = "the macro of libfuzzer-sys")]
#![allow(clippy::panic, clippy::indexing_slicing, reason = "a panic is what is looked for")]

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use context_guard::access::{Access, http_client};
use context_guard::config::{References, parse};
use http::Request;
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

const ISSUER: &str = "https://issuer.example";
const HEADER: &str = r#"{"alg":"EdDSA","kid":"k"}"#;
/// The tolerance of the gateway for clocks, and one second for the clock of this check.
const LEEWAY_SECONDS: i64 = 61;

#[derive(Arbitrary, Debug)]
enum Token {
    Text(String),
    /// Parts with a signature that is not of the issuer.
    Forged(String, String, Vec<u8>),
    /// A genuine token of which a byte is changed.
    Changed(u16, u8),
    /// A genuine token with other claims in place of its own.
    Swapped(String),
    /// A token that the issuer signed, with any header and claims.
    Signed(String, String),
    /// A token that the issuer signed, with one other claim.
    Claims(u8, i64, String),
}

struct World {
    access: Access,
    key: Ed25519KeyPair,
    runtime: Runtime,
}

static WORLD: LazyLock<World> = LazyLock::new(|| match world() {
    Ok(world) => world,
    Err(error) => panic!("{error}"),
});

fn world() -> Result<World, Box<dyn std::error::Error>> {
    let key = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).map_err(|error| error.to_string())?;
    let x = BASE64.encode(key.public_key());
    let jwk = json!({
        "kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "kid": "k", "x": x,
    });
    let file = std::env::temp_dir().join(format!("context-guard-jwks-{}.json", std::process::id()));
    std::fs::write(&file, json!({"keys": [jwk]}).to_string())?;
    let config = json!({
        "access": {"rateLimit": {"perMinute": 0}, "jwt": {
            "jwksFile": &file, "issuer": ISSUER, "audience": "guard", "scopes": ["read"],
        }},
        "upstreams": [{"name": "a", "command": ["cat"]}],
    });
    let config = parse(Path::new("gateway.json"), &config.to_string(), [], References::Keep)?;
    let access = Access::new(&config, true, http_client())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    Ok(World { access, key, runtime })
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

fn claims() -> Value {
    json!({
        "iss": ISSUER, "aud": "guard", "sub": "alice", "exp": 4_000_000_000_i64, "scope": "read",
    })
}

fn unsigned(header: &str, claims: &str) -> String {
    format!("{}.{}", BASE64.encode(header), BASE64.encode(claims))
}

fn signed(header: &str, claims: &str) -> String {
    let text = unsigned(header, claims);
    let signature = BASE64.encode(WORLD.key.sign(text.as_bytes()));
    format!("{text}.{signature}")
}

/// Returns the principal of a token that the gateway accepts.
fn accepted(token: &str) -> Option<String> {
    let request = Request::get("/mcp").header("host", "localhost");
    let request = request.header("authorization", format!("Bearer {token}")).body(()).ok()?;
    let (parts, ()) = request.into_parts();
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let admitted = WORLD.runtime.block_on(WORLD.access.admit(address, &parts));
    admitted.ok().map(|principal| principal.to_string())
}

/// Returns true if the claims permit access, by the rules of the configuration.
fn permit(claims: &str) -> bool {
    let Ok(claims) = serde_json::from_str::<Value>(claims) else { return false };
    let names = |claim: &Value, name: &str| match claim {
        Value::String(text) => text.split(' ').any(|one| one == name),
        Value::Array(list) => list.iter().any(|one| one == name),
        _ => false,
    };
    let is_audience = match &claims["aud"] {
        Value::Array(list) => list.iter().any(|one| one == "guard"),
        one => one == "guard",
    };
    let is_issuer = match &claims["iss"] {
        Value::Array(list) => list.iter().any(|one| one == ISSUER),
        one => one == ISSUER,
    };
    is_audience
        && is_issuer
        && claims["sub"].is_string()
        && claims["exp"].as_f64().is_some_and(|exp| exp >= (now() - LEEWAY_SECONDS) as f64)
        && claims["nbf"].as_f64().is_none_or(|nbf| nbf <= (now() + LEEWAY_SECONDS) as f64)
        && (names(&claims["scope"], "read") || names(&claims["scp"], "read"))
}

fuzz_target!(|token: Token| {
    let genuine = signed(HEADER, &claims().to_string());
    assert_eq!(accepted(&genuine).as_deref(), Some("jwt:alice"), "a genuine token is refused");
    let forged = match token {
        Token::Text(text) => text,
        Token::Forged(header, claims, signature) => {
            format!("{}.{}", unsigned(&header, &claims), BASE64.encode(signature))
        }
        Token::Changed(at, to) => {
            let mut bytes = genuine.clone().into_bytes();
            let at = usize::from(at) % bytes.len();
            bytes[at] = to;
            let Ok(text) = String::from_utf8(bytes) else { return };
            text
        }
        Token::Swapped(claims) => {
            let parts: Vec<&str> = genuine.split('.').collect();
            format!("{}.{}.{}", parts[0], BASE64.encode(claims), parts[2])
        }
        Token::Signed(header, claims) => {
            if accepted(&signed(&header, &claims)).is_some() {
                assert!(permit(&claims), "accepted: {header} {claims}");
            }
            return;
        }
        Token::Claims(name, number, text) => {
            let name = ["exp", "nbf", "iss", "aud", "sub", "scope"][usize::from(name) % 6];
            let mut claims = claims();
            claims[name] = if text.is_empty() { json!(number) } else { json!(text) };
            let claims = claims.to_string();
            if accepted(&signed(HEADER, &claims)).is_some() {
                assert!(permit(&claims), "accepted: {claims}");
            }
            return;
        }
    };
    if forged.trim() != genuine {
        assert_eq!(accepted(&forged), None, "a forged token is accepted: {forged}");
    }
});
