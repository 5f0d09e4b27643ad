//! Rewrites programs so that they count their steps.
//!
//! Every loop of jq is a recursive definition, a generator, a fold or a nested iteration. The body
//! of each of them begins with the function [`TICK`], or each of its values passes it. Values that
//! contain values pass [`MEASURE`], which limits their size and depth. Both functions return their
//! input, also as paths, so that the result of the program does not change.

use jaq_core::load::lex::StrPart;
use jaq_core::load::parse::{BinaryOp, Def, Pattern, Term};
use jaq_core::ops::Math;
use jaq_core::path::{Opt, Part, Path};

/// The function that counts a step and returns its input.
pub(super) const TICK: &str = "!tick";
/// The function that counts a step for each value inside its input, and returns the input.
pub(super) const MEASURE: &str = "!measure";
/// The function for `*` that checks its operands first.
pub(super) const MULTIPLY: &str = "!multiply";
/// The function for `-` that checks its operands first.
pub(super) const SUBTRACT: &str = "!subtract";
/// The function that divides. It fails on division by zero like jq, where jaq returns infinity.
pub(super) const DIVIDE: &str = "!divide";
/// The function for `%` that removes the decimal places of its operands first, like jq. jaq keeps
/// them.
pub(super) const MODULO: &str = "!modulo";
/// The function that fails if a regular expression costs too much.
pub(super) const CHECK_REGEX: &str = "!check_regex";
/// The function that fails unless its input has elements with numbers. jaq returns null for such an
/// element of an object.
pub(super) const CHECK_LIST: &str = "!check_list";
/// The function that fails if JSON in a text is nested too deeply.
pub(super) const CHECK_JSON: &str = "!check_json";
/// The variable for the right operand of an operator, which jq evaluates first.
const RIGHT: &str = "$!right";
/// The variables for the values of interpolated terms in a text.
const TERMS: [&str; 6] = ["$!0", "$!1", "$!2", "$!3", "$!4", "$!5"];

/// Native functions that read all of their input and arguments, or return a value that is nested
/// more deeply than their input.
const DEEP: [&str; 21] = [
    "tojson",
    "sort",
    "sort_by",
    "group_by",
    "min_by_or_empty",
    "max_by_or_empty",
    "contains",
    "indices",
    "bsearch",
    "implode",
    "explode",
    "reverse",
    "key_values",
    "keys_unsorted",
    "has",
    "path",
    "path_value",
    "tobytes",
    "error_empty",
    "escape_sh",
    "join",
];
const REGEX: [&str; 3] = ["matches", "split_matches", "split_"];

type T<'s> = Term<&'s str>;

/// Rewrites a definition so that each call counts a step.
pub(super) fn rewrite_def(def: Def<&str>) -> Def<&str> {
    Def { name: def.name, args: def.args, body: after(TICK, rewrite(def.body)) }
}

fn call<'s>(name: &'s str, args: Vec<T<'s>>) -> T<'s> {
    Term::Call(name, args)
}

fn pipe<'s>(left: T<'s>, right: T<'s>) -> T<'s> {
    Term::BinOp(Box::new(left), BinaryOp::Pipe(None), Box::new(right))
}

/// Returns `name | term`.
fn after<'s>(name: &'s str, term: T<'s>) -> T<'s> {
    pipe(call(name, Vec::new()), term)
}

/// Returns `term | name`.
fn before<'s>(term: T<'s>, name: &'s str) -> T<'s> {
    pipe(term, call(name, Vec::new()))
}

#[allow(clippy::boxed_local, reason = "the parser boxes terms")]
fn boxed(term: Box<T<'_>>) -> Box<T<'_>> {
    Box::new(rewrite(*term))
}

/// Rewrites a term so that it counts its steps.
pub(super) fn rewrite(term: T<'_>) -> T<'_> {
    match term {
        Term::Id | Term::Num(_) | Term::Break(_) | Term::Var(_) => term,
        Term::Recurse => before(Term::Recurse, TICK),
        Term::Str(format, parts) => rewrite_text(format, parts),
        Term::Arr(None) => Term::Arr(None),
        Term::Arr(Some(inner)) => {
            before(Term::Arr(Some(Box::new(before(rewrite(*inner), TICK)))), MEASURE)
        }
        Term::Obj(members) => {
            let members =
                members.into_iter().map(|(key, value)| (rewrite_key(key), value.map(rewrite)));
            before(Term::Obj(members.collect()), MEASURE)
        }
        Term::Neg(inner) => Term::Neg(boxed(inner)),
        Term::BinOp(left, operator, right) => rewrite_operator(*left, operator, *right),
        Term::Label(name, inner) => Term::Label(name, boxed(inner)),
        Term::Fold(name, values, pattern, args) => {
            let mut args = args.into_iter();
            let first = args.next().map(rewrite);
            let rest = args.map(|body| after(TICK, rewrite(body)));
            let args = first.into_iter().chain(rest).collect();
            Term::Fold(name, boxed(values), rewrite_pattern(pattern), args)
        }
        Term::TryCatch(inner, catch) => Term::TryCatch(boxed(inner), catch.map(boxed)),
        Term::IfThenElse(cases, other) => {
            let cases = cases.into_iter().map(|(test, then)| (rewrite(test), rewrite(then)));
            Term::IfThenElse(cases.collect(), other.map(boxed))
        }
        Term::Def(defs, inner) => {
            Term::Def(defs.into_iter().map(rewrite_def).collect(), boxed(inner))
        }
        Term::Call(name, args) => rewrite_call(name, args),
        Term::Path(inner, path) => {
            let (mut inner, mut parts) = (rewrite(*inner), Vec::new());
            for (part, optional) in path.0 {
                let is_number = matches!(part, Part::Index(Term::Num(_)));
                if is_number && matches!(optional, Opt::Essential) {
                    // jaq updates nothing at a path without parts.
                    if !parts.is_empty() {
                        inner = Term::Path(Box::new(inner), Path(std::mem::take(&mut parts)));
                    }
                    inner = before(inner, CHECK_LIST);
                }
                let part = match part {
                    Part::Index(index) => Part::Index(rewrite_key(index)),
                    Part::Range(from, until) => Part::Range(from.map(rewrite), until.map(rewrite)),
                };
                parts.push((part, optional));
            }
            Term::Path(Box::new(inner), Path(parts))
        }
    }
}

/// Rewrites a text with interpolated terms.
fn rewrite_text<'s>(format: Option<&'s str>, parts: Vec<StrPart<&'s str, T<'s>>>) -> T<'s> {
    let is_several = |part: &&StrPart<&str, T<'_>>| match part {
        StrPart::Term(term) => !is_single(term),
        _ => false,
    };
    let reorder = parts.iter().filter(is_several).count() > 1;
    // jq evaluates the last term first, which shows if several have more than one value.
    let mut bound = Vec::new();
    let mut rewritten = Vec::new();
    for part in parts {
        let StrPart::Term(term) = part else {
            rewritten.push(part);
            continue;
        };
        let variable = TERMS.get(bound.len()).filter(|_| reorder && !is_single(&term));
        let term = before(rewrite(term), MEASURE);
        match variable {
            Some(variable) => {
                bound.push((term, *variable));
                rewritten.push(StrPart::Term(Term::Var(*variable)));
            }
            None => rewritten.push(StrPart::Term(term)),
        }
    }
    let text = before(Term::Str(format, rewritten), TICK);
    bound.into_iter().fold(text, |inner, (term, variable)| {
        let bind = BinaryOp::Pipe(Some(Pattern::Var(variable)));
        Term::BinOp(Box::new(term), bind, Box::new(inner))
    })
}

/// Rewrites the key of an object. A constant text remains; any other key may be a large value, and
/// is measured.
fn rewrite_key(key: T<'_>) -> T<'_> {
    match key {
        Term::Str(_, ref parts) if parts.iter().all(|part| !matches!(part, StrPart::Term(_))) => {
            key
        }
        Term::Num(_) | Term::Var(_) => key,
        key => before(rewrite(key), MEASURE),
    }
}

fn rewrite_pattern(pattern: Pattern<&str>) -> Pattern<&str> {
    match pattern {
        Pattern::Var(name) => Pattern::Var(name),
        Pattern::Arr(parts) => Pattern::Arr(parts.into_iter().map(rewrite_pattern).collect()),
        Pattern::Obj(members) => {
            let member = |(key, pattern)| (rewrite_key(key), rewrite_pattern(pattern));
            Pattern::Obj(members.into_iter().map(member).collect())
        }
    }
}

fn rewrite_operator<'s>(left: T<'s>, operator: BinaryOp<&'s str>, right: T<'s>) -> T<'s> {
    let binary = |left, operator, right| Term::BinOp(Box::new(left), operator, Box::new(right));
    // jq evaluates the right operand first, jaq the left one. That shows if both have several
    // values.
    let reorder = matches!(operator, BinaryOp::Math(_) | BinaryOp::Cmp(_))
        && !(is_single(&left) || is_single(&right));
    let (left, right) = (rewrite(left), rewrite(right));
    if reorder {
        let inner = apply(left, operator, Term::Var(RIGHT));
        return binary(right, BinaryOp::Pipe(Some(Pattern::Var(RIGHT))), inner);
    }
    match operator {
        BinaryOp::Pipe(pattern) => {
            binary(left, BinaryOp::Pipe(pattern.map(rewrite_pattern)), after(TICK, right))
        }
        BinaryOp::Assign | BinaryOp::UpdateAlt => {
            before(binary(left, operator, before(right, MEASURE)), TICK)
        }
        BinaryOp::Update => {
            before(binary(left, operator, after(TICK, before(right, MEASURE))), TICK)
        }
        BinaryOp::UpdateMath(math) => {
            // `f *= g` is `g as $x | f |= . * $x`.
            let update = apply(Term::Id, BinaryOp::Math(math), Term::Var(RIGHT));
            let update = before(binary(left, BinaryOp::Update, after(TICK, update)), TICK);
            binary(before(right, MEASURE), BinaryOp::Pipe(Some(Pattern::Var(RIGHT))), update)
        }
        operator => apply(left, operator, right),
    }
}

/// Applies an operator to rewritten operands.
fn apply<'s>(left: T<'s>, operator: BinaryOp<&'s str>, right: T<'s>) -> T<'s> {
    let binary = |left, operator, right| Term::BinOp(Box::new(left), operator, Box::new(right));
    match operator {
        BinaryOp::Math(Math::Mul) => before(call(MULTIPLY, vec![left, right]), TICK),
        BinaryOp::Math(Math::Sub) => before(call(SUBTRACT, vec![left, right]), TICK),
        BinaryOp::Math(Math::Div) => before(call(DIVIDE, vec![left, right]), TICK),
        BinaryOp::Math(Math::Rem) => before(call(MODULO, vec![left, right]), TICK),
        BinaryOp::Math(_) => before(binary(left, operator, right), TICK),
        BinaryOp::Cmp(_) => before(binary(measured(left), operator, measured(right)), TICK),
        operator => binary(left, operator, right),
    }
}

/// Returns a term whose values are measured before a comparison.
fn measured(term: T<'_>) -> T<'_> {
    match term {
        Term::Num(_) => term,
        term => before(term, MEASURE),
    }
}

fn rewrite_call<'s>(name: &'s str, args: Vec<T<'s>>) -> T<'s> {
    let count = args.len();
    let args: Vec<T<'s>> = args.into_iter().map(rewrite).collect();
    let mut args = args;
    if matches!((name, count), ("contains" | "indices" | "bsearch" | "has", 1)) {
        args = args.into_iter().map(|arg| before(arg, MEASURE)).collect();
    }
    match name {
        "range" => before(call(name, args), TICK),
        "fromjson" => after(CHECK_JSON, before(call(name, args), MEASURE)),
        _ if REGEX.contains(&name) && count == 2 => {
            let check = call(CHECK_REGEX, args.clone());
            before(pipe(check, call(name, args)), MEASURE)
        }
        _ if DEEP.contains(&name) => after(MEASURE, before(call(name, args), TICK)),
        _ => call(name, args),
    }
}

/// Returns true if a term has at most one value for each input.
fn is_single(term: &T<'_>) -> bool {
    match term {
        Term::Id | Term::Num(_) | Term::Var(_) | Term::Arr(_) => true,
        Term::Str(_, parts) => parts.iter().all(|part| match part {
            StrPart::Term(term) => is_single(term),
            _ => true,
        }),
        Term::Neg(inner) => is_single(inner),
        Term::Call(name, args) => {
            args.is_empty()
                && matches!(
                    *name,
                    "length"
                        | "tostring"
                        | "tonumber"
                        | "add"
                        | "type"
                        | "keys"
                        | "min"
                        | "max"
                        | "floor"
                )
        }
        Term::Path(inner, path) => {
            is_single(inner)
                && path.0.iter().all(|(part, _)| match part {
                    Part::Index(index) => is_single(index),
                    Part::Range(None, None) => false,
                    Part::Range(from, until) => {
                        from.as_ref().is_none_or(is_single) && until.as_ref().is_none_or(is_single)
                    }
                })
        }
        Term::BinOp(left, operator, right) => {
            matches!(operator, BinaryOp::Math(_) | BinaryOp::Cmp(_) | BinaryOp::Pipe(None))
                && is_single(left)
                && is_single(right)
        }
        _ => false,
    }
}

/// Returns true if a program first reads a member of its input, such as `.id?` does. Such a
/// program reads nothing of a list.
pub(super) fn reads_member(term: &T<'_>) -> bool {
    match term {
        Term::Path(inner, path) if matches!(**inner, Term::Id) => {
            matches!(path.0.first(), Some((Part::Index(Term::Str(..)), _)))
        }
        Term::Path(inner, _) | Term::TryCatch(inner, _) | Term::Def(_, inner) => {
            reads_member(inner)
        }
        Term::BinOp(left, BinaryOp::Pipe(None), _) => reads_member(left),
        Term::BinOp(left, _, right) => reads_member(left) || reads_member(right),
        Term::Obj(members) => {
            members.iter().any(|(_, value)| value.as_ref().is_some_and(reads_member))
        }
        Term::Call("select", args) => args.iter().any(reads_member),
        _ => false,
    }
}

/// Returns the keys that a program reads, without those that it creates itself.
pub(super) fn keys(term: &T<'_>) -> Vec<String> {
    let (mut read, mut made) = (Vec::new(), Vec::new());
    collect(term, &mut read, &mut made);
    read.retain(|key| !made.contains(key));
    read.sort_unstable();
    read.dedup();
    read
}

fn text<'t>(term: &'t T<'_>) -> Option<&'t str> {
    match term {
        Term::Str(None, parts) => match parts.as_slice() {
            [StrPart::Str(text)] => Some(text),
            _ => None,
        },
        _ => None,
    }
}

fn collect(term: &T<'_>, read: &mut Vec<String>, made: &mut Vec<String>) {
    let mut each = |term: &T<'_>| collect(term, read, made);
    match term {
        Term::Id | Term::Recurse | Term::Num(_) | Term::Break(_) | Term::Arr(None) => {}
        Term::Var(name) => made.extend(name.strip_prefix('$').map(str::to_owned)),
        Term::Str(_, parts) => parts.iter().for_each(|part| {
            if let StrPart::Term(term) = part {
                each(term);
            }
        }),
        Term::Arr(Some(inner)) | Term::Neg(inner) | Term::Label(_, inner) => each(inner),
        Term::Obj(members) => {
            for (key, value) in members {
                match value {
                    // `{name}` reads the key that it makes.
                    None => read.extend(text(key).map(str::to_owned)),
                    Some(_) => made.extend(text(key).map(str::to_owned)),
                }
                collect(key, read, made);
                value.iter().for_each(|value| collect(value, read, made));
            }
        }
        Term::BinOp(left, _, right) => {
            each(left);
            each(right);
        }
        Term::Fold(_, values, _, args) => {
            each(values);
            args.iter().for_each(each);
        }
        Term::TryCatch(inner, catch) => {
            each(inner);
            catch.iter().for_each(|catch| each(catch));
        }
        Term::IfThenElse(cases, other) => {
            for (test, then) in cases {
                each(test);
                each(then);
            }
            other.iter().for_each(|other| each(other));
        }
        Term::Def(defs, inner) => {
            defs.iter().for_each(|def| each(&def.body));
            each(inner);
        }
        Term::Call(name, args) => {
            // These have members of their own.
            let keys: &[&str] = match *name {
                "to_entries" | "with_entries" => &["key", "value"],
                "match" | "capture" => &["offset", "length", "string", "captures", "name"],
                _ => &[],
            };
            made.extend(keys.iter().map(|key| (*key).to_owned()));
            args.iter().for_each(|arg| collect(arg, read, made));
        }
        Term::Path(inner, path) => {
            each(inner);
            for (part, _) in &path.0 {
                if let Part::Index(index) = part {
                    read.extend(text(index).map(str::to_owned));
                    collect(index, read, made);
                }
            }
        }
    }
}
