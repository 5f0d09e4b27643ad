//! Maps the names, URIs and tasks that clients see to upstreams.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use context_guard_protocol::glob::matches_template;
use lru::LruCache;

use super::client_names::ClientNames;
use crate::upstream::server::UpstreamServer;

/// The maximum number of entries in each table of learned owners: resource URIs, templates and
/// tasks.
const MAX_REMEMBERED: NonZeroUsize = NonZeroUsize::new(65_536).unwrap();
/// The prefix of the URI that clients see for a resource if another upstream has one with the same
/// URI.
const ALIAS_PREFIX: &str = "context-guard://server/";

/// The upstreams, by index, that own resources and tasks, as earlier responses showed.
#[derive(Debug)]
struct LearnedRoutes {
    uris: LruCache<String, usize>,
    templates: Vec<(String, usize)>,
    tasks: LruCache<(Arc<str>, String), usize>,
}

/// Maps the names that clients see to upstreams, which are identified by index.
pub(super) struct Router {
    /// The names of tools and prompts.
    pub(super) client_names: ClientNames,
    learned: Mutex<LearnedRoutes>,
}

impl Router {
    pub(super) fn new(servers: &[Arc<UpstreamServer>], is_prefixed: bool) -> Self {
        let learned = LearnedRoutes {
            uris: LruCache::new(MAX_REMEMBERED),
            templates: Vec::new(),
            tasks: LruCache::new(MAX_REMEMBERED),
        };
        let names = servers.iter().map(|server| server.name.clone()).collect();
        let client_names = ClientNames::new(names, is_prefixed);
        Self { client_names, learned: Mutex::new(learned) }
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
            Some(owner) if *owner != server => {
                let name = self.names().get(server).map_or("", String::as_str);
                format!("{ALIAS_PREFIX}{name}/{uri}")
            }
            Some(_) => uri.to_owned(),
            None => {
                learned.uris.put(uri.to_owned(), server);
                uri.to_owned()
            }
        }
    }

    /// Records the owner of a resource template.
    pub(super) fn learn_template(&self, server: usize, template: &str) {
        let mut learned = self.learned();
        let entry = (template.to_owned(), server);
        if !learned.templates.contains(&entry) && learned.templates.len() < MAX_REMEMBERED.get() {
            learned.templates.push(entry);
        }
    }

    /// Returns the index of the upstream that owns a resource, if it is known, and that upstream's
    /// own URI. `uri` is the one that clients see.
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
        let owner = learned.uris.get(uri).copied().or_else(|| {
            let found =
                learned.templates.iter().find(|(template, _)| matches_template(template, uri));
            found.map(|(_, server)| *server)
        });
        (owner, uri)
    }

    /// Records the upstream that created a principal's task.
    pub(super) fn learn_task(&self, principal: &Arc<str>, task: &str, server: usize) {
        self.learned().tasks.put((Arc::clone(principal), task.to_owned()), server);
    }

    /// Returns the index of the upstream that created a principal's task, or `None` if it is
    /// unknown.
    pub(super) fn task_owner(&self, principal: &Arc<str>, task: &str) -> Option<usize> {
        if self.names().len() == 1 {
            return Some(0);
        }
        self.learned().tasks.get(&(Arc::clone(principal), task.to_owned())).copied()
    }

    /// Returns the names of all upstreams, for error messages.
    pub(super) fn joined_names(&self) -> String {
        self.names().join(", ")
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
        assert_eq!(routes.uri_owner("x://1"), (Some(0), "x://1"));
        assert_eq!(routes.uri_owner(&alias), (Some(1), "x://1"));
        routes.learn_template(1, "y://{id}/data{?q}");
        assert_eq!(routes.uri_owner("y://7/data"), (Some(1), "y://7/data"));
        assert_eq!(routes.uri_owner("z://"), (None, "z://"));
        let (one, two): (Arc<str>, Arc<str>) = ("p".into(), "q".into());
        routes.learn_task(&one, "t", 1);
        assert_eq!((routes.task_owner(&one, "t"), routes.task_owner(&two, "t")), (Some(1), None));
    }
}
