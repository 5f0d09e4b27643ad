//! Maps the names, URIs and tasks that clients see to upstreams.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use context_guard_protocol::glob::matches_template;
use lru::LruCache;

use super::client_names::ClientNames;
use crate::access::ANONYMOUS;
use crate::engine::digest;
use crate::session_table::SessionTable;
use crate::task_owners::TaskOwners;
use crate::upstream::server::UpstreamServer;

/// The maximum number of listed resources whose owner is recorded.
const MAX_LISTED_URIS: NonZeroUsize = NonZeroUsize::new(65_536).unwrap();
/// The maximum total size of the URIs of listed resources whose owner is recorded, in bytes.
const MAX_LISTED_BYTES: usize = 64 << 20;
/// The maximum number of unlisted resources whose owner is recorded because clients read them.
const MAX_READ_URIS: NonZeroUsize = NonZeroUsize::new(16_384).unwrap();
/// The maximum number of such unlisted resources for each principal.
const MAX_READ_URIS_PER_PRINCIPAL: usize = 2_048;
/// The maximum number of recorded templates of an upstream. Each is matched with unknown URIs.
const MAX_TEMPLATES: usize = 1_024;
/// The maximum length of a URI or template whose owner is recorded, in bytes.
const MAX_URI_BYTES: usize = 8 << 10;
/// The maximum length of the URI of an unlisted resource whose owner is recorded, in bytes. Clients
/// choose these URIs.
const MAX_READ_URI_BYTES: usize = 2 << 10;
/// The prefix of the client-visible URI of a resource if another upstream has a resource with the
/// same URI.
const ALIAS_PREFIX: &str = "context-guard://server/";

/// The upstream that lists a resource, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UriOwner {
    One(usize),
    /// Several upstreams list a resource with this URI. Clients see aliases.
    Several,
}

/// The owners of resources that earlier responses showed, as indexes of upstreams.
struct LearnedRoutes {
    listed: LruCache<String, UriOwner>,
    /// The sum of the lengths of the listed URIs.
    listed_bytes: usize,
    /// The owners of resources that clients read although no upstream lists them, by
    /// [`read_key`].
    read: SessionTable<usize>,
    templates: HashMap<usize, HashSet<String>>,
}

impl LearnedRoutes {
    fn new() -> Self {
        Self {
            listed: LruCache::new(MAX_LISTED_URIS),
            listed_bytes: 0,
            read: SessionTable::with_shares(MAX_READ_URIS, MAX_READ_URIS_PER_PRINCIPAL),
            templates: HashMap::new(),
        }
    }

    fn put_listed(&mut self, uri: &str, owner: UriOwner) {
        if uri.len() > MAX_URI_BYTES {
            return;
        }
        self.listed_bytes += uri.len();
        // The replaced entry of the same URI, or the oldest one of a full table.
        if let Some((replaced, _)) = self.listed.push(uri.to_owned(), owner) {
            self.listed_bytes -= replaced.len();
        }
        while self.listed_bytes > MAX_LISTED_BYTES
            && let Some((oldest, _)) = self.listed.pop_lru()
        {
            self.listed_bytes -= oldest.len();
        }
    }
}

/// Maps client-visible names, URIs and tasks to upstreams. Upstreams are identified by index.
pub(super) struct Router {
    /// The names of tools and prompts.
    pub(super) client_names: ClientNames,
    learned: Mutex<LearnedRoutes>,
    pub(super) tasks: TaskOwners,
}

impl Router {
    pub(super) fn new(servers: &[Arc<UpstreamServer>], is_prefixed: bool) -> Self {
        let names = servers.iter().map(|server| server.name.clone()).collect();
        let client_names = ClientNames::new(names, is_prefixed);
        let learned = Mutex::new(LearnedRoutes::new());
        Self { client_names, learned, tasks: TaskOwners::new() }
    }

    fn learned(&self) -> MutexGuard<'_, LearnedRoutes> {
        self.learned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if client-visible names begin with the name of the upstream.
    pub(super) fn is_prefixed(&self) -> bool {
        self.client_names.is_prefixed()
    }

    /// Returns the client-visible name of the tool or prompt `name` of an upstream.
    pub(super) fn to_client_name(&self, server: usize, name: &str) -> String {
        self.client_names.to_client_name(server, name)
    }

    fn names(&self) -> &[String] {
        self.client_names.upstreams()
    }

    /// Records the owner of a resource. Returns the client-visible URI: the resource's own, unless
    /// another upstream has a resource with that URI. The owner of a URI with more than
    /// [`MAX_URI_BYTES`] is not recorded.
    pub(super) fn learn_uri(&self, server: usize, uri: &str) -> String {
        let mut learned = self.learned();
        match learned.listed.get(uri) {
            Some(UriOwner::One(owner)) if *owner == server => uri.to_owned(),
            Some(_) => {
                learned.put_listed(uri, UriOwner::Several);
                let name = self.names().get(server).map_or("", String::as_str);
                format!("{ALIAS_PREFIX}{name}/{uri}")
            }
            None => {
                learned.put_listed(uri, UriOwner::One(server));
                uri.to_owned()
            }
        }
    }

    /// Records the upstream from which a principal has read a resource that no upstream lists.
    pub(super) fn learn_read_uri(&self, principal: &Arc<str>, server: usize, uri: &str) {
        if uri.len() <= MAX_READ_URI_BYTES {
            self.learned().read.insert(principal, read_key(principal, uri), server);
        }
    }

    /// Removes the upstream that [`Self::learn_read_uri`] recorded. The next request asks all
    /// upstreams again. Returns false if none was recorded.
    pub(super) fn forget_read_uri(&self, principal: &str, uri: &str) -> bool {
        self.learned().read.remove(&read_key(principal, uri)).is_some()
    }

    /// Returns true if several upstreams list a resource with this URI, so that the URI has no
    /// owner.
    pub(super) fn is_ambiguous(&self, uri: &str) -> bool {
        self.learned().listed.peek(uri) == Some(&UriOwner::Several)
    }

    /// Records the owner of a resource template. A template without a fixed scheme and authority is
    /// not recorded: it would claim the resources of other upstreams.
    pub(super) fn learn_template(&self, server: usize, template: &str) {
        if !has_fixed_authority(template) || template.len() > MAX_URI_BYTES {
            return;
        }
        let mut learned = self.learned();
        let templates = learned.templates.entry(server).or_default();
        if templates.len() < MAX_TEMPLATES {
            templates.insert(template.to_owned());
        }
    }

    /// Returns the index of the upstream that owns a resource, and the upstream's own URI. `uri` is
    /// client-visible. The index is `None` if the owner is unknown, several upstreams list the URI,
    /// or templates of several upstreams match. The owner of an unlisted resource is the one from
    /// which `principal` has read it.
    pub(super) fn uri_owner<'u>(&self, principal: &str, uri: &'u str) -> (Option<usize>, &'u str) {
        if let Some((name, rest)) =
            uri.strip_prefix(ALIAS_PREFIX).and_then(|rest| rest.split_once('/'))
            && let Some(server) = self.names().iter().position(|known| known == name)
        {
            return (Some(server), rest);
        }
        if self.names().len() == 1 {
            return (Some(0), uri);
        }
        let mut learned = self.learned();
        let listed = learned.listed.get(uri).copied();
        if let Some(listed) = listed {
            return match listed {
                UriOwner::One(owner) => (Some(owner), uri),
                UriOwner::Several => (None, uri),
            };
        }
        if uri.len() > MAX_URI_BYTES {
            return (None, uri);
        }
        if let Some(server) = learned.read.get(&read_key(principal, uri)) {
            return (Some(*server), uri);
        }
        let mut owners = learned.templates.iter().filter(|(_, templates)| {
            templates.iter().any(|template| matches_template(template, uri))
        });
        match (owners.next(), owners.next()) {
            (Some((server, _)), None) => (Some(*server), uri),
            _ => (None, uri),
        }
    }

    /// Returns the index of the upstream that created a principal's task. `None` if it is unknown.
    /// Unknown tasks of anonymous callers belong to a single upstream.
    pub(super) fn task_owner(&self, principal: &Arc<str>, task: &str) -> Option<usize> {
        // Anonymous callers share one principal. Only the upstream can tell them apart.
        let is_open = self.names().len() == 1 && principal.as_ref() == ANONYMOUS;
        self.tasks.find(principal, task).or_else(|| is_open.then_some(0))
    }

    /// Returns the names of all upstreams, for error messages.
    pub(super) fn joined_names(&self) -> String {
        self.names().join(", ")
    }
}

/// Returns the key of an unlisted resource that a principal has read. Another principal may read a
/// resource with the same URI from another upstream.
fn read_key(principal: &str, uri: &str) -> String {
    digest(format!("{principal}\0{uri}").as_bytes())
}

/// Returns true if a URI template has a scheme and an authority, or a scheme and the start of a
/// path, before its first expression.
fn has_fixed_authority(template: &str) -> bool {
    let fixed = template.split('{').next().unwrap_or_default();
    let Some((scheme, rest)) = fixed.split_once(':') else { return false };
    if scheme.is_empty() {
        return false;
    }
    match rest.strip_prefix("//") {
        // The authority ends before the first expression: `file:///` has an empty one.
        Some(rest) => rest.contains('/') || fixed.len() == template.len(),
        None => !rest.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(names: &[&str], is_prefixed: bool) -> Router {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Router {
            client_names: ClientNames::new(names, is_prefixed),
            ..Router::new(&[], is_prefixed)
        }
    }

    #[test]
    fn learned_routes_are_bounded() {
        let routes = routes(&["a", "b"], true);
        let long = format!("x://{}", "y".repeat(MAX_URI_BYTES));
        let (alice, bob): (Arc<str>, Arc<str>) = ("alice".into(), "bob".into());
        routes.learn_uri(0, &long);
        routes.learn_read_uri(&alice, 0, &long);
        routes.learn_template(0, &long);
        assert_eq!(routes.uri_owner("alice", &long).0, None);
        routes.learn_read_uri(&alice, 0, "x://alice");
        for at in 0..20_000 {
            routes.learn_read_uri(&bob, 1, &format!("x://bob/{at}"));
            routes.learn_template(1, &format!("x://store/{at}/{{id}}"));
            routes.learn_uri(0, &format!("x://{at}/{}", "y".repeat(8_000)));
        }
        assert_eq!(routes.uri_owner("alice", "x://alice").0, Some(0));
        assert_eq!(routes.uri_owner("bob", "x://bob/19999").0, Some(1));
        let learned = routes.learned();
        assert_eq!(learned.read.len(), 1 + MAX_READ_URIS_PER_PRINCIPAL);
        assert_eq!(learned.templates[&1].len(), MAX_TEMPLATES);
        let bytes: usize = learned.listed.iter().map(|(uri, _)| uri.len()).sum();
        assert!(bytes == learned.listed_bytes && bytes <= MAX_LISTED_BYTES);
    }

    #[test]
    fn unlisted_resources_belong_to_principals() {
        let routes = routes(&["a", "b"], true);
        let (alice, bob): (Arc<str>, Arc<str>) = ("alice".into(), "bob".into());
        routes.learn_read_uri(&alice, 0, "x://read");
        assert_eq!(routes.uri_owner("bob", "x://read").0, None);
        routes.learn_read_uri(&bob, 1, "x://read");
        assert_eq!(routes.uri_owner("alice", "x://read").0, Some(0));
        assert_eq!(routes.uri_owner("bob", "x://read").0, Some(1));
        assert!(routes.forget_read_uri("bob", "x://read"));
        assert!(!routes.forget_read_uri("bob", "x://read"));
        assert_eq!(routes.uri_owner("bob", "x://read").0, None);
        assert_eq!(routes.uri_owner("alice", "x://read").0, Some(0));
    }

    #[test]
    fn resources_are_routed_by_uri_template_or_alias() {
        let routes = routes(&["a", "b"], true);
        assert_eq!(routes.learn_uri(0, "x://1"), "x://1");
        let alias = routes.learn_uri(1, "x://1");
        assert_eq!(alias, "context-guard://server/b/x://1");
        // Both owners have an alias then, and the URI itself names neither.
        let first = routes.learn_uri(0, "x://1");
        assert_eq!(first, "context-guard://server/a/x://1");
        assert!(routes.is_ambiguous("x://1") && !routes.is_ambiguous("x://2"));
        assert_eq!(routes.uri_owner("p", "x://1"), (None, "x://1"));
        assert_eq!(routes.uri_owner("p", &first), (Some(0), "x://1"));
        assert_eq!(routes.uri_owner("p", &alias), (Some(1), "x://1"));
        routes.learn_template(1, "y://store/{id}/data{?q}");
        assert_eq!(routes.uri_owner("p", "y://store/7/data"), (Some(1), "y://store/7/data"));
        // A URI that is listed is not taken over by a template.
        assert_eq!(routes.learn_uri(0, "y://store/8/data"), "y://store/8/data");
        assert_eq!(routes.uri_owner("p", "y://store/8/data"), (Some(0), "y://store/8/data"));
        // Templates that match everything claim nothing, and equal ones name no owner.
        for template in ["{+x}", "{scheme}://a", "z://{host}/x", "z:{+rest}", "z"] {
            routes.learn_template(1, template);
        }
        routes.learn_template(0, "y://store/{id}/{+rest}");
        assert_eq!(routes.uri_owner("p", "y://store/9/data").0, None);
        assert_eq!(routes.uri_owner("p", "z://host/x").0, None);
        assert_eq!(routes.uri_owner("p", "z://"), (None, "z://"));
        routes.learn_read_uri(&"p".into(), 1, "w://read");
        assert_eq!(routes.uri_owner("p", "w://read").0, Some(1));
        let (one, two): (Arc<str>, Arc<str>) = ("p".into(), "q".into());
        routes.tasks.learn(&one, br#"{"id":1,"result":{"taskId":"t"}}"#, 1);
        assert_eq!((routes.task_owner(&one, "t"), routes.task_owner(&two, "t")), (Some(1), None));
    }
}
