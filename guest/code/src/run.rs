//! Runs a program.

use rquickjs::context::EvalOptions;
use rquickjs::promise::PromiseState;
use rquickjs::{Context, Ctx, Function, Object, Promise, Result as JsResult, Runtime, Value};

use crate::bindings::context_guard::code::host;
use crate::bindings::context_guard::code::types::{Failure, FailureKind, Limits};
use crate::failure::{self, FILE};
use crate::{clock, functions, types};

/// The interface of programs, in JavaScript.
const PRELUDE: &str = include_str!(concat!(env!("OUT_DIR"), "/prelude.js"));
/// The error for a program that waits for a promise that cannot be settled.
const STUCK: &str = "The program waits for a promise that nothing settles. Await only calls of tools, or promises that the program resolves.";
const NO_VALUE: &str = "The program returned nothing. End it with `return value`.";
const NO_VALUE_YET: &str = "The program returned nothing, and calls of tools have not ended: write `await` before each call, as in `(await tools.a.b()).length`, and end with `return value`.";

/// Removes the Markdown fence around a program. `None` if it has none. Line numbers remain.
fn without_fence(program: &str) -> Option<String> {
    let (fence, rest) = program.trim_start().split_once('\n')?;
    let body = rest.trim_end().strip_suffix("```")?;
    fence.starts_with("```").then(|| format!("\n{body}"))
}

/// Runs a program to its end, and returns its value as JSON.
pub(crate) fn run(
    program: &str,
    input: &str,
    cursors: Vec<String>,
    limits: Limits,
) -> Result<Vec<u8>, Failure> {
    let broken = |error: rquickjs::Error| {
        failure::without_position(FailureKind::Thrown, &format!("The engine failed: {error}"))
    };
    // The engine takes the seed of random numbers from its clock when a context is created.
    clock::set(u64::from(limits.seed) + 1);
    let runtime = Runtime::new().map_err(broken)?;
    // The engine cannot measure the stack of WebAssembly. The host limits it.
    runtime.set_max_stack_size(0);
    let context = Context::full(&runtime).map_err(broken)?;
    clock::set(limits.started_ms.saturating_mul(1_000));
    let outcome = context.with(|ctx| evaluate(&ctx, program, input, cursors, &limits));
    // The host discards the memory of the instance. Freeing each object takes longer.
    std::mem::forget(context);
    std::mem::forget(runtime);
    outcome
}

fn evaluate(
    ctx: &Ctx<'_>,
    program: &str,
    input: &str,
    cursors: Vec<String>,
    limits: &Limits,
) -> Result<Vec<u8>, Failure> {
    let prelude = prepare(ctx, cursors);
    let prelude =
        prelude.map_err(|error| failure::of_error::<()>(ctx, Err(error), FailureKind::Thrown))?;
    let fenced = without_fence(program);
    let program = fenced.as_deref().unwrap_or(program);
    let syntax = |error| failure::of_error::<()>(ctx, Err(error), FailureKind::Syntax);
    let made = match compile(ctx, program) {
        Ok(made) => made,
        Err(error) => {
            let failure = syntax(error);
            // What is no JavaScript may be TypeScript.
            let plain = types::without_types(program).ok_or(failure)?;
            compile(ctx, &plain).map_err(syntax)?
        }
    };
    let written = follow(ctx, &prelude, made, input)?;
    let Some(written) = written else {
        let jobs =
            prelude.get::<_, Function<'_>>("jobs").and_then(|jobs| jobs.call::<_, Vec<u32>>(()));
        let has_calls = jobs.is_ok_and(|jobs| !jobs.is_empty());
        let message = if has_calls { NO_VALUE_YET } else { NO_VALUE };
        return Err(failure::without_position(FailureKind::Value, message));
    };
    if written.len() > limits.value_bytes as usize {
        let message = format!(
            "The program returned {} bytes; the maximum is {}. Return fewer records or fields.",
            written.len(),
            limits.value_bytes
        );
        return Err(failure::without_position(FailureKind::Value, &message));
    }
    Ok(written)
}

/// Defines the interface of programs, and returns the object with the functions that the sandbox
/// calls.
fn prepare<'js>(ctx: &Ctx<'js>, cursors: Vec<String>) -> JsResult<Object<'js>> {
    let prelude: Function<'js> = ctx.eval_with_options(PRELUDE, options("prelude"))?;
    let prelude: Object<'js> = prelude.call((functions::native(ctx)?,))?;
    ctx.globals().set("cursors", cursors)?;
    let globals: Object<'js> = prelude.get("globals")?;
    for name in ["tools", "open", "console"] {
        ctx.globals().set(name, globals.get::<_, Value<'js>>(name)?)?;
    }
    Ok(prelude)
}

fn options(file: &str) -> EvalOptions {
    let mut options = EvalOptions::default();
    options.strict = false;
    options.filename = Some(file.to_owned());
    options
}

/// Compiles a program: the body of an asynchronous function, or an expression that is such a
/// function or a value.
fn compile<'js>(ctx: &Ctx<'js>, program: &str) -> JsResult<Value<'js>> {
    let expression = program.trim_end().trim_end_matches(';');
    if !expression.is_empty() {
        // A line break ends a comment in the last line.
        let function = format!("(async function (input, tools) {{ return (\n{expression}\n) }})");
        if let Ok(function) = ctx.eval_with_options::<Function<'js>, _>(function, options(FILE)) {
            let unwrap = "(function (made) { return async (input, tools) => { const value = await made(input, tools); return typeof value === 'function' ? value(input, tools) : value; }; })";
            let unwrap: Function<'js> = ctx.eval_with_options(unwrap, options("prelude"))?;
            return unwrap.call((function,));
        }
        let _ = ctx.catch();
    }
    // In the block, a program may declare variables with the names of the parameters.
    let function = format!("(async function (input, tools) {{{{\n{program}\n}}}})");
    ctx.eval_with_options(function, options(FILE))
}

/// Runs a compiled program to its end, and returns its value as JSON. `None` if the program has no
/// value.
fn follow<'js>(
    ctx: &Ctx<'js>,
    prelude: &Object<'js>,
    made: Value<'js>,
    input: &str,
) -> Result<Option<Vec<u8>>, Failure> {
    let thrown = |error| failure::of_error::<()>(ctx, Err(error), FailureKind::Thrown);
    let input = functions::json(ctx, input.as_bytes()).map_err(thrown)?;
    let start: Function<'js> = prelude.get("start").map_err(thrown)?;
    let settle: Function<'js> = prelude.get("settle").map_err(thrown)?;
    let jobs: Function<'js> = prelude.get("jobs").map_err(thrown)?;
    let promise: Promise<'js> = start.call((made, input)).map_err(thrown)?;
    loop {
        while ctx.execute_pending_job() {}
        if promise.state() != PromiseState::Pending {
            break;
        }
        let waiting: Vec<u32> = jobs.call(()).map_err(thrown)?;
        if waiting.is_empty() {
            return Err(failure::without_position(FailureKind::Stuck, STUCK));
        }
        let (job, result) = host::wait(&waiting);
        functions::settle(ctx, &settle, job, result).map_err(thrown)?;
    }
    let value: Value<'js> = match promise.result() {
        Some(result) => result.map_err(thrown)?,
        None => return Ok(None),
    };
    match value.into_string() {
        Some(text) => Ok(Some(text.to_string().map_err(thrown)?.into_bytes())),
        None => Ok(None),
    }
}
