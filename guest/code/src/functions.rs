//! The functions of the host, for JavaScript.

use context_guard_json::scan::Scanner;
use context_guard_json::text::Form;
use rquickjs::function::Func;
use rquickjs::{Array, Ctx, Exception, Function, Object, Result, Value};

use crate::bindings::context_guard::code::host;

/// Returns an object with the functions of the host.
pub(crate) fn native<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>> {
    let native = Object::new(ctx.clone())?;
    native.set(
        "start",
        Func::from(|ctx: Ctx<'js>, server: String, tool: String, arguments: String| {
            host::start_call(&server, &tool, &arguments).map_err(|error| thrown(&ctx, &error))
        }),
    )?;
    native.set("open", Func::from(open))?;
    native.set("rows", Func::from(rows))?;
    native.set("whole", Func::from(whole))?;
    native.set("log", Func::from(|line: rquickjs::Coerced<String>| host::log(&line.0)))?;
    Ok(native)
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
    found.set(0, ctx.json_parse(part.rows)?)?;
    found.set(1, part.next as f64)?;
    Ok(found)
}

fn whole<'js>(ctx: Ctx<'js>, handle: u32) -> Result<rquickjs::String<'js>> {
    let bytes = host::read_whole(handle).map_err(|error| thrown(&ctx, &error))?;
    rquickjs::String::from_str(ctx, &String::from_utf8_lossy(&bytes))
}

/// Passes the end of a call to the program.
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
                Some(json) if json != b"null" => ctx.json_parse(json)?,
                _ => undefined(),
            };
            let content = match find(&result, "content").filter(|_| structured.is_undefined()) {
                Some(json) => ctx.json_parse(json)?,
                None => undefined(),
            };
            settle.call((job, undefined(), structured, content, is_error))
        }
    }
}

/// Returns the JSON of a member of a JSON object.
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
