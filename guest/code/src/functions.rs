//! The host functions that the JavaScript prelude calls.

use context_guard_json::scan::Scanner;
use context_guard_json::text::Form;
use rquickjs::function::Func;
use rquickjs::{Array, Ctx, Exception, Function, Object, Result, Value};

use crate::bindings::context_guard::code::host;

/// Returns a JavaScript object with the host functions.
pub(crate) fn native<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>> {
    let native = Object::new(ctx.clone())?;
    native.set(
        "start",
        Func::from(|ctx: Ctx<'js>, server: String, tool: String, arguments: String| {
            host::start_call(&server, &tool, &arguments).map_err(|error| thrown(&ctx, &error))
        }),
    )?;
    native.set(
        "names",
        Func::from(|ctx: Ctx<'js>, server: String| {
            host::list_names(&server).map_err(|error| thrown(&ctx, &error))
        }),
    )?;
    native.set("open", Func::from(open))?;
    native.set("rows", Func::from(rows))?;
    native.set("whole", Func::from(whole))?;
    native.set("hasLong", Func::from(|text: String| has_long_number(text.as_bytes())))?;
    native.set("log", Func::from(|line: rquickjs::Coerced<String>| host::log(&line.0)))?;
    Ok(native)
}

/// The minimum number of digits of a number that may not be exact in JavaScript.
const LONG_DIGITS: usize = 16;

/// Returns JSON for the function `decoded` of the prelude: parsed, or as a text if it may contain
/// integers that are not exact in JavaScript.
pub(crate) fn json<'js>(ctx: &Ctx<'js>, text: &[u8]) -> Result<Array<'js>> {
    let decoded = Array::new(ctx.clone())?;
    let is_long = has_long_number(text);
    decoded.set(0, is_long)?;
    if is_long {
        decoded.set(1, &*String::from_utf8_lossy(text))?;
    } else {
        decoded.set(1, ctx.json_parse(text)?)?;
    }
    Ok(decoded)
}

/// Returns true if a text has sixteen consecutive digits.
fn has_long_number(text: &[u8]) -> bool {
    // A run of sixteen digits covers one place whose number is a multiple of sixteen.
    let places = (0..text.len()).step_by(LONG_DIGITS);
    let is_digit = |at: usize| text.get(at).is_some_and(u8::is_ascii_digit);
    places.filter(|at| is_digit(*at)).any(|at| {
        let before =
            (1..LONG_DIGITS).take_while(|back| at.checked_sub(*back).is_some_and(is_digit));
        let after = (1..LONG_DIGITS).take_while(|next| is_digit(at + next));
        before.count() + 1 + after.count() >= LONG_DIGITS
    })
}

fn thrown(ctx: &Ctx<'_>, error: &str) -> rquickjs::Error {
    // The engine cuts messages of its own at 256 bytes, but not those of an error object.
    match Exception::from_message(ctx.clone(), error) {
        Ok(exception) => exception.throw(),
        Err(error) => error,
    }
}

fn open<'js>(ctx: Ctx<'js>, cursor: String) -> Result<Array<'js>> {
    let answer = host::open_answer(&cursor).map_err(|error| thrown(&ctx, &error))?;
    let facts = Array::new(ctx)?;
    facts.set(0, answer.handle)?;
    // Exact up to 2^53 records.
    facts.set(1, answer.count as f64)?;
    facts.set(2, answer.has_records)?;
    Ok(facts)
}

fn rows<'js>(ctx: Ctx<'js>, handle: u32, start: f64) -> Result<Array<'js>> {
    let part = host::read_rows(handle, start as u64).map_err(|error| thrown(&ctx, &error))?;
    let found = Array::new(ctx.clone())?;
    found.set(0, json(&ctx, &part.rows)?)?;
    found.set(1, part.next as f64)?;
    Ok(found)
}

fn whole<'js>(ctx: Ctx<'js>, handle: u32) -> Result<rquickjs::String<'js>> {
    let bytes = host::read_whole(handle).map_err(|error| thrown(&ctx, &error))?;
    rquickjs::String::from_str(ctx, &String::from_utf8_lossy(&bytes))
}

/// Passes the result of call number `job`, or its error, to the function `settle` of the prelude.
pub(crate) fn settle<'js>(
    ctx: &Ctx<'js>,
    settle: &Function<'js>,
    job: u32,
    result: std::result::Result<Vec<u8>, String>,
) -> Result<()> {
    let undefined = || Value::new_undefined(ctx.clone());
    match result {
        Err(error) => settle.call((job, error)),
        Ok(result) => {
            let is_error = find(&result, "isError") == Some(b"true".as_slice());
            // Structured content has what the texts have. Both are parsed only if both are needed.
            let structured = match find(&result, "structuredContent").filter(|_| !is_error) {
                Some(text) if text != b"null" => json(ctx, text)?.into_value(),
                _ => undefined(),
            };
            let content = match find(&result, "content").filter(|_| structured.is_undefined()) {
                Some(text) => json(ctx, text)?.into_value(),
                None => undefined(),
            };
            // Python's FastMCP wraps results that are no objects.
            let meta = find(&result, "_meta").and_then(|meta| find(meta, "fastmcp"));
            let wrap = meta.and_then(|meta| find(meta, "wrap_result"));
            let is_wrapped = wrap == Some(b"true".as_slice());
            settle.call((job, undefined(), structured, content, is_error, is_wrapped))
        }
    }
}

/// Returns the JSON of the member `name` of a JSON object. `None` if the object lacks it.
fn find<'r>(object: &'r [u8], name: &str) -> Option<&'r [u8]> {
    let mut found = None;
    let mut scanner = Scanner::new(object, Form::Raw);
    let scanned = scanner.object(|scanner, key| {
        let value = scanner.skip_value()?;
        if scanner.is_key(&key, name) {
            found = Some(value);
        }
        Ok(())
    });
    scanned.ok()?;
    object.get(found?)
}
