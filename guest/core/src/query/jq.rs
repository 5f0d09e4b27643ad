//! Programs in the jq language, run within limits by the interpreter jaq.
//!
//! Programs have no functions for input, environment, modules and the clock. [`bound`] rewrites a
//! program so that it counts its steps. Endless programs and huge values end with an error.

mod bound;
mod dates;
mod explain;
mod limits;
mod natives;
mod output;
mod read;

use jaq_core::load::{Arena, File, Loader, parse::Def};
use jaq_core::{Compiler, Ctx, Vars};
use jaq_json::Val;

use self::limits::{JqData, Meter, Stop};

/// The maximum size of the input, in bytes of JSON.
pub(super) const MAX_INPUT_BYTES: usize = 16 * 1024 * 1024;
/// The maximum length of a program, in bytes.
const MAX_PROGRAM_BYTES: usize = 4_096;
/// The maximum depth of brackets in a program.
const MAX_PROGRAM_DEPTH: usize = 40;
/// The maximum number of operators in a program that may nest, such as `|` and `if`.
const MAX_NESTED_OPERATORS: usize = 160;
/// The maximum number of results.
const MAX_RESULTS: usize = 200_000;
/// The maximum size of all results, in bytes of JSON.
const MAX_OUTPUT_BYTES: usize = 8 * 1024 * 1024;
/// The maximum depth of the input. The parsers of JSON are recursive.
const MAX_INPUT_DEPTH: usize = 200;

/// The name of the jq definition that contains the caller's program.
const MAIN: &str = "__program";

/// Definitions of the standard library to remove: they need input, environment or time, terminate
/// the host process, need functions that this build lacks, or are defined differently here.
const LEFT_OUT: [&str; 14] = [
    "stderr",
    "debug",
    "halt",
    "halt_error",
    "todate",
    "fromdate",
    "logb",
    "significand",
    "drem",
    "nexttoward",
    "scalb",
    "gamma",
    "pow10",
    "tobytes",
];

/// Definitions of jq that jaq lacks, or defines differently.
const DEFINITIONS: &str = include_str!("jq/definitions.jq");

/// The results of a program.
pub(super) struct JqResults {
    /// The single result, or a JSON list of several.
    pub(super) bytes: Vec<u8>,
    /// True if the single result is a text, which is then not quoted.
    pub(super) is_text: bool,
    /// The number of results of the program.
    pub(super) count: usize,
    /// Notes about keys of the program that do not occur in the input, and about a program that ran
    /// on each line or record.
    pub(super) notes: Vec<String>,
}

/// Checks the syntax of a program.
///
/// # Errors
/// Returns a message for the caller with the position and the reason.
pub(super) fn validate(program: &str) -> Result<(), String> {
    compile(program).map(drop)
}

/// Runs a program on a JSON document.
///
/// # Errors
/// Returns a message for the caller if the program is invalid, fails, or exceeds a limit.
pub(super) fn run(program: &str, input: &[u8]) -> Result<JqResults, String> {
    if input.len() > MAX_INPUT_BYTES {
        return Err(format!(
            "jq takes at most {MAX_INPUT_BYTES} bytes, and this answer has {}: narrow it with path, or use where and aggregate, which have no such limit",
            input.len()
        ));
    }
    let (filter, keys) = compile(program)?;
    let value = read::read(input)?;
    let meter = Meter::new(&filter.lut);
    let context = Ctx::<JqData>::new(&meter, Vars::new([]));
    let mut results = output::Output::new(MAX_OUTPUT_BYTES);
    let mut first_text = None;
    for result in filter.id.run((context, value)) {
        let value = match result {
            Ok(value) => value,
            Err(exception) => {
                let reason = match exception.get_halt() {
                    Ok(code) => return Err(Stop::from_code(code).explain()),
                    Err(exception) => exception.get_err().map(|error| error.to_string()),
                };
                let reason = reason.unwrap_or_else(|_| "break leaves no label".to_owned());
                return Err(explain::failure(&reason, results.count(), input));
            }
        };
        if results.count() >= MAX_RESULTS {
            return Err(format!(
                "jq: the program has more than {MAX_RESULTS} results: write limit(100; …), or count them with [ … ] | length"
            ));
        }
        first_text = match &value {
            Val::TStr(text) if results.count() == 0 => Some(text.to_vec()),
            _ => None,
        };
        results.push(&value).map_err(Stop::explain)?;
    }
    let count = results.count();
    let notes = explain::absent_keys(&keys, input);
    let (bytes, is_text) = match first_text.filter(|_| count == 1) {
        Some(text) => (text, true),
        None => (results.into_bytes(), false),
    };
    Ok(JqResults { bytes, is_text, count, notes })
}

/// Runs a program on lines or records, which `input` contains as a list. If the program fails on
/// the list, or reads a member of it without a result, runs it on each element instead, as the
/// command jq does with lines.
///
/// # Errors
/// Returns the errors of [`run`].
pub(super) fn run_on_lines(program: &str, input: &[u8]) -> Result<JqResults, String> {
    let whole = run(program, input);
    let is_for_elements = match &whole {
        Err(reason) => reason.starts_with("jq failed: cannot "),
        // `.id?` ignores that a list has no members.
        Ok(results) => {
            results.count == 0
                && explain::parse(program).is_ok_and(|term| bound::reads_member(&term))
        }
    };
    if !is_for_elements {
        return whole;
    }
    match (run(&format!(".[] | ({program}\n)"), input), whole) {
        (Ok(results), Ok(whole)) if results.count == 0 => Ok(whole),
        (Ok(mut results), _) => {
            results.notes.insert(0, "run on each line or record".to_owned());
            Ok(results)
        }
        // A limit is reported, unlike a failure on an element.
        (Err(error), Err(_)) if !error.starts_with("jq failed") => Err(error),
        (Err(_), whole) => whole,
    }
}

type Compiled = (jaq_core::Filter<JqData>, Vec<String>);

/// Compiles a program. Also returns the keys that the program reads.
fn compile(program: &str) -> Result<Compiled, String> {
    check_size(program)?;
    let term = explain::parse(program)?;
    let keys = bound::keys(&term);
    let main = Def { name: MAIN, args: Vec::new(), body: bound::rewrite(term) };
    let own = jaq_core::load::parse(DEFINITIONS, |parser| parser.defs()).unwrap_or_default();
    let library = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs()).chain(own);
    let library = library.filter(|def| !LEFT_OUT.contains(&def.name));
    let arena = Arena::default();
    let loader = Loader::new(bounded(library).chain([main]));
    let modules = loader
        .load(&arena, File { code: MAIN, path: () })
        .map_err(|_| "jq: the program cannot be loaded".to_owned())?;
    let filter = Compiler::default()
        .with_funs(limits::functions().chain(natives::functions()).chain(dates::functions()))
        .compile(modules)
        .map_err(|errors| explain::undefined(program, &errors))?;
    Ok((filter, keys))
}

/// Rewrites the definitions of a library so that they count their steps.
fn bounded<'s>(
    library: impl Iterator<Item = Def<&'static str>>,
) -> impl Iterator<Item = Def<&'s str>> {
    library.map(|def| -> Def<&'s str> { bound::rewrite_def(def) })
}

/// Returns an error if the program is too large for the recursive parser and compiler.
fn check_size(program: &str) -> Result<(), String> {
    if program.len() > MAX_PROGRAM_BYTES {
        return Err(format!(
            "jq has {} bytes; at most {MAX_PROGRAM_BYTES} are accepted",
            program.len()
        ));
    }
    let (mut depth, mut deepest) = (0usize, 0usize);
    for byte in program.bytes() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    let words = program.split(|c: char| !c.is_alphanumeric());
    let nesting = ["if", "try", "reduce", "foreach", "def", "label", "as"];
    let operators = program.bytes().filter(|byte| b"|-,/".contains(byte)).count()
        + words.filter(|word| nesting.contains(word)).count();
    if deepest > MAX_PROGRAM_DEPTH || operators > MAX_NESTED_OPERATORS {
        return Err(format!(
            "jq: the program is nested too deeply: at most {MAX_PROGRAM_DEPTH} brackets and {MAX_NESTED_OPERATORS} operators are accepted"
        ));
    }
    Ok(())
}

/// Returns the nesting depth of a JSON document.
fn depth(json: &[u8]) -> usize {
    let (mut depth, mut deepest, mut in_string, mut is_escaped) = (0usize, 0usize, false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests;
