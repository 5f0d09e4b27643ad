//! Maps the names, URIs and tasks that clients see to upstreams.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use context_guard_protocol::glob::matches_template;
use lru::LruCache;

use super::client_names::ClientNames;
use crate::access::ANONYMOUS;
use crate::task_owners::TaskOwners;
use crate::upstream::server::UpstreamServer;

/// The maximum number of entries in each table of learned owners: resource URIs and templates.
const MAX_REMEMBERED: NonZeroUsize = NonZeroUsize::new(65_536).unwrap();
/// The prefix of the URI that clients see for a resource if another upstream has one with the same
/// URI.
const ALIAS_PREFIX: &str = "context-guard://server/";

/// The upstream that lists a resource, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UriOwner {
    One(usize),
    /// Several upstreams list a resource with this URI. Clients see aliases.
    Several,
}

/// The upstreams, by index, that own resources, as earlier responses showed.
#[derive(Debug)]
struct LearnedRoutes {
    uris: LruCache<String, UriOwner>,
    templates: Vec<(String, usize)>,
}

/// Maps the names that clients see to upstreams, which are identified by index.
pub(super) struct Router {
    /// The names of tools and prompts.
    pub(super) client_names: ClientNames,
    learned: Mutex<LearnedRoutes>,
    pub(super) tasks: TaskOwners,
}

impl Router {
    pub(super) fn new(servers: &[Arc<UpstreamServer>], is_prefixed: bool) -> Self {
        let learned = LearnedRoutes { uris: LruCache::new(MAX_REMEMBERED), templates: Vec::new() };
        let names = servers.iter().map(|server| server.name.clone()).collect();
        let client_names = ClientNames::new(names, is_prefixed);
        let learned = Mutex::new(learned);
        Self { client_names, learned, tasks: TaskOwners::new() }
    }

    fn learned(&self) -> MutexGuard<'_, LearnedRoutes> {
        self.learned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if clients see names prefixed with the name of the upstream.
    pub(super) fn is_prefixed(&self) -> bool {
        self.client_names.is_prefixed()
    }

    /// Returns the name under which clients see the tool or prompt `name` of an upstream.
    pub(super) fn to_client_name(&self, server: usize, name: &str) -> String {
        self.client_names.to_client_name(server, name)
    }

    fn names(&self) -> &[String] {
        self.client_names.upstreams()
    }

    /// Records the owner of a resource. Returns the URI that clients see: the resource's own,
    /// unless another upstream has a resource with that URI.
    pub(super) fn learn_uri(&self, server: usize, uri: &str) -> String {
        let mut learned = self.learned();
        match learned.uris.get(uri) {
            Some(UriOwner::One(owner)) if *owner == server => uri.to_owned(),
            Some(_) => {
                learned.uris.put(uri.to_owned(), UriOwner::Several);
                let name = self.names().get(server).map_or("", String::as_str);
                format!("{ALIAS_PREFIX}{name}/{uri}")
            }
            None => {
                learned.uris.put(uri.to_owned(), UriOwner::One(server));
                uri.to_owned()
            }
        }
    }

    /// Returns true if several upstreams list a resource with this URI, so that it names none.
    pub(super) fn is_ambiguous(&self, uri: &str) -> bool {
        self.learned().uris.peek(uri) == Some(&UriOwner::Several)
    }

    /// Records the owner of a resource template. A template without a fixed scheme and authority is
    /// not recorded: it would claim the resources of other upstreams.
    pub(super) fn learn_template(&self, server: usize, template: &str) {
        if !has_fixed_authority(template) {
            return;
        }
        let mut learned = self.learned();
        let entry = (template.to_owned(), server);
        if !learned.templates.contains(&entry) && learned.templates.len() < MAX_REMEMBERED.get() {
            learned.templates.push(entry);
        }
    }

    /// Returns the index of the upstream that owns a resource, if it is known, and that upstream's
    /// own URI. If templates of several upstreams match, the owner is not known. `uri` is the one
    /// that clients see.
    pub(super) fn uri_owner<'u>(&self, uri: &'u str) -> (Option<usize>, &'u str) {
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
        let listed = learned.uris.get(uri).copied();
        if let Some(listed) = listed {
            return match listed {
                UriOwner::One(owner) => (Some(owner), uri),
                UriOwner::Several => (None, uri),
            };
        }
        let by_template = || {
            let templates = learned.templates.iter();
            let mut owners = templates
                .filter(|(template, _)| matches_template(template, uri))
                .map(|(_, server)| *server);
            let first = owners.next()?;
            owners.all(|other| other == first).then_some(first)
        };
        (by_template(), uri)
    }

    /// Returns the index of the upstream that created a principal's task, or `None` if it is
    /// unknown.
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
    fn resources_are_routed_by_uri_template_or_alias() {
        let routes = routes(&["a", "b"], true);
        assert_eq!(routes.learn_uri(0, "x://1"), "x://1");
        let alias = routes.learn_uri(1, "x://1");
        assert_eq!(alias, "context-guard://server/b/x://1");
        // Both owners have an alias then, and the URI itself names neither.
        let first = routes.learn_uri(0, "x://1");
        assert_eq!(first, "context-guard://server/a/x://1");
        assert!(routes.is_ambiguous("x://1") && !routes.is_ambiguous("x://2"));
        assert_eq!(routes.uri_owner("x://1"), (None, "x://1"));
        assert_eq!(routes.uri_owner(&first), (Some(0), "x://1"));
        assert_eq!(routes.uri_owner(&alias), (Some(1), "x://1"));
        routes.learn_template(1, "y://store/{id}/data{?q}");
        assert_eq!(routes.uri_owner("y://store/7/data"), (Some(1), "y://store/7/data"));
        // A URI that is listed is not taken over by a template.
        assert_eq!(routes.learn_uri(0, "y://store/8/data"), "y://store/8/data");
        assert_eq!(routes.uri_owner("y://store/8/data"), (Some(0), "y://store/8/data"));
        // Templates that match everything claim nothing, and equal ones name no owner.
        for template in ["{+x}", "{scheme}://a", "z://{host}/x", "z:{+rest}", "z"] {
            routes.learn_template(1, template);
        }
        routes.learn_template(0, "y://store/{id}/{+rest}");
        assert_eq!(routes.uri_owner("y://store/9/data").0, None);
        assert_eq!(routes.uri_owner("z://host/x").0, None);
        assert_eq!(routes.uri_owner("z://"), (None, "z://"));
        let (one, two): (Arc<str>, Arc<str>) = ("p".into(), "q".into());
        routes.tasks.learn(&one, br#"{"id":1,"result":{"taskId":"t"}}"#, 1);
        assert_eq!((routes.task_owner(&one, "t"), routes.task_owner(&two, "t")), (Some(1), None));
    }
}
