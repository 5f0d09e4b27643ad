//! Converts conditions in the syntax of shells, scripts and log searches: `$_.a -gt 5 -and $_.b -eq
//! 'x'`, `{a="x", b=~"y"}`, `kind:new sort:price-desc`, `{ it.a > 5 }`.

use super::elements;
use super::frame::without_table;
use super::wrapper::lambda;
use crate::query::code::{end_of_group, keyword, parts, replaced, unquoted};
use crate::query::reader::is_word_character;

/// The operators of PowerShell, each with the operator of this language.
const SHELL: [(&str, &str); 12] = [
    ("-and", "AND"),
    ("-or", "OR"),
    ("-not", "NOT"),
    ("-eq", "="),
    ("-ne", "!="),
    ("-gt", ">"),
    ("-ge", ">="),
    ("-lt", "<"),
    ("-le", "<="),
    // They ignore case.
    ("-match", "~*"),
    ("-like", "GLOB"),
    ("-in", "IN"),
];

/// The constants of PowerShell, each with the value of this language.
const VARIABLES: [(&str, &str); 3] = [("$true", "true"), ("$false", "false"), ("$null", "null")];

/// Converts a condition to the syntax of this language. `None` if the text is in none of these
/// dialects.
pub(super) fn condition(text: &str) -> Option<String> {
    if let Some(condition) = selector(text.trim()) {
        return Some(condition);
    }
    let plain = ranges(text.trim()).or_else(|| braces(text.trim()));
    converted(plain.as_deref().unwrap_or(text).trim()).or(plain)
}

/// Converts selectors of a command line: `-l app=web,tier!=db` and `--field-selector=a.b=c`. `None`
/// for other texts.
fn selector(text: &str) -> Option<String> {
    const FLAGS: [&str; 4] = ["-l", "--selector", "--label-selector", "--field-selector"];
    let (flag, rest) = text.split_once([' ', '='])?;
    FLAGS.contains(&flag).then_some(())?;
    let rest = rest.trim();
    let inner = unquoted(rest).unwrap_or(rest);
    (!inner.is_empty()).then(|| parts(inner, ",").join(" AND "))
}

/// Converts ranges of code search: `size:10..50` and `created:2024-01-01..*`. The last day of a
/// range belongs to it as a whole.
fn ranges(text: &str) -> Option<String> {
    if !text.contains("..") {
        return None;
    }
    let is_bound = |bound: &str| {
        bound == "*"
            || bound.trim_start_matches('-').starts_with(|c: char| c.is_ascii_digit())
                && bound.chars().all(|c| c.is_ascii_alphanumeric() || ".:+-".contains(c))
    };
    let is_day = |bound: &str| bound.len() == "2024-01-01".len() && bound.matches('-').count() == 2;
    replaced(text, |before, rest| {
        let plain = rest.strip_prefix('-').unwrap_or(rest);
        let end = plain.find(|c: char| c.is_whitespace() || c == ')').unwrap_or(plain.len());
        let (name, value) = plain.get(..end)?.split_once(':')?;
        let (from, to) = value.split_once("..")?;
        let is_name = name.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && name.chars().all(|c| is_word_character(c) || ".-".contains(c));
        let is_start = before.is_empty() || before.ends_with([' ', '(']);
        let is_range = is_bound(from) && is_bound(to) && (from != "*" || to != "*");
        (is_name && is_start && is_range).then_some(())?;
        let mut bounds = Vec::new();
        if from != "*" {
            bounds.push(format!("{name} >= '{from}'"));
        }
        if to != "*" {
            let field = if is_day(to) { format!("date({name})") } else { name.to_owned() };
            bounds.push(format!("{field} <= '{to}'"));
        }
        let not = if rest.starts_with('-') { "NOT " } else { "" };
        // Terms side by side must all hold.
        let earlier = before.trim_end();
        let word = earlier.rsplit(' ').next().unwrap_or_default().to_lowercase();
        let is_joined = word.is_empty()
            || earlier.ends_with(['(', '&', '|', ','])
            || ["and", "or", "not"].contains(&word.as_str());
        let and = if is_joined { "" } else { "AND " };
        let length = rest.len() - plain.len() + end;
        Some((length, format!("{and}{not}({})", bounds.join(" AND "))))
    })
}

/// Converts fields in braces, as Airtable writes them: `{Due Date} > '2024-05-01'`.
fn braces(text: &str) -> Option<String> {
    replaced(text, |before, rest| {
        let (name, after) = rest.strip_prefix('{')?.split_once('}')?;
        let after = after.trim_start();
        let is_part = |c: char| is_word_character(c) || " ()/%.#-".contains(c);
        let is_name = name.starts_with(char::is_alphabetic) && name.chars().all(is_part);
        let is_start = before.is_empty() || before.ends_with(|c| "(,=<>!+-*/& ".contains(c));
        let is_end = after.is_empty()
            || after.starts_with(|c| "=<>!),+-*/&".contains(c))
            || keyword(after, 0, "and").or_else(|| keyword(after, 0, "or")) == Some(0);
        // `x IN {a}` is a list.
        let is_list = before.trim_end().to_lowercase().ends_with(" in");
        (is_name && !name.ends_with(' ') && is_start && is_end && !is_list)
            .then(|| (name.len() + 2, format!("[{name}]")))
    })
}

fn converted(text: &str) -> Option<String> {
    formula(text)
        .or_else(|| parameters(text))
        .or_else(|| shell(text))
        .or_else(|| matchers(text))
        .or_else(|| search_terms(text))
        .or_else(|| sorted(text))
        .or_else(|| closure(text))
        .or_else(|| joined(text))
        .or_else(|| conditional(text))
        .or_else(|| elements::condition(text))
        .or_else(|| columns(text))
        .or_else(|| modules(text))
}

/// Converts formulas of spreadsheets: `=AND([Length (m)]>300, OR(a=1, NOT(b=2)))`.
fn formula(text: &str) -> Option<String> {
    let plain = text.strip_prefix('=').unwrap_or(text).trim_start();
    let is_call = |name: &str| plain.starts_with(name);
    if plain.len() == text.len() && !(is_call("AND(") || is_call("OR(")) {
        return None;
    }
    let converted = calls(plain)?;
    // A name in brackets, before an operator: `[Length (m)]`.
    let named = replaced(&converted, |before, rest| {
        let (name, after) = rest.strip_prefix('[')?.split_once(']')?;
        let length = name.len() + 2;
        let name = name.trim_start_matches('@');
        let is_name =
            name.starts_with(char::is_alphabetic) && !name.contains(['\'', '"', '[', ',', '/']);
        let is_operand = before.trim_end().ends_with(['(', ','])
            && after.trim_start().starts_with(['=', '<', '>', '!']);
        (is_name && is_operand).then(|| (length, format!("\"{name}\"")))
    });
    Some(named.unwrap_or(converted))
}

/// Converts a call of `AND`, `OR` or `NOT` that is the whole text. `None` for other texts.
fn calls(text: &str) -> Option<String> {
    let (word, rest) = text.split_once('(')?;
    let inner = rest.get(..end_of_group(rest)?)?;
    if inner.len() + 1 != rest.trim_end().len() {
        return None;
    }
    let part = |part: &str| format!("({})", calls(part).unwrap_or_else(|| part.to_owned()));
    let conditions: Vec<String> = parts(inner, ",").into_iter().map(part).collect();
    match word.trim().to_uppercase().as_str() {
        "AND" if conditions.len() > 1 => Some(conditions.join(" AND ")),
        "OR" if conditions.len() > 1 => Some(conditions.join(" OR ")),
        "NOT" if conditions.len() == 1 => Some(format!("NOT {}", conditions.concat())),
        _ => None,
    }
}

/// Converts columns of Polars and Spark: `pl.col("a") > 5`, `F.col('b') == 'x'`.
fn columns(text: &str) -> Option<String> {
    replaced(text, |before, rest| {
        let call = ["pl.col(", "F.col(", "col("].into_iter().find(|call| rest.starts_with(call))?;
        let name = rest.get(call.len()..)?;
        let (name, after) = name.split_at_checked(end_of_group(name)?)?;
        let is_quoted = ['"', '\'']
            .iter()
            .any(|mark| name.len() > 2 && name.starts_with(*mark) && name.ends_with(*mark));
        let is_start = !before.ends_with(|c| is_word_character(c) || c == '.');
        let length = rest.len() - after.strip_prefix(')')?.len();
        (is_quoted && is_start).then(|| (length, name.to_owned()))
    })
}

/// Converts parameters of an address: `a[gte]=5&sort=-b&limit=3`. `None` if there is no operator in
/// brackets and no order, because the words could be fields.
fn parameters(text: &str) -> Option<String> {
    const OPERATORS: [(&str, &str); 8] = [
        ("[gte]=", ">="),
        ("[gt]=", ">"),
        ("[lte]=", "<="),
        ("[lt]=", "<"),
        ("[ne]=", "!="),
        ("[eq]=", "="),
        ("[like]=", "~"),
        ("[contains]=", "~"),
    ];
    let (mut conditions, mut order, mut limit) = (Vec::new(), None, String::new());
    let mut has_operator = false;
    let parameters = parts(text.strip_prefix('?').unwrap_or(text), "&");
    for parameter in &parameters {
        let (name, value) = parameter.split_once('=')?;
        let sort_key = || match value.rsplit_once(['.', ':', ' ']) {
            Some((key, direction @ ("asc" | "desc"))) => Some(format!("{key} {direction}")),
            _ => value.strip_prefix('-').map(|key| format!("{key} desc")),
        };
        match name {
            "order" | "sort" | "order_by" | "sort_by" if sort_key().is_some() => {
                order = sort_key();
            }
            "limit" | "per_page" | "page_size" if value.parse::<u64>().is_ok() => {
                limit = format!(" limit {value}");
            }
            _ => {
                let operator = OPERATORS.iter().find(|(sign, _)| parameter.contains(sign));
                has_operator |= operator.is_some();
                // PostgREST writes the operator before the value: `a=gte.5`.
                let of_value = value.split_once('.').and_then(|(word, value)| {
                    let sign = OPERATORS.iter().find(|(sign, _)| *sign == format!("[{word}]="));
                    sign.map(|(_, operator)| format!("{name}{operator}{value}"))
                });
                conditions.push(match operator {
                    Some((sign, operator)) => parameter.replacen(sign, operator, 1),
                    None => of_value.unwrap_or_else(|| (*parameter).to_owned()),
                });
            }
        }
    }
    if order.is_none() && (!has_operator || !limit.is_empty()) {
        return None;
    }
    let order = order.map_or_else(String::new, |order| format!(" order by {order}"));
    let wanted = if conditions.is_empty() { "true".to_owned() } else { conditions.join(" & ") };
    Some(format!("{wanted}{order}{limit}"))
}

/// Converts closures of Kotlin, Groovy, Swift and Ruby: `{ it.a > 5 }`, `{ x -> x.a > 5 }`, `select
/// { |x| x.a > 5 }`.
pub(in crate::query) fn closure(text: &str) -> Option<String> {
    let call = ["select", "filter", "find_all"].iter().find_map(|name| text.strip_prefix(name));
    let text = call.map(str::trim_start).filter(|rest| rest.starts_with('{')).unwrap_or(text);
    let inner = text.strip_prefix('{')?.strip_suffix('}')?.trim();
    let body = lambda(inner).or_else(|| without_table(inner, "it"));
    body.or_else(|| without_table(inner, "$0")).filter(|_| end_of_group(inner).is_none())
}

/// Converts functions of SQLAlchemy: `and_(a == 1, or_(b == 2, c == 3))`.
fn joined(text: &str) -> Option<String> {
    let (word, inner) = text.strip_suffix(')')?.split_once('(')?;
    let word = match word {
        "and_" => " AND ",
        "or_" => " OR ",
        _ => return None,
    };
    let part = |part: &str| format!("({})", joined(part).unwrap_or_else(|| part.to_owned()));
    let conditions: Vec<String> = parts(inner, ",").into_iter().map(part).collect();
    let joined = end_of_group(inner).is_none().then(|| conditions.join(word))?;
    // The name of the class comes before each column.
    let class = inner.split_once('.').map(|(class, _)| class.trim());
    let class = class.filter(|class| {
        class.starts_with(char::is_uppercase) && class.chars().all(is_word_character)
    });
    Some(class.and_then(|class| without_table(&joined, class)).unwrap_or(joined))
}

/// Converts the condition of a command: `if a > 5`.
fn conditional(text: &str) -> Option<String> {
    let condition = text.strip_prefix("if ")?.trim_start();
    condition.starts_with(char::is_alphabetic).then(|| condition.to_owned())
}

/// Removes module names before functions, and the hyphen of one: `Math.abs(a - b) > 5`.
fn modules(text: &str) -> Option<String> {
    const MODULES: [&str; 4] = ["Math.", "math.", "np.", "func."];
    replaced(text, |before, rest| {
        // The function of XPath.
        if let Some(call) = rest.strip_prefix("string-length(") {
            return Some((rest.len() - call.len(), "length(".to_owned()));
        }
        let module = MODULES.iter().find(|module| rest.starts_with(**module))?;
        let call = rest.get(module.len()..)?;
        let end = call.find(|c| !is_word_character(c)).unwrap_or(call.len());
        let is_call = end > 0 && call.get(end..)?.starts_with('(');
        let is_start = !before.ends_with(|c| is_word_character(c) || c == '.');
        (is_call && is_start).then(|| (module.len(), String::new()))
    })
}

/// Converts `$_.price -gt 5 -and $_.kind -eq 'x'`, also inside `Where-Object { … }`.
fn shell(text: &str) -> Option<String> {
    let inner = text.strip_prefix("Where-Object").map_or(text, str::trim_start);
    let inner = inner.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')).unwrap_or(inner);
    let mut has_comparison = false;
    let condition = replaced(inner, |before, rest| {
        let variable = VARIABLES.iter().find(|(name, _)| rest.starts_with(name));
        if let Some((name, value)) = variable {
            return Some((name.len(), (*value).to_owned()));
        }
        let is_start = before.is_empty() || before.ends_with([' ', ')', '(']);
        let found = SHELL.iter().find(|(word, _)| {
            rest.strip_prefix(word).is_some_and(|after| after.starts_with([' ', '(']))
        });
        let (word, operator) = found.filter(|_| is_start)?;
        has_comparison |= !["-and", "-or", "-not"].contains(word);
        let after = rest.get(word.len()..)?.trim_start();
        match (*word, after.chars().next()) {
            ("-eq", Some('\'' | '"')) => return Some((word.len(), "==*".to_owned())),
            ("-like", Some(mark @ ('\'' | '"'))) => {
                let (text, after) = after.get(1..)?.split_once(mark)?;
                if !text.contains(['%', '_', '\\']) {
                    let pattern = text.replace('*', "%").replace('?', "_");
                    let length = rest.len() - after.len();
                    return Some((length, format!("LIKE {mark}{pattern}{mark}")));
                }
            }
            _ => {}
        }
        Some((word.len(), (*operator).to_owned()))
    });
    condition.filter(|_| has_comparison)
}

/// Converts label matchers of PromQL and LogQL, perhaps with stages: `{a="x", b=~"y|z"} | json |
/// c > 5`. Also filters of CloudWatch: `{ ($.a = 5) && ($.b > 3) }`.
fn matchers(text: &str) -> Option<String> {
    let inner = text.strip_prefix('{')?;
    let (inner, after) = inner.split_at_checked(end_of_group(inner)?)?;
    let (inner, after) = (inner.trim(), after.strip_prefix('}')?.trim());
    let is_filter = inner.trim_start_matches(['(', ' ']).starts_with("$.");
    let name = inner.find(|c| !is_word_character(c))?;
    let is_matcher = name > 0 && inner.get(name..)?.trim_start().starts_with(['=', '!']);
    if !is_matcher && !is_filter {
        return None;
    }
    let inner = if is_filter { inner.to_owned() } else { anchored(inner)? };
    let mut conditions = vec![inner];
    for stage in parts(after, "|").into_iter().map(str::trim).filter(|stage| !stage.is_empty()) {
        match stage {
            // The records are parsed already.
            "json" | "logfmt" => {}
            stage if stage.starts_with(char::is_alphabetic) && stage.contains(['=', '<', '>']) => {
                conditions.push(format!("({stage})"));
            }
            _ => return None,
        }
    }
    // Matchers with commas between them must all hold.
    if let [_, _, ..] = conditions.as_slice()
        && let Some(first) = conditions.first_mut()
    {
        *first = parts(first, ",").join(" AND ");
    }
    Some(conditions.join(" AND "))
}

/// Returns label matchers whose regular expressions must match the whole value. `None` if a pattern
/// cannot be told from the rest.
fn anchored(matchers: &str) -> Option<String> {
    let matcher = |matcher: &str| -> Option<String> {
        let Some((name, pattern)) = matcher.split_once('~') else {
            return Some(matcher.to_owned());
        };
        let (not, name) = match name.strip_suffix('!') {
            Some(name) => ("NOT ", name),
            None => match name.strip_suffix('=') {
                Some(name) => ("", name),
                // The sign is in a text.
                None => return Some(matcher.to_owned()),
            },
        };
        let pattern = unquoted(pattern.trim())?;
        Some(format!("{not}{} =~ '^(?:{pattern})$'", name.trim()))
    };
    let all: Option<Vec<String>> = parts(matchers, ",").into_iter().map(matcher).collect();
    Some(all?.join(", "))
}

/// Converts terms of GitHub's search with the fields of its API: `is:open -label:bug author:ann
/// comments:>10`. `None` without a term of `is`, because others are read as they are.
fn search_terms(text: &str) -> Option<String> {
    const FIELDS: [(&str, &str); 9] = [
        ("author", "user.login"),
        ("assignee", "assignees.login"),
        ("label", "labels.name"),
        ("milestone", "milestone.title"),
        ("created", "created_at"),
        ("updated", "updated_at"),
        ("closed", "closed_at"),
        ("merged", "merged_at"),
        ("reason", "state_reason"),
    ];
    let mut has_state = false;
    let mut conditions = Vec::new();
    for term in parts(text, " ").into_iter().map(str::trim).filter(|term| !term.is_empty()) {
        let (not, term) = term.strip_prefix('-').map_or(("", term), |term| ("NOT ", term));
        let (name, value) = term.split_once(':').filter(|(_, value)| !value.is_empty())?;
        name.chars().all(|c| is_word_character(c) || c == '.').then_some(())?;
        let condition = match (name, value) {
            ("is" | "state", "open" | "closed") => format!("state = '{value}'"),
            ("is", "merged") => "merged_at IS NOT NULL".to_owned(),
            ("is", "draft" | "locked" | "private" | "archived") => format!("{value} = true"),
            ("is", "unmerged") => "merged_at IS NULL".to_owned(),
            // The list has records of one kind.
            ("is" | "type", "pr" | "issue") => continue,
            ("is", _) => return None,
            _ => {
                let known = FIELDS.iter().find(|(word, _)| *word == name);
                let field = known.map_or(name, |(_, field)| field);
                let sign = [">=", "<=", ">", "<"].into_iter().find(|sign| value.starts_with(sign));
                let sign = sign.unwrap_or("");
                let value = value.strip_prefix(sign).unwrap_or(value).trim_matches('"');
                let sign = if sign.is_empty() { "=" } else { sign };
                let value = match value.parse::<f64>() {
                    Ok(_) => value.to_owned(),
                    Err(_) => format!("'{value}'"),
                };
                format!("{field} {sign} {value}")
            }
        };
        has_state |= name == "is";
        conditions.push(format!("{not}({condition})"));
    }
    has_state.then(|| conditions.join(" AND "))
}

/// Converts the order of a search: `kind:new sort:price-desc`.
fn sorted(text: &str) -> Option<String> {
    let (condition, order) = text.rsplit_once(" sort:")?;
    let (name, direction) = order.rsplit_once('-')?;
    let is_order = ["asc", "desc"].contains(&direction)
        && !name.is_empty()
        && name.chars().all(|c| is_word_character(c) || c == '.');
    is_order.then(|| format!("{condition} order by {name} {direction}"))
}

#[cfg(test)]
mod tests {
    use super::condition;

    #[test]
    fn dialects_are_rewritten() {
        for (text, expected) in [
            (
                "$_.Age -gt 60 -and ($_.Office -eq 'a -or b' -or $_.x -like 'y*')",
                Some("$_.Age > 60 AND ($_.Office ==* 'a -or b' OR $_.x LIKE 'y%')"),
            ),
            ("Where-Object { $_.a -ne 5 }", Some(" $_.a != 5 ")),
            ("$_.a -eq $true -and $_.b -ne '$null'", Some("$_.a = true AND $_.b != '$null'")),
            ("a-eq = 5", None),
            ("kind:new -in:x", None),
            ("{a=\"x\", b=~\"y|z\"}", Some("a=\"x\", b =~ '^(?:y|z)$'")),
            ("{b!~\"y.*\"}", Some("NOT b =~ '^(?:y.*)$'")),
            ("{\"a\": \"x=y\"}", None),
            ("{a=\"x\", b!=\"y, z\"} | json | c > 5", Some("a=\"x\" AND b!=\"y, z\" AND (c > 5)")),
            ("{a=\"x\"} | b > 5 or c > 6", Some("a=\"x\" AND (b > 5 or c > 6)")),
            ("{a=\"x\"} |= \"text\"", None),
            ("{ ($.a = 5) && ($.b > 3) }", Some("($.a = 5) && ($.b > 3)")),
            (
                "is:open -label:\"good first\" comments:>=10 author:ann",
                Some(
                    "(state = 'open') AND NOT (labels.name = 'good first') AND (comments >= 10) AND (user.login = 'ann')",
                ),
            ),
            ("label:bug comments:>10", None),
            ("is:nice", None),
            ("kind:new sort:price.total-desc", Some("kind:new order by price.total desc")),
            ("kind:new sort:5", None),
            ("{ it.a + it.b > 60 }", Some("a + b > 60")),
            ("{ x -> x.a == 'it.b' }", Some("a == 'it.b'")),
            ("select { |x| x['a'] == 'b' }", Some("['a'] == 'b'")),
            ("select == 5", None),
            ("{\"it.a\": 5}", None),
            (
                "and_(A.b >= 5, or_(c == 'x, y', d == 2))",
                Some("(b >= 5) AND ((c == 'x, y') OR (d == 2))"),
            ),
            ("pl.col(\"a b\") == 4", Some("\"a b\" == 4")),
            ("and_(a) or (b)", None),
            ("if a == 5", Some("a == 5")),
            ("if = 5", None),
            ("Math.abs(a - b) > np.round(c)", Some("abs(a - b) > round(c)")),
            ("Math.x > 5", None),
            ("string-length(a) > 5", Some("length(a) > 5")),
            ("a = 'col(\"b\")'", None),
            ("{Due Date} > '{x}' and {a}={b}", Some("[Due Date] > '{x}' and [a]=[b]")),
            ("AND({a}='x, y', NOT({b}>1))", Some("(\"a\"='x, y') AND (NOT (\"b\">1))")),
            ("a IN {b}", None),
            ("a[gte]=5&b[lt]=3&c=x", Some("a>=5 & b<3 & c=x")),
            ("?c=x&sort=-a&limit=3", Some("c=x order by a desc limit 3")),
            ("order=a.asc", Some("true order by a asc")),
            ("b=eq.x&a=lt.0&order=a.asc", Some("b=x & a<0 order by a asc")),
            ("size:10..50", Some("(size >= '10' AND size <= '50')")),
            (
                "a.b:2024-01-01..2024-02-03 -size:5..*",
                Some("(a.b >= '2024-01-01' AND date(a.b) <= '2024-02-03') AND NOT (size >= '5')"),
            ),
            ("path:a..b", None),
            ("a = 'size:1..5'", None),
            ("sort=5&limit=3", None),
            ("a[0]=5&b=3", None),
        ] {
            assert_eq!(condition(text).as_deref(), expected, "{text}");
        }
    }
}
