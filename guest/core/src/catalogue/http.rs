//! The catalogue over HTTP: the bodies of its routes.

mod bodies;
mod overview;
mod summaries;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use context_guard_catalogue::score::Usage;
use context_guard_catalogue::{Index, signature};
use context_guard_protocol::rest::percent_encoded;
use serde::Deserialize;

use self::bodies::{
    BudgetBody, CategoriesBody, CategoryBody, DefinitionSchemas, HotBody, HotTool, Performance,
    ProblemBody, ServerCount, ServersBody, ToolBody, examples, latency, rate,
};
use super::describe::categories;
use super::resolve::{resolve, shown};
use super::stored::{CatalogueReader, tool};
use super::{CatalogueRequest, CatalogueStep};
use crate::snapshot::stored::Loaded;

/// The default token budget of a body.
const DEFAULT_TOKENS: u64 = 2_000;
/// The maximum token budget of a body.
const MAX_TOKENS: u64 = 6_000;
/// The default number of tools on a page.
const DEFAULT_PAGE_SIZE: usize = 20;
/// The maximum number of tools on a page.
const MAX_PAGE_SIZE: usize = 50;
/// The tokens of the members around a list, and of the report of a cut.
const FRAME_TOKENS: u64 = 120;
/// The default number of hot tools.
const DEFAULT_HOT: u64 = 12;

/// A request of the gateway for the body of a route.
#[derive(Deserialize)]
struct RouteRequest {
    /// The base path of all routes.
    prefix: String,
    /// The decoded segments of the path after the prefix.
    segments: Vec<String>,
    /// The decoded parameters of the query.
    query: Vec<(String, String)>,
}

type RouteResult<T> = Result<T, RouteStep>;

/// The reason why a route has no body yet: another step comes first, or the request is invalid.
enum RouteStep {
    Step(CatalogueStep),
    Problem(u16, &'static str, String),
}

impl From<CatalogueStep> for RouteStep {
    fn from(step: CatalogueStep) -> Self {
        Self::Step(step)
    }
}

fn bad_request(text: impl Into<String>) -> RouteStep {
    RouteStep::Problem(400, "bad_request", text.into())
}

/// Returns the step that follows the gateway's request for the body of an HTTP response, such as
/// that of `GET /api/v1/tools/hot`.
pub(super) fn answer(
    request: &CatalogueRequest<'_>,
    parameters: &[u8],
    loaded: &Loaded,
) -> CatalogueStep {
    let Ok(route) = serde_json::from_slice::<RouteRequest>(parameters) else {
        return problem(request, 400, "bad_request", "invalid route");
    };
    let reader = CatalogueReader::new(request, loaded);
    let answer = || -> RouteResult<CatalogueStep> {
        let index = Index::open(reader.index_bytes()?).ok_or(CatalogueStep::Compile)?;
        Routes { request, reader: &reader, index, route: &route }.answer()
    };
    match answer() {
        Ok(step) | Err(RouteStep::Step(step)) => step,
        Err(RouteStep::Problem(status, code, text)) => problem(request, status, code, &text),
    }
}

/// Returns the result for the gateway: an HTTP status and a JSON body.
fn body(
    request: &CatalogueRequest<'_>,
    status: u16,
    body: &impl serde::Serialize,
) -> CatalogueStep {
    let body = serde_json::to_string(body).unwrap_or_default();
    let members = format!(r#""status":{status},"body":{body}"#);
    request.answer(request.envelope.result(members.as_bytes()), status >= 400)
}

fn problem(
    request: &CatalogueRequest<'_>,
    status: u16,
    code: &'static str,
    detail: &str,
) -> CatalogueStep {
    body(request, status, &ProblemBody { kind: "about:blank", status, code, detail })
}

struct Routes<'a> {
    request: &'a CatalogueRequest<'a>,
    reader: &'a CatalogueReader<'a>,
    index: Index<'a>,
    route: &'a RouteRequest,
}

/// The requested page of a list of tools.
struct PageOfTools {
    page: usize,
    size: usize,
    offset: usize,
}

impl Routes<'_> {
    fn answer(&self) -> RouteResult<CatalogueStep> {
        let segments: Vec<&str> = self.route.segments.iter().map(String::as_str).collect();
        match segments.as_slice() {
            ["hot"] => self.hot(),
            ["categories"] => self.categories(),
            ["servers"] => self.servers(),
            ["overview"] => self.overview(),
            ["search"] => self.search(),
            ["category", name] => self.category(name),
            ["servers", server, tool] | [server, tool] => self.tool(server, tool),
            _ => {
                let text = "no such route; routes: /hot, /categories, /category/NAME, /servers, \
                            /overview, /search, /SERVER/TOOL";
                Err(RouteStep::Problem(404, "not_found", text.to_owned()))
            }
        }
    }

    /// Returns an error if the query has a parameter that is not in `known`.
    fn check_parameters(&self, known: &[&str]) -> RouteResult<()> {
        match self.route.query.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            Some((name, _)) => {
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                Err(bad_request(format!("unknown parameter \"{}\"; known: {known}", shown(name))))
            }
            None => Ok(()),
        }
    }

    fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.route.query.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> RouteResult<Option<T>> {
        let parse = |value: &str| {
            value.parse().map_err(|_| bad_request(format!("{name} is not a valid number")))
        };
        self.parameter(name).map(parse).transpose()
    }

    fn max_tokens(&self, default: u64) -> RouteResult<u64> {
        let tokens = self.number("max_tokens")?.unwrap_or(default);
        if !(100..=MAX_TOKENS).contains(&tokens) {
            return Err(bad_request(format!("max_tokens must be from 100 to {MAX_TOKENS}")));
        }
        Ok(tokens)
    }

    fn page(&self) -> RouteResult<PageOfTools> {
        let page: usize = self.number("page")?.unwrap_or(1);
        let size = self.number("page_size")?.unwrap_or(DEFAULT_PAGE_SIZE);
        if page == 0 {
            return Err(bad_request("page is a number from 1 on"));
        }
        if size == 0 {
            return Err(bad_request(format!("page_size must be from 1 to {MAX_PAGE_SIZE}")));
        }
        if size > MAX_PAGE_SIZE {
            return Err(bad_request(format!("page_size exceeds maximum of {MAX_PAGE_SIZE}")));
        }
        let offset: Option<usize> = self.number("offset")?;
        let page = offset.map_or(page, |offset| offset / size + 1);
        let offset = offset.unwrap_or_else(|| (page - 1).saturating_mul(size));
        Ok(PageOfTools { page, size, offset })
    }

    /// Returns the tokens of an item in a list.
    fn cost(&self, item: &impl serde::Serialize) -> u64 {
        let estimator = self.request.policy.settings_for("", "tools/list").estimator;
        estimator.cost(&serde_json::to_vec(item).unwrap_or_default()) + 1
    }

    /// Returns true if a body with this item alone fits `tokens`.
    fn fits(&self, item: &impl serde::Serialize, tokens: u64) -> bool {
        FRAME_TOKENS + self.cost(item) <= tokens
    }

    /// Returns as many of the first items as fit `tokens`, at least one.
    fn fit<T: serde::Serialize>(&self, items: Vec<T>, tokens: u64) -> Vec<T> {
        let mut cost = FRAME_TOKENS;
        let mut count = 0;
        for item in &items {
            cost += self.cost(item);
            if cost > tokens && count > 0 {
                break;
            }
            count += 1;
        }
        let mut items = items;
        items.truncate(count);
        items
    }

    /// Returns the report of a cut, with the URL of the items from the position `next` on.
    fn budget(&self, tokens: u64, shown: usize, total: usize, next: usize) -> BudgetBody {
        let mut url = self.route.prefix.clone();
        for segment in &self.route.segments {
            url.push('/');
            url.push_str(&percent_encoded(segment));
        }
        let kept = self.route.query.iter().filter(|(name, _)| name != "page" && name != "offset");
        let mut parameters: Vec<String> =
            kept.map(|(name, value)| format!("{name}={}", percent_encoded(value))).collect();
        parameters.push(format!("offset={next}"));
        BudgetBody {
            max_tokens: tokens,
            shown,
            total,
            message: format!("{shown} of {total}, use pagination or a narrower search"),
            next: format!("{url}?{}", parameters.join("&")),
        }
    }

    /// Returns the numbers of all tools by falling score. Tools with equal scores alternate between
    /// their servers.
    fn in_turns(&self) -> Vec<u32> {
        let mut turns: BTreeMap<(&str, u32), usize> = BTreeMap::new();
        let mut order = Vec::new();
        for (number, tool) in (0..).zip(self.index.tools()) {
            // Scores are not negative, so that their bits have their order.
            let score = tool.tier_score.max(0.0).to_bits();
            let turn = turns.entry((tool.server, score)).or_default();
            order.push((Reverse(score), *turn, number));
            *turn += 1;
        }
        order.sort_unstable();
        order.into_iter().map(|(_, _, number)| number).collect()
    }

    fn hot(&self) -> RouteResult<CatalogueStep> {
        self.check_parameters(&["max_tokens", "offset"])?;
        Ok(body(self.request, 200, &self.hot_body()?))
    }

    fn hot_body(&self) -> RouteResult<HotBody> {
        let tokens = self.max_tokens(DEFAULT_TOKENS)?;
        let settings = self.request.settings();
        let count = usize::try_from(settings.hot.unwrap_or(DEFAULT_HOT)).unwrap_or(0);
        let tools = self.in_turns();
        let is_pinned = |number: &u32| {
            self.index.tool(*number).is_some_and(|tool| {
                settings.is_pinned(&crate::policy::endpoint_name(tool.server, tool.name))
            })
        };
        let (pinned, rest): (Vec<u32>, Vec<u32>) = tools.into_iter().partition(is_pinned);
        let count = count + pinned.len();
        let mut tools: Vec<u32> = pinned.into_iter().chain(rest).take(count).collect();
        let total = tools.len();
        let offset = self.number("offset")?.unwrap_or(0).min(total);
        tools.drain(..offset);
        let stored = self.reader.tools(&tools)?;
        let mut hot = Vec::new();
        for (number, (definition, _)) in tools.iter().zip(&stored) {
            let Some(tool) = tool(&self.index, *number, definition) else { continue };
            let Some(indexed) = self.index.tool(*number) else { continue };
            let mut described = HotTool {
                tool: format!("{}::{}", indexed.server, indexed.name),
                server: indexed.server.to_owned(),
                description: signature::first_sentences(&tool, 2),
                params: signature::parameters(&tool).into_iter().map(|(name, _)| name).collect(),
                avg_latency: latency(indexed.average_ms),
                success_rate: rate(indexed.success_percent),
            };
            let names = described.params.len();
            while described.params.len() > 1 && !self.fits(&described, tokens) {
                described.params.truncate((described.params.len() - 1) / 2);
                described.params.push(format!("…+{}", names - described.params.len()));
            }
            hot.push(described);
        }
        let tools = self.fit(hot, tokens);
        let next = offset + tools.len();
        let budget = (next < total).then(|| self.budget(tokens, tools.len(), total, next));
        Ok(HotBody { tier: "hot", tools, budget })
    }

    fn categories(&self) -> RouteResult<CatalogueStep> {
        self.check_parameters(&["max_tokens", "offset"])?;
        Ok(body(self.request, 200, &self.categories_body()?))
    }

    fn categories_body(&self) -> RouteResult<CategoriesBody> {
        let tokens = self.max_tokens(DEFAULT_TOKENS)?;
        let settings = self.request.settings();
        let rule = |name: &str| {
            settings.categories.iter().flatten().find(|rule| rule.name == name).cloned()
        };
        let overview = categories(&self.index, |name| rule(name).map_or(0, |rule| rule.order));
        let total = overview.len();
        let offset = self.number("offset")?.unwrap_or(0).min(total);
        let all: Vec<CategoryBody> = overview
            .into_iter()
            .skip(offset)
            .map(|category| {
                let rule = rule(&category.name);
                CategoryBody {
                    display_name: rule.as_ref().map_or_else(
                        || category.name.clone(),
                        |rule| rule.display_name.clone().unwrap_or_else(|| rule.name.clone()),
                    ),
                    description: rule.and_then(|rule| rule.description),
                    category: category.name,
                    tool_count: category.tools,
                    server_count: category.servers,
                    popular_tools: category.popular_endpoints,
                }
            })
            .collect();
        let categories = self.fit(all, tokens);
        let next = offset + categories.len();
        let budget = (next < total).then(|| self.budget(tokens, categories.len(), total, next));
        Ok(CategoriesBody { tier: "category_overview", categories, budget })
    }

    fn servers(&self) -> RouteResult<CatalogueStep> {
        self.check_parameters(&["max_tokens", "offset"])?;
        let mut servers: Vec<ServerCount> = Vec::new();
        for tool in self.index.tools() {
            match servers.iter_mut().find(|server| server.server == tool.server) {
                Some(server) => server.tool_count += 1,
                None => servers.push(ServerCount { server: tool.server.to_owned(), tool_count: 1 }),
            }
        }
        let total = servers.len();
        let offset = self.number("offset")?.unwrap_or(0).min(total);
        servers.drain(..offset);
        let mut budget = None;
        // The whole list is the default: an operator reads it.
        if self.parameter("max_tokens").is_some() {
            let tokens = self.max_tokens(DEFAULT_TOKENS)?;
            servers = self.fit(servers, tokens);
            let next = offset + servers.len();
            budget = (next < total).then(|| self.budget(tokens, servers.len(), total, next));
        }
        Ok(body(self.request, 200, &ServersBody { servers, budget }))
    }

    fn tool(&self, server: &str, name: &str) -> RouteResult<CatalogueStep> {
        self.check_parameters(&[])?;
        let qualified = format!("{server}::{name}");
        let number = resolve(&self.index, &qualified)
            .map_err(|error| RouteStep::Problem(404, "tool_not_found", error.text))?;
        let (definition, usage): (String, Usage) =
            self.reader.tools(&[number])?.pop().unwrap_or_default();
        let settings = self.request.policy.settings_for("", "tools/list");
        let tokens = settings.estimator.cost(definition.as_bytes());
        if settings.enforce_hard_cap && tokens > settings.hard_cap {
            let text = format!(
                "the definition has {tokens} tokens, more than hardCap, which is {}: \
                 /search?q=select:{name}&detail=signature has its parameters",
                settings.hard_cap
            );
            return Err(RouteStep::Problem(422, "definition_too_large", text));
        }
        let tool = tool(&self.index, number, &definition).ok_or(CatalogueStep::Compile)?;
        let schemas: DefinitionSchemas<'_> = serde_json::from_str(&definition).unwrap_or_default();
        Ok(body(
            self.request,
            200,
            &ToolBody {
                tier: "full_schema",
                tool: qualified,
                server: server.to_owned(),
                server_display_name: server.to_owned(),
                description: tool.description().to_owned(),
                parameters: schemas.input,
                returns: schemas.output,
                examples: examples(&tool),
                performance: Performance::new(&usage),
            },
        ))
    }
}
