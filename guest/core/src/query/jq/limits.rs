//! Limits for running programs: steps, depth, memory, and the size of values.

use std::cell::Cell;

use jaq_core::box_iter::box_once;
use jaq_core::native::{Fun, bome, v};
use jaq_core::{Exn, Lut, Native, ValXs};
use jaq_json::{Num, Val};
use jaq_std::ValT as _;

use super::bound::{
    CHECK_JSON, CHECK_LIST, CHECK_REGEX, DIVIDE, MEASURE, MODULO, MULTIPLY, SUBTRACT, TICK,
};
use crate::query::grep::Pattern;

/// The maximum number of steps of a program. A step takes up to a microsecond.
const MAX_STEPS: u64 = 3_000_000;
/// The maximum stack size of nested calls, in bytes.
const MAX_STACK_BYTES: usize = if cfg!(target_arch = "wasm32") { 192 * 1024 } else { 640 * 1024 };
/// The maximum growth of a WebAssembly module's memory, in pages of 64 KiB. A growing list is
/// copied, which temporarily takes twice its size. In other builds, the number of steps limits the
/// memory: a step may allocate a few hundred bytes.
const MAX_MEMORY_PAGES: usize = 96 * 16;
/// The number of steps between two checks of the memory.
const MEMORY_CHECK_STEPS: u64 = 4_096;
/// The maximum length of a text, in bytes.
const MAX_TEXT_BYTES: usize = 16 * 1024 * 1024;
/// The maximum number of elements of a list.
const MAX_ELEMENTS: usize = 2_000_000;
/// The maximum depth of a value.
pub(super) const MAX_DEPTH: usize = 300;
/// The maximum number of bits of a whole number.
const MAX_BITS: u64 = 4_096;

/// The reason why a program was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    Steps,
    Memory,
    Recursion,
    Size,
    Depth,
    Regex,
    Output,
}

const STOPS: [Stop; 7] = [
    Stop::Steps,
    Stop::Memory,
    Stop::Recursion,
    Stop::Size,
    Stop::Depth,
    Stop::Regex,
    Stop::Output,
];

impl Stop {
    /// Returns the exit code with which the interpreter halts. Programs cannot catch it.
    fn code(self) -> i32 {
        STOPS
            .iter()
            .position(|stop| *stop == self)
            .and_then(|at| i32::try_from(at).ok())
            .unwrap_or(0)
    }

    pub(super) fn from_code(code: i32) -> Self {
        usize::try_from(code).ok().and_then(|at| STOPS.get(at)).copied().unwrap_or(Stop::Steps)
    }

    /// Returns the error message for the caller.
    pub(super) fn explain(self) -> String {
        match self {
            Stop::Steps => format!(
                "jq: the program was stopped after {MAX_STEPS} steps: it may be endless; narrow the input with path or where, or end the loop"
            ),
            Stop::Memory => "jq: the program takes too much memory: narrow the input with path or where, or collect fewer values".to_owned(),
            Stop::Recursion => "jq: the program calls itself too deeply: write the recursion as reduce, foreach, until or recurse".to_owned(),
            Stop::Size => format!(
                "jq: a value exceeds {} MB or {MAX_ELEMENTS} elements: compute less at once",
                MAX_TEXT_BYTES / 1024 / 1024
            ),
            Stop::Depth => format!("jq: a value is nested deeper than {MAX_DEPTH} levels"),
            Stop::Regex => "jq: the regular expression takes too long on a text of this size: write a shorter pattern, or use contains, startswith or grep".to_owned(),
            Stop::Output => format!(
                "jq: the results exceed {} MB: select fewer fields or records",
                super::MAX_OUTPUT_BYTES / 1024 / 1024
            ),
        }
    }
}

/// The data of a running program: its functions, and its remaining steps.
pub(super) struct Meter<'a> {
    lut: &'a Lut<JqData>,
    steps: Cell<u64>,
    /// The address of the stack top when the program started.
    base: usize,
    /// The size of the memory when the program started, in pages.
    start_pages: usize,
}

/// The types of values and data in programs.
pub(super) struct JqData;

impl jaq_core::DataT for JqData {
    type V<'a> = Val;
    type Data<'a> = &'a Meter<'a>;
}

impl<'a> jaq_core::data::HasLut<'a, JqData> for &'a Meter<'a> {
    fn lut(&self) -> &'a Lut<JqData> {
        self.lut
    }
}

/// Returns the approximate address of the top of the stack.
#[inline(never)]
fn stack_address() -> usize {
    let place = 0u8;
    std::ptr::from_ref(std::hint::black_box(&place)) as usize
}

/// Returns the size of the module's memory in pages.
#[cfg(target_arch = "wasm32")]
fn memory_pages() -> usize {
    core::arch::wasm32::memory_size(0)
}

/// Returns 0: only a WebAssembly module knows the size of its memory.
#[cfg(not(target_arch = "wasm32"))]
fn memory_pages() -> usize {
    0
}

impl<'a> Meter<'a> {
    pub(super) fn new(lut: &'a Lut<JqData>) -> Self {
        let (base, start_pages) = (stack_address(), memory_pages());
        Self { lut, steps: Cell::new(MAX_STEPS), base, start_pages }
    }

    /// Counts `steps` steps, and checks the memory and the depth of calls.
    fn count(&self, steps: u64) -> Result<(), Stop> {
        let steps = steps.max(1);
        let left = self.steps.get().checked_sub(steps).ok_or(Stop::Steps)?;
        self.steps.set(left);
        if left / MEMORY_CHECK_STEPS != (left + steps) / MEMORY_CHECK_STEPS
            && memory_pages() > self.start_pages + MAX_MEMORY_PAGES
        {
            return Err(Stop::Memory);
        }
        if self.base.abs_diff(stack_address()) > MAX_STACK_BYTES {
            return Err(Stop::Recursion);
        }
        Ok(())
    }

    /// Counts a step that created or passed on a value, and checks the size of the value.
    fn tick(&self, value: &Val) -> Result<(), Stop> {
        match value {
            Val::TStr(text) | Val::BStr(text) if text.len() > MAX_TEXT_BYTES => Err(Stop::Size),
            // A step may have copied the value.
            Val::TStr(text) | Val::BStr(text) => self.count(text.len() as u64 / 1_024),
            Val::Arr(list) if list.len() > MAX_ELEMENTS => Err(Stop::Size),
            Val::Arr(list) => self.count(list.len() as u64 / 1_024),
            Val::Num(Num::BigInt(number)) if number.bits() > MAX_BITS => Err(Stop::Size),
            _ => self.count(1),
        }
    }

    /// Counts a step for each value inside `value`. Fails if their depth or size exceeds a limit.
    fn measure(&self, value: &Val, depth: usize) -> Result<(), Stop> {
        if depth > MAX_DEPTH {
            return Err(Stop::Depth);
        }
        self.tick(value)?;
        match value {
            Val::Arr(list) => list.iter().try_for_each(|value| self.measure(value, depth + 1)),
            Val::Obj(object) => object.iter().try_for_each(|(key, value)| {
                if let Val::Arr(_) | Val::Obj(_) = key {
                    self.measure(key, depth + 1)?;
                }
                self.measure(value, depth + 1)
            }),
            _ => Ok(()),
        }
    }

    fn check_multiply(left: &Val, right: &Val) -> Result<(), Stop> {
        let length = |value: &Val| match value {
            Val::TStr(text) | Val::BStr(text) => Some(text.len()),
            _ => None,
        };
        let (text, number) = match (length(left), length(right)) {
            (Some(text), None) => (text, right),
            (None, Some(text)) => (text, left),
            _ => return Ok(()),
        };
        let Val::Num(number) = number else { return Ok(()) };
        let times: f64 = number.to_string().parse().unwrap_or(f64::INFINITY);
        #[allow(clippy::cast_precision_loss, reason = "a limit need not be exact")]
        if text as f64 * times > MAX_TEXT_BYTES as f64 { Err(Stop::Size) } else { Ok(()) }
    }

    fn check_subtract(&self, left: &Val, right: &Val) -> Result<(), Stop> {
        let (Val::Arr(left), Val::Arr(right)) = (left, right) else { return Ok(()) };
        // Each element is compared with each other.
        self.count((left.len() as u64).saturating_mul(right.len() as u64) / 4)
    }

    fn check_regex(&self, text: &Val, pattern: &Val) -> Result<(), Stop> {
        let (Val::TStr(text), Val::TStr(pattern)) = (text, pattern) else { return Ok(()) };
        let Ok(pattern) = std::str::from_utf8(pattern) else { return Ok(()) };
        self.count(pattern.len() as u64)?;
        if text.len() < 1_024 && pattern.len() < 100 && !pattern.contains('{') {
            return self.count(text.len() as u64 / 16);
        }
        // An invalid pattern is reported by the function itself.
        let Ok(compiled) = Pattern::new(pattern, Some(false)) else {
            return if pattern.len() > 200 { Err(Stop::Regex) } else { Ok(()) };
        };
        if text.len() > compiled.max_engine_bytes() {
            return Err(Stop::Regex);
        }
        let factor = (8 * 1024 * 1024 / compiled.max_engine_bytes().max(1)) as u64;
        self.count((text.len() as u64 / 64).saturating_mul(factor))
    }
}

/// Converts a number without decimal places to an integer, because jq writes 4 / 2 as 2, but jaq as
/// 2.0.
pub(super) fn normalized(value: Val) -> Val {
    match value {
        Val::Num(Num::Float(float)) if float.fract() == 0.0 && float.abs() < 1e17 => {
            // Minus zero has no decimal places either.
            let whole = Num::from_str_radix(&format!("{:.0}", float + 0.0), 10);
            Val::Num(whole.unwrap_or(Num::Float(float)))
        }
        value => value,
    }
}

/// Removes the decimal places of a number, as jq does before `%`. Returns other values unchanged.
fn truncated(value: Val) -> Val {
    match value.as_f64().filter(|float| float.fract() != 0.0) {
        Some(float) => normalized(Val::from(float.trunc())),
        None => normalized(value),
    }
}

fn not_a_list(object: &Val) -> jaq_core::Error<Val> {
    let Val::Obj(members) = object else { return jaq_core::Error::str("cannot index") };
    let names: Vec<String> = members.keys().take(5).map(ToString::to_string).collect();
    jaq_core::Error::str(format_args!(
        "cannot index an object with a number; it has the keys {}",
        names.join(", ")
    ))
}

fn stopped<'a, X: 'a>(stop: Stop) -> ValXs<'a, X, Val> {
    box_once(Err(Exn::halt(stop.code())))
}

/// Creates a jq function that returns its input if a check succeeds. It also works as a path.
fn checked(
    name: &'static str,
    run: jaq_core::RunPtr<JqData>,
    paths: jaq_core::PathsPtr<JqData>,
    update: jaq_core::UpdatePtr<JqData>,
) -> Fun<JqData> {
    (name, v(0), Native::<JqData>::new(run).with_paths(paths).with_update(update))
}

/// Returns the functions that programs may call.
pub(super) fn functions() -> impl Iterator<Item = Fun<JqData>> {
    let tick = checked(
        TICK,
        |(context, value)| match context.data().tick(&value) {
            Ok(()) => bome(Ok(normalized(value))),
            Err(stop) => stopped(stop),
        },
        |(context, place)| match context.data().tick(&place.0) {
            Ok(()) => box_once(Ok(place)),
            Err(stop) => stopped(stop),
        },
        |(context, value), update| match context.data().tick(&value) {
            Ok(()) => update(value),
            Err(stop) => stopped(stop),
        },
    );
    let measure = checked(
        MEASURE,
        |(context, value)| match context.data().measure(&value, 0) {
            Ok(()) => bome(Ok(value)),
            Err(stop) => stopped(stop),
        },
        |(context, place)| match context.data().measure(&place.0, 0) {
            Ok(()) => box_once(Ok(place)),
            Err(stop) => stopped(stop),
        },
        |(context, value), update| match context.data().measure(&value, 0) {
            Ok(()) => update(value),
            Err(stop) => stopped(stop),
        },
    );
    let list = checked(
        CHECK_LIST,
        |(_, value)| match &value {
            Val::Obj(_) => bome(Err(not_a_list(&value))),
            _ => bome(Ok(value)),
        },
        |(_, place)| match &place.0 {
            Val::Obj(_) => box_once(Err(not_a_list(&place.0).into())),
            _ => box_once(Ok(place)),
        },
        |(_, value), update| match &value {
            Val::Obj(_) => box_once(Err(not_a_list(&value).into())),
            _ => update(value),
        },
    );
    let multiply: Fun<JqData> = (
        MULTIPLY,
        v(2),
        Native::<JqData>::new(|(mut context, _)| {
            let right = context.pop_var();
            let left = context.pop_var();
            match Meter::check_multiply(&left, &right) {
                Ok(()) => bome(left * right),
                Err(stop) => stopped(stop),
            }
        }),
    );
    let divide: Fun<JqData> = (
        DIVIDE,
        v(2),
        Native::<JqData>::new(|(mut context, _)| {
            let right = context.pop_var();
            let left = context.pop_var();
            let is_zero =
                matches!(&right, Val::Num(number) if number.to_string().parse() == Ok(0.0));
            if is_zero && matches!(left, Val::Num(_)) {
                return bome(Err(jaq_core::Error::str(format_args!(
                    "{left} and {right} cannot be divided because the divisor is zero"
                ))));
            }
            bome(left / right)
        }),
    );
    let modulo: Fun<JqData> = (
        MODULO,
        v(2),
        Native::<JqData>::new(|(mut context, _)| {
            let right = truncated(context.pop_var());
            let left = truncated(context.pop_var());
            bome(left % right)
        }),
    );
    let subtract: Fun<JqData> = (
        SUBTRACT,
        v(2),
        Native::<JqData>::new(|(mut context, _)| {
            let right = context.pop_var();
            let left = context.pop_var();
            match context.data().check_subtract(&left, &right) {
                Ok(()) => bome(left - right),
                Err(stop) => stopped(stop),
            }
        }),
    );
    let regex: Fun<JqData> = (
        CHECK_REGEX,
        v(2),
        Native::<JqData>::new(|(mut context, text)| {
            let _flags = context.pop_var();
            let pattern = context.pop_var();
            match context.data().check_regex(&text, &pattern) {
                Ok(()) => bome(Ok(text)),
                Err(stop) => stopped(stop),
            }
        }),
    );
    let json: Fun<JqData> = (
        CHECK_JSON,
        v(0),
        Native::<JqData>::new(|(_, text)| match &text {
            Val::TStr(json) if super::depth(json) > super::MAX_INPUT_DEPTH => stopped(Stop::Depth),
            _ => bome(Ok(text)),
        }),
    );
    let core = jaq_core::funs::<JqData>();
    let library = jaq_std::base_funs::<JqData>();
    core.chain(library)
        .chain(jaq_json::funs::<JqData>())
        .filter(|(name, ..)| !["halt", "fromjson", "has"].contains(name))
        .chain([tick, measure, list, multiply, divide, modulo, subtract, regex, json])
}
