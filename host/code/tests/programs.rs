//! Programs in the sandbox: what they can do, and hostile ones that must harm nobody.
//!
//! They need the sandbox as a component, which `cargo xtask test` builds.
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests: a panic is a failure"
)]

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use context_guard_code::{
    Outcome, Program, ProgramHost, RowsPart, RunError, RunLimits, Sandbox, StoredAnswer,
};
use context_guard_engine::{AddressSpace, Engine, EngineOptions};
use context_guard_test_kit::skips::skip;

/// The sandbox. None without a build of it: then each test is skipped by [`has_sandbox`], and a
/// program that runs all the same panics.
static SANDBOX: LazyLock<Option<Sandbox>> = LazyLock::new(|| {
    let Some(path) = std::env::var_os("CONTEXT_GUARD_CODE_EMBED") else {
        skip("programs: no sandbox is built, which `cargo xtask test` does");
        return None;
    };
    let options =
        EngineOptions { address_space: AddressSpace::Bounded, ..EngineOptions::default() };
    let engine = Engine::new(EngineOptions { max_calls: 8, ..options }).unwrap();
    Some(Sandbox::load(&engine, &std::fs::read(path).unwrap()).unwrap())
});

/// Returns true if there is a sandbox. Each test begins with this.
fn has_sandbox() -> bool {
    SANDBOX.is_some()
}

/// A host with an echo tool, failing tools, tools that never answer, and stored records.
#[derive(Default)]
struct TestHost {
    ended: Vec<(u32, Result<Vec<u8>, String>)>,
    started: Arc<Mutex<Vec<String>>>,
    /// For each opened answer, the number of rows and the id of the first.
    rows: HashMap<u32, (u64, u64)>,
    /// The signal that the tool `cancel` sets.
    cancelled: Arc<AtomicBool>,
}

impl ProgramHost for TestHost {
    fn start_call(&mut self, server: &str, tool: &str, arguments: &str) -> Result<u32, String> {
        let mut started = self.started.lock().unwrap();
        if started.len() >= 50 {
            return Err("a run makes at most 50 calls (maxCalls)".to_owned());
        }
        started.push(format!("{server}.{tool}{arguments}"));
        let job = u32::try_from(started.len()).unwrap();
        let text = |text: &str| {
            let content = serde_json::json!([{"type": "text", "text": text}]);
            Ok(serde_json::json!({"content": content}).to_string().into_bytes())
        };
        match tool {
            "echo" => self.ended.push((job, text(arguments))),
            "plain" => self.ended.push((job, text("only words"))),
            "structured" => {
                let result = serde_json::json!({"content": [], "structuredContent": {"n": 1}});
                self.ended.push((job, Ok(result.to_string().into_bytes())));
            }
            "wrapped" => {
                let result = serde_json::json!({"content": [], "structuredContent":
                    {"result": "{\"n\":1}"}, "_meta": {"fastmcp": {"wrap_result": true}}});
                self.ended.push((job, Ok(result.to_string().into_bytes())));
            }
            "fails" => {
                let content = serde_json::json!([{"type": "text", "text": "no such order"}]);
                let result = serde_json::json!({"content": content, "isError": true});
                self.ended.push((job, Ok(result.to_string().into_bytes())));
            }
            "deep" => self.ended.push((job, text(&"[".repeat(1_000_000)))),
            "context_guard_run" => return Err("a program cannot run programs".to_owned()),
            "never" => {}
            "cancel" => self.cancelled.store(true, Ordering::Relaxed),
            _ => self.ended.push((job, Err("no such tool".to_owned()))),
        }
        Ok(job)
    }

    fn wait(&mut self, _: &[u32], deadline: Instant) -> Option<(u32, Result<Vec<u8>, String>)> {
        if let Some(ended) = self.ended.pop() {
            return Some(ended);
        }
        std::thread::sleep(deadline.saturating_duration_since(Instant::now()));
        None
    }

    fn names(&mut self, server: &str, _: Instant) -> Option<Result<Vec<String>, String>> {
        Some(match server {
            "" => Ok(vec!["shop".to_owned(), "my server".to_owned()]),
            "shop" => Ok(vec!["echo".to_owned(), "fails".to_owned()]),
            _ => Err(format!("there is no server `{server}`; the servers are shop")),
        })
    }

    fn open(&mut self, cursor: &str) -> Result<StoredAnswer, String> {
        let number = cursor.strip_prefix("rows-").or(cursor.strip_prefix("big-"));
        let count = number.and_then(|count| count.parse().ok());
        let count = count.ok_or_else(|| "cursor_invalid: this is no cursor".to_owned())?;
        let handle = u32::try_from(self.rows.len()).unwrap();
        let first = if cursor.starts_with("big") { 9_007_199_254_740_993 } else { 0 };
        self.rows.insert(handle, (count, first));
        Ok(StoredAnswer { handle, count, has_records: true })
    }

    fn read_rows(&mut self, handle: u32, start: u64) -> Result<RowsPart, String> {
        let (count, first) = self.rows[&handle];
        let next = (start + 1_000).min(count);
        let row = |id: u64| {
            format!(r#"{{"id":{},"group":"g{}","amount":{}}}"#, first + id, id % 3, id * 2)
        };
        let rows = (start..next).map(row).collect::<Vec<_>>().join(",");
        Ok(RowsPart { rows: format!("[{rows}]").into_bytes(), next })
    }

    fn read_whole(&mut self, _: u32) -> Result<Vec<u8>, String> {
        Ok(b"[1,2]".to_vec())
    }
}

/// The time of programs that never end.
const DEADLINE: Duration = Duration::from_millis(400);
/// The time of programs that end by themselves. It only bounds a test that hangs.
const HANG_LIMIT: Duration = Duration::from_secs(600);
const MEMORY: usize = 48 << 20;

fn run_with(source: &str, input: &str, deadline: Duration) -> Outcome {
    run_within(MEMORY, source, input, deadline)
}

fn run_within(memory_bytes: usize, source: &str, input: &str, deadline: Duration) -> Outcome {
    let sandbox = SANDBOX.as_ref().unwrap();
    let limits = RunLimits {
        deadline: Instant::now() + deadline,
        cancelled: Arc::new(AtomicBool::new(false)),
        memory_bytes,
        value_bytes: 1 << 20,
        log_bytes: 2_000,
    };
    let cursors = ["rows-10".to_owned()];
    let program = Program {
        source,
        input,
        cursors: &cursors,
        principal: "ann",
        started_ms: 1_700_000_000_000,
    };
    sandbox.run(program, &limits, Box::new(TestHost::default()))
}

/// Returns the value of a program as JSON text.
fn value(source: &str) -> String {
    let outcome = run_with(source, r#"{"a":[1,2,3]}"#, HANG_LIMIT);
    match outcome.value {
        Ok(value) => String::from_utf8(value).unwrap(),
        Err(error) => panic!("{source}: {error}"),
    }
}

/// Returns the error of a program.
fn error(source: &str) -> RunError {
    run_with(source, "null", HANG_LIMIT).value.unwrap_err()
}

macro_rules! returns {
    ($source:expr, $expected:expr) => {
        assert_eq!(value($source), $expected, "{}", $source);
    };
}

#[test]
fn programs_compute() {
    if !has_sandbox() {
        return;
    }
    returns!("return input.a.map(x => x * 2)", "[2,4,6]");
    returns!(
        "return {text: 'ä', none: undefined, not: NaN, big: 10n}",
        r#"{"text":"ä","not":null,"big":10}"#
    );
    returns!("async () => { return input.a.length }", "3");
    returns!("(1 + 1);", "2");
    returns!("return new Map([['a', 1]])", r#"{"a":1}"#);
    returns!("// only a comment at the end\nreturn 1 // here", "1");
}

#[test]
fn programs_run_with_the_least_memory_that_can_be_set() {
    if !has_sandbox() {
        return;
    }
    let outcome = run_within(20 << 20, "return 0", "null", HANG_LIMIT);
    assert!(outcome.value.is_ok(), "{:?}", outcome.value);
}

#[test]
fn long_integers_remain_exact() {
    if !has_sandbox() {
        return;
    }
    let code = "const sent = {id: input.id, text: '9007199254740993', near: 9007199254740991};
        const row = await tools.shop.echo(sent);
        return [typeof row.id, row, row.id === 9007199254740993n, 1e30, 0.1234567890123456789]";
    let outcome = run_with(code, r#"{"id":9007199254740993}"#, HANG_LIMIT);
    assert_eq!(
        String::from_utf8(outcome.value.unwrap()).unwrap(),
        r#"["bigint",{"id":9007199254740993,"text":"9007199254740993","near":9007199254740991},true,1e+30,0.12345678901234568]"#
    );
    let count = "return open('big-500').rows().distinct('id').toArray().length";
    returns!(count, "500");
}

#[test]
fn what_would_be_wrong_without_a_word_is_an_error() {
    if !has_sandbox() {
        return;
    }
    for (code, reason) in [
        ("return open('rows-5').rows().length", "use count()"),
        ("return new Date(0).toLocaleDateString('en-US')", "takes no locale"),
        ("return (await tools.shop.echo({_guard: 1}))", "leave out _guard"),
        ("const n = tools.shop.echo({}).length; ", "write `await` before each call"),
    ] {
        let error = error(code);
        assert!(error.to_string().contains(reason), "{code}: {error}");
    }
    returns!(
        "return [new Error('x'), new Date(0).toLocaleDateString()]",
        r#"[{"name":"Error","message":"x"},"01/01/1970"]"#
    );
}

#[test]
fn expressions_and_fences_are_accepted() {
    if !has_sandbox() {
        return;
    }
    returns!("1 + 1", "2");
    returns!("await tools.shop.echo({n: 1})", r#"{"n":1}"#);
    returns!("tools.shop.echo({n: 1})", r#"{"n":1}"#);
    returns!("[1, 2]", "[1,2]");
    returns!("```js\nconst a = 1;\nreturn a;\n```", "1");
    returns!("open('rows-5').filter(r => r.id > 3).map('id')", "[4]");
    returns!("return (await tools.py.wrapped()).n", "1");
}

#[test]
fn types_of_typescript_are_removed() {
    if !has_sandbox() {
        return;
    }
    returns!(
        "const x: number = 1; let y: string | null = null, z: number[] = [2]; return x + z[0]",
        "3"
    );
    returns!(
        "interface Row { id: number; name?: string }\ntype Rows = Array<Row>;\nconst all = [{id: 1}] as Rows;\nreturn all[0]!.id",
        "1"
    );
    returns!(
        "function add<T extends number>(a: T, b?: T, ...c: Array<number>): number { return a + (b ?? 0) }\nreturn add<number>(1, 2)",
        "3"
    );
    returns!(
        "const f = async (a: {n: number}, [b, c]: [number, number] = [1, 2]): Promise<number> => a.n + b + c;\nreturn await f({n: 1})",
        "4"
    );
    returns!(
        "const counts = new Map<string, {n: number}>(); counts.set('a', {n: 1}); return counts",
        r#"{"a":{"n":1}}"#
    );
    returns!(
        "const by: Record<string, number> = {}; for (const [k, v] of Object.entries({a: 1}) as [string, number][]) by[k] = v; return by",
        r#"{"a":1}"#
    );
    returns!(
        "try { null!.x } catch (error: unknown) { return (error as Error).name }",
        r#""TypeError""#
    );
    returns!("const pick = <T,>(list: T[]): T => list[0]; return pick([5])", "5");
    returns!(
        "const r = (await tools.shop.echo({n: 2})) as { n: number };\nconst big = r.n > 1 ? (r.n) : 0;\nreturn {big, ok: r.n < 3 && 4 > (2)} satisfies object",
        r#"{"big":2,"ok":true}"#
    );
    returns!(
        "const isRow = (x: any): x is {id: number} => !!x && typeof x.id === 'number'; return [{id: 1}, null].filter(isRow).map((x: {id: number}) => x.id)",
        "[1]"
    );
    // Words of types are names elsewhere.
    returns!(
        "const kinds = [{kind: 'a' as const,\nfunction: {n: 1}}]; return kinds[0].function.n",
        "1"
    );
    returns!("const n: number = await Promise.reject(1).catch(() => 2); return n", "2");
    returns!("const n: number = 0; return n ? await Promise.reject(1).catch(() => 2) : 3", "3");
    returns!("const type = 1, as = 2; return type + as", "3");
    // Parameter properties and `enum` make code, so that they remain, and are errors.
    for program in ["class A { constructor(private x: number) {} }", "enum A { B }"] {
        let refused = error(program);
        assert!(refused.to_string().contains("SyntaxError"), "{program}");
    }
    // Positions remain.
    let RunError::Thrown(thrown) = error("const a: number = 1;\nconst b: any = null;\nreturn b.x")
    else {
        panic!("nothing was thrown")
    };
    assert_eq!((thrown.line, thrown.source.as_str()), (3, "return b.x"));
}

#[test]
fn types_of_classes_are_removed() {
    if !has_sandbox() {
        return;
    }
    returns!(
        "interface Named { name: string }
abstract class Base<T> {
  protected items: T[] = []
  readonly limit?: number
  static made: number = 0;
  abstract size(): number;
  [key: string]: unknown;
  add(item: T): this
  add(item: T): this { this.items.push(item); Base.made++; return this }
}
class Shop extends Base<string> implements Named, Iterable<string> {
  private declare hidden: string;
  public constructor(public_: boolean, private_?: string) { super() }
  override size(): number { return this.items.length }
  get name(): string { return 'shop' }
  async wait<X>(x: X): Promise<X> { return x }
  *[Symbol.iterator](): Iterator<string> { yield* this.items }
}
const shop = new Shop(true).add('a').add('b');
return [shop.size(), shop.name, await shop.wait<number>(3), [...shop], Base.made, 'hidden' in shop]",
        r#"[2,"shop",3,["a","b"],2,false]"#
    );
    returns!(
        "function* upTo(n: number): Generator<number> { for (let i = 0; i < n; i++) yield i }
function twice(n: number): number;
function twice(n: string): string;
function twice(n: any): any { return n + n }
type Only<T> = T extends { id: infer I } ? I : never;
declare function other(a: { b: string; c: number }): void;
const call: <T>(make: new () => T) => T = (make) => new make();
const ids: Only<{ id: number }>[] = [...upTo(3)];
return [ids, twice(2), call(Map) instanceof Map]",
        "[[0,1,2],4,true]"
    );
}

#[test]
fn programs_may_redeclare_their_variables() {
    if !has_sandbox() {
        return;
    }
    returns!("const input = 2, tools = 3; return input + tools", "5");
}

#[test]
fn programs_call_tools() {
    if !has_sandbox() {
        return;
    }
    returns!("return (await tools.shop.echo({n: 1})).n", "1");
    returns!("return await tools['a b']['plain']()", r#""only words""#);
    returns!("return (await tools.shop.structured()).n", "1");
    returns!(
        "return (await Promise.all([1, 2, 3].map(n => tools.shop.echo({n})))).map(x => x.n)",
        "[1,2,3]"
    );
    returns!(
        "try { await tools.shop.fails(); } catch (error) { return [error.name, error.message] }",
        r#"["ToolError","shop.fails: no such order"]"#
    );
}

#[test]
fn names_of_servers_and_tools_are_listed() {
    if !has_sandbox() {
        return;
    }
    returns!(
        "return [Object.keys(tools), Object.keys(tools.shop)]",
        r#"[["shop","my server"],["echo","fails"]]"#
    );
    returns!(
        "return ['echo' in tools.shop, 'x' in tools.shop, 'shop' in tools]",
        "[true,false,true]"
    );
    returns!(
        "const all = []; for (const name in tools.shop) all.push(name); return all",
        r#"["echo","fails"]"#
    );
    returns!(
        "const [[name, echo]] = Object.entries(tools.shop); return [name, (await echo({n: 1})).n]",
        r#"["echo",1]"#
    );
    // A listed name adds no member.
    let refused = error("tools.shop.other = 1").to_string();
    assert!(refused.contains("tools cannot be changed"), "{refused}");
    let unknown = error("return Object.keys(tools.nope)").to_string();
    assert!(unknown.contains("there is no server `nope`"), "{unknown}");
}

#[test]
fn programs_read_stored_answers() {
    if !has_sandbox() {
        return;
    }
    returns!("return open(cursors[0]).rows().filter(r => r.id > 7).map('id')", "[8,9]");
    returns!("return open('rows-2500').rows().sum('amount')", "6247500");
    returns!("return open('rows-2500').rows().top(2, 'amount').map(r => r.id)", "[2499,2498]");
    returns!("return open('rows-10').rows().countBy('group')", r#"{"g0":4,"g1":3,"g2":3}"#);
    returns!(
        "return open('rows-9').rows().sumBy('group', 'amount')",
        r#"{"g0":18,"g1":24,"g2":30}"#
    );
    returns!(
        "return Object.keys(open('rows-9').rows().groupBy(r => r.group))",
        r#"["g0","g1","g2"]"#
    );
    returns!("return [open('rows-2500').rows().count(), open('rows-3').count]", "[2500,3]");
    returns!("return open('rows-5').rows().skip(1).take(2).map('id').toArray()", "[1,2]");
    returns!("return open('rows-2').value()", "[1,2]");
}

#[test]
fn equal_programs_give_equal_bytes() {
    if !has_sandbox() {
        return;
    }
    let source = "return [Math.random(), Math.random(), Date.now(), new Date().toISOString()]";
    let first = value(source);
    assert_eq!(first, value(source));
    assert!(first.contains("1700000000000,\"2023-11-14T22:13:20.000Z\""), "{first}");
    let other = value(&format!("{source} // other"));
    assert!(other != first, "the seed depends on the program");
}

#[test]
fn errors_have_line_column_and_source() {
    if !has_sandbox() {
        return;
    }
    let RunError::Thrown(thrown) = error("let a = 1;\n\nnull.x;") else {
        panic!("nothing was thrown")
    };
    assert_eq!((thrown.line, thrown.source.as_str()), (3, "null.x;"));
    assert!(thrown.message.starts_with("TypeError:"), "{}", thrown.message);
    let RunError::Syntax(syntax) = error("let a = 1;\nreturn a +* 2") else {
        panic!("no syntax error")
    };
    assert_eq!(syntax.line, 2);
    assert!(syntax.column > 0, "{syntax:?}");
    let refused = error("tools.shop.echo = 1").to_string();
    assert!(refused.contains("tools cannot be changed"), "{refused}");
    let wrong = error("await tools.shop.echo('x')").to_string();
    assert!(wrong.contains("pass one object"), "{wrong}");
}

/// Hostile programs, each with a word of its error, or of its value if it may return one.
const HOSTILE: [(&str, &str, &str); 36] = [
    ("endless loop", "while (true) {}", "deadline"),
    ("endless loop of promises", "for (;;) await null", "deadline"),
    ("endless microtasks", "const f = () => Promise.resolve().then(f); await f()", "deadline"),
    ("endless native call", "'x'.repeat(1e6).replace(/(x+x+)+y/, '')", "deadline"),
    (
        "native sort",
        "[...Array(3e5).keys()].sort(() => { for (let i = 0; i < 1e4; i++); return 1 })",
        "deadline",
    ),
    ("large array", "return (new Array(1e9) + '').length", "memory|Error|deadline"),
    ("large string", "let s = 'x'; for (;;) s += s", "memory|Error"),
    ("two gigabytes", "return 'x'.repeat(2 ** 31 - 1).length", "memory|Error"),
    ("growing array", "const all = []; for (;;) all.push({a: [1, 2, 3]})", "memory|Error"),
    ("typed array", "return new Uint8Array(2 ** 32)", "memory|Error"),
    (
        "array buffers",
        "const all = []; for (;;) all.push(new ArrayBuffer(1 << 20))",
        "memory|Error",
    ),
    ("deep recursion", "const f = n => f(n + 1) + 1; return f(0)", "recurs|Error"),
    (
        "deep recursion in a getter",
        "const o = {get a() { return this.a }}; return o.a",
        "recurs|Error",
    ),
    (
        "deep structure",
        "let a = []; for (let i = 0; i < 1e6; i++) a = [a]; return a",
        "recurs|Error|memory",
    ),
    ("deep JSON", "let s = '['.repeat(1e6); JSON.parse(s)", "recurs|Error"),
    ("deep result of a tool", "return await tools.shop.deep()", "recurs|Error|ok"),
    ("regular expression", "/^(a|a)*$/.test('a'.repeat(40) + 'b')", "deadline"),
    ("a million calls", "for (let i = 0; i < 1e6; i++) await tools.shop.echo({i})", "at most 50"),
    (
        "a million pending calls",
        "await Promise.all(Array(1e6).fill().map(() => tools.shop.never()))",
        "at most 50|memory",
    ),
    (
        "constructor chain",
        "return (async () => {}).constructor('return typeof process + typeof require')()",
        "ok",
    ),
    ("Function", "return Function('return typeof globalThis.fetch')()", "ok"),
    ("eval", "return eval('typeof Deno')", "ok"),
    ("import", "return await import('fs')", "Error"),
    (
        "prototype pollution",
        "Object.prototype.then = 1; Array.prototype.map = null; return tools.shop ? 1 : 2",
        "ok|Error|promise",
    ),
    (
        "pollution of JSON",
        "JSON.stringify = () => 'x'; JSON.parse = null; return (await tools.shop.echo({a: 1})).a",
        "ok",
    ),
    (
        "pollution of Promise",
        "Promise.prototype.then = () => {}; return await tools.shop.echo({})",
        "ok|promise|Error",
    ),
    ("break out", "}); globalThis.x = 1; (async function () { return 5", "ok|Error|return"),
    ("cyclic result", "const a = {}; a.a = a; return a", "Error"),
    ("large result", "return 'x'.repeat(5e6)", "maximum"),
    ("getter that throws", "return {get a() { throw new Error('no') }}", "no"),
    ("lone surrogate", "return '\\ud800'", "ok"),
    ("large error", "throw new Error('x'.repeat(1e7))", "Error"),
    ("thrown object", "throw {toString() { throw 1 }, a: 1}", "threw"),
    ("never settled", "await new Promise(() => {})", "nothing settles"),
    ("tool that never answers", "await tools.shop.never()", "deadline"),
    ("itself", "return await tools.context_guard_run({code: 'return 1'})", "cannot run programs"),
];

#[test]
fn hostile_programs_harm_nobody() {
    if !has_sandbox() {
        return;
    }
    for (name, source, expected) in HOSTILE {
        let ends_in_time = expected.contains("deadline");
        let deadline = if ends_in_time { DEADLINE } else { HANG_LIMIT };
        let outcome = run_with(source, "null", deadline);
        let end = match outcome.value {
            Ok(value) => format!("ok {}", String::from_utf8_lossy(&value)),
            Err(error) => error.to_string(),
        };
        let end_words = end.to_lowercase();
        assert!(
            expected.split('|').any(|word| end_words.contains(&word.to_lowercase())),
            "{name}: {end}"
        );
        println!("{name}: {}", end.get(..end.len().min(150)).unwrap_or_default());
        assert!(end.len() < 4_000, "{name}: the end has {} bytes", end.len());
        // The next program runs as if nothing had happened.
        returns!(
            "return [typeof x, [1].map(x => x), JSON.stringify({})]",
            r#"["undefined",[1],"{}"]"#
        );
    }
}

#[test]
fn forged_cursors_are_refused() {
    if !has_sandbox() {
        return;
    }
    let refused = error("return open('forged').rows().toArray()");
    assert!(refused.to_string().contains("cursor_invalid"), "{refused}");
    let wrong = error("return open(5)");
    assert!(wrong.to_string().contains("a cursor, which is a text"), "{wrong}");
}

#[test]
fn logs_are_limited() {
    if !has_sandbox() {
        return;
    }
    let outcome = run_with(
        "for (let i = 0; i < 1e5; i++) console.log('line', i, {a: 1}); return 1",
        "null",
        HANG_LIMIT,
    );
    assert!(outcome.log.text.starts_with("line 0 {\"a\":1}\n"));
    assert!(outcome.log.text.len() <= 2_000 && outcome.log.omitted > 90_000);
}

#[test]
fn cancelled_runs_end() {
    if !has_sandbox() {
        return;
    }
    let sandbox = SANDBOX.as_ref().unwrap();
    let cancelled = Arc::new(AtomicBool::new(false));
    let limits = RunLimits {
        deadline: Instant::now() + HANG_LIMIT,
        cancelled: Arc::clone(&cancelled),
        memory_bytes: MEMORY,
        value_bytes: 1 << 20,
        log_bytes: 2_000,
    };
    // The host cancels the run while the program runs.
    let host = TestHost { cancelled, ..TestHost::default() };
    let program = Program {
        source: "tools.shop.cancel(); for (;;);",
        input: "null",
        cursors: &[],
        principal: "ann",
        started_ms: 0,
    };
    let outcome = sandbox.run(program, &limits, Box::new(host));
    assert_eq!(outcome.value, Err(RunError::Cancelled));
}
