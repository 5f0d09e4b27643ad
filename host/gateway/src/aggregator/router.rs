//! Which upstream a name, a URI or a task belongs to.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use context_guard_protocol::glob::matches_template;
use lru::LruCache;

use crate::gateway::upstream::server::Server;

/// URIs and tasks that are remembered.
const MOST: NonZeroUsize = NonZeroUsize::new(65_536).unwrap();
/// What stands between an upstream's name and that of its tool.
const BETWEEN: &str = "__";
/// Before the URI of a resource that another upstream has under the same URI.
const ALIAS: &str = "context-guard://server/";

#[derive(Debug)]
struct Known {
    uris: LruCache<String, usize>,
    templates: Vec<(String, usize)>,
    tasks: LruCache<(Arc<str>, String), usize>,
}

/// The routes to all upstreams.
pub(crate) struct Router {
    names: Vec<String>,
    pub(crate) prefixed: bool,
    known: Mutex<Known>,
}

impl Router {
    pub(crate) fn new(servers: &[Arc<Server>], prefixed: bool) -> Self {
        let known =
            Known { uris: LruCache::new(MOST), templates: Vec::new(), tasks: LruCache::new(MOST) };
        let names = servers.iter().map(|server| server.name.clone()).collect();
        Self { names, prefixed, known: Mutex::new(known) }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name of an upstream's tool or prompt as clients see it.
    pub(crate) fn to_client_name(&self, server: usize, name: &str) -> String {
        match self.names.get(server).filter(|_| self.prefixed) {
            Some(prefix) => format!("{prefix}{BETWEEN}{name}"),
            None => name.to_owned(),
        }
    }

    /// Upstream and name of a tool or prompt that clients see under this name.
    pub(crate) fn from_client_name<'n>(&self, name: &'n str) -> Option<(usize, &'n str)> {
        if !self.prefixed {
            return Some((0, name));
        }
        let (prefix, rest) = name.split_once(BETWEEN)?;
        let server = self.names.iter().position(|known| known == prefix)?;
        Some((server, rest))
    }

    /// A resource was listed by an upstream. The URI that clients see: its own, unless another upstream has it already.
    pub(crate) fn learn_uri(&self, server: usize, uri: &str) -> String {
        let mut known = self.known();
        match known.uris.get(uri) {
            Some(owner) if *owner != server => {
                let name = self.names.get(server).map_or("", String::as_str);
                format!("{ALIAS}{name}/{uri}")
            }
            Some(_) => uri.to_owned(),
            None => {
                known.uris.put(uri.to_owned(), server);
                uri.to_owned()
            }
        }
    }

    /// A template was listed by an upstream.
    pub(crate) fn learn_template(&self, server: usize, template: &str) {
        let mut known = self.known();
        let entry = (template.to_owned(), server);
        if !known.templates.contains(&entry) && known.templates.len() < MOST.get() {
            known.templates.push(entry);
        }
    }

    /// The upstream that has a resource, if that is known, and the URI as it knows it.
    pub(crate) fn uri_owner<'u>(&self, uri: &'u str) -> (Option<usize>, &'u str) {
        if let Some((name, rest)) = uri.strip_prefix(ALIAS).and_then(|rest| rest.split_once('/'))
            && let Some(server) = self.names.iter().position(|known| known == name)
        {
            return (Some(server), rest);
        }
        if self.names.len() == 1 {
            return (Some(0), uri);
        }
        let mut known = self.known();
        let owner = known.uris.get(uri).copied().or_else(|| {
            let found =
                known.templates.iter().find(|(template, _)| matches_template(template, uri));
            found.map(|(_, server)| *server)
        });
        (owner, uri)
    }

    /// A task began at an upstream.
    pub(crate) fn learn_task(&self, principal: &Arc<str>, task: &str, server: usize) {
        self.known().tasks.put((Arc::clone(principal), task.to_owned()), server);
    }

    /// The upstream of a task.
    pub(crate) fn task_owner(&self, principal: &Arc<str>, task: &str) -> Option<usize> {
        if self.names.len() == 1 {
            return Some(0);
        }
        self.known().tasks.get(&(Arc::clone(principal), task.to_owned())).copied()
    }

    /// The names of all upstreams, for errors.
    pub(crate) fn names(&self) -> String {
        self.names.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(names: &[&str], prefixed: bool) -> Router {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Router { names, ..Router::new(&[], prefixed) }
    }

    #[test]
    fn names_go_out_prefixed_and_come_back_plain() {
        let many = routes(&["files", "web-1"], true);
        assert_eq!(many.to_client_name(1, "get__it"), "web-1__get__it");
        assert_eq!(many.from_client_name("web-1__get__it"), Some((1, "get__it")));
        assert_eq!(
            (many.from_client_name("none__x"), many.from_client_name("files")),
            (None, None)
        );
        let one = routes(&["files"], false);
        assert_eq!(
            (one.to_client_name(0, "a__b"), one.from_client_name("a__b")),
            ("a__b".into(), Some((0, "a__b")))
        );
    }

    #[test]
    fn resources_are_found_by_uri_template_or_alias() {
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
