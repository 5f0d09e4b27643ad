//! The sources of a gateway: gateway file, policy, component and signing keys. Each source is read
//! again when it changes. An invalid source does not affect the others.

mod bundle;
mod report;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::info;

use super::layout::{BundleParts, Layout};
use super::{Actor, BundleLabel, Candidate, Revision, Revisions, digest};
use crate::policy::Source;
use crate::{Error, Result};

type Read = dyn Fn() -> Result<Layout> + Send + Sync;
type Deployed = Result<Option<Arc<Revision>>>;

/// Reads the sources of a gateway, and stores digests of their last contents. Rejected contents are
/// not tried again until they change, an operator reloads them, or a new component may accept the
/// policy.
pub struct Sources {
    read: Box<Read>,
    state: Mutex<State>,
    /// Serializes reloads.
    reloading: Mutex<()>,
    queue: Mutex<ComponentQueue>,
}

#[derive(Default)]
struct State {
    /// The last layout that could be read.
    layout: Layout,
    gateway_file: SourceState,
    policy: SourceState,
    component: SourceState,
    keys: SourceState,
    bundle: SourceState,
}

/// The state of one source.
#[derive(Default)]
struct SourceState {
    /// The digest of the contents that were last tried. `None` before the first attempt.
    offered: Option<String>,
    /// The reason why these contents were rejected. `None` if they were not.
    rejected: Option<String>,
    /// The reason why the source cannot be read at present. `None` if it can.
    unreadable: Option<String>,
    /// True while the contents are compiled and tested.
    is_pending: bool,
}

impl SourceState {
    fn refusal(&self) -> Option<&String> {
        self.unreadable.as_ref().or(self.rejected.as_ref())
    }
}

/// The component candidates that wait for compilation. Only the newest waits, and replaces earlier
/// ones.
#[derive(Default)]
struct ComponentQueue {
    is_running: bool,
    next: Option<ComponentJob>,
}

struct ComponentJob {
    bytes: Option<Vec<u8>>,
    /// The path of the file, or the name of the bundle.
    name: String,
    /// The policy and the label of a bundle, which is deployed as a whole. `None` for a component
    /// file.
    bundle: Option<(Source, BundleLabel)>,
    /// True if an operator requested the deployment.
    is_forced: bool,
    done: Sender<Deployed>,
}

impl Sources {
    /// Returns the sources at the locations that `read` returns. Their contents at the time of this
    /// call count as deployed.
    pub fn new(read: impl Fn() -> Result<Layout> + Send + Sync + 'static) -> Self {
        let mut state = State::default();
        if let Ok(layout) = read() {
            state.policy.offered = layout.policy().ok().map(|policy| policy_digest(&policy));
            state.component.offered = layout.component().ok().flatten().map(|bytes| digest(&bytes));
            state.bundle.offered = layout.bundle.as_ref().map(|bundle| {
                let (policy, component) = (&state.policy.offered, &state.component.offered);
                bundle_digest(bundle, policy.as_deref(), component.as_deref())
            });
            state.layout = layout;
        }
        Self {
            read: Box::new(read),
            state: Mutex::new(state),
            reloading: Mutex::default(),
            queue: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(&self) -> MutexGuard<'_, ComponentQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the paths of the files of all sources.
    #[must_use]
    pub fn files(&self) -> BTreeSet<PathBuf> {
        self.state().layout.files()
    }

    /// Reads all sources and deploys those that changed. If the component file is no longer
    /// configured, the active component continues to serve. Components are compiled in the
    /// background.
    pub fn reload_changed(self: &Arc<Self>, revisions: &Arc<Revisions>) {
        // The states and the log have the errors.
        let _ = self.begin_reload(revisions, false);
    }

    /// Reads all sources and deploys them, including those that were rejected before. Waits for the
    /// component. Returns the new revision, or `None` if nothing changed.
    ///
    /// # Errors
    /// The reasons of all sources that were rejected. The others are deployed nevertheless. A
    /// component that a newer one supersedes meanwhile also counts as rejected.
    pub fn reload_all(self: &Arc<Self>, revisions: &Arc<Revisions>) -> Deployed {
        let Reload { mut deployed, mut errors, component } = self.begin_reload(revisions, true);
        if let Some(component) = component {
            match component.recv() {
                Ok(Ok(revision)) => deployed = revision.or(deployed),
                Ok(Err(error)) => errors.push(error.to_string()),
                Err(_) => errors.push("the thread that compiles components failed".to_owned()),
            }
        }
        if errors.is_empty() { Ok(deployed) } else { Err(Error::Refused(errors.join("; "))) }
    }

    fn begin_reload(self: &Arc<Self>, revisions: &Arc<Revisions>, is_forced: bool) -> Reload {
        let _turn = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let mut reload = Reload::default();
        let layout = self.read_layout(revisions, is_forced, &mut reload);
        // Keys come first: a leaked key must not wait for anything else.
        self.reload_keys(revisions, &layout, is_forced, &mut reload);
        match &layout.bundle {
            Some(bundle) => {
                self.reload_bundle(revisions, &layout, bundle, is_forced, &mut reload);
            }
            None => {
                self.reload_policy(revisions, &layout, is_forced, &mut reload);
                self.reload_component(revisions, &layout, is_forced, &mut reload);
            }
        }
        reload
    }

    /// Reads the gateway file. If it is invalid, returns the locations of the last valid one.
    fn read_layout(&self, revisions: &Revisions, is_forced: bool, reload: &mut Reload) -> Layout {
        match (self.read)() {
            Ok(layout) => {
                let mut state = self.state();
                state.gateway_file.unreadable = None;
                state.layout = layout;
            }
            Err(error) => {
                self.unreadable(revisions, is_forced, &error, "gateway file", |state| {
                    &mut state.gateway_file
                });
                reload.errors.push(error.to_string());
            }
        }
        self.state().layout.clone()
    }

    /// Records that a source cannot be read. The same reason is reported once, because a file that
    /// is being written is read several times. A forced reload always reports it.
    fn unreadable(
        &self,
        revisions: &Revisions,
        is_forced: bool,
        error: &Error,
        name: &str,
        source: impl Fn(&mut State) -> &mut SourceState,
    ) {
        let reason = Some(error.to_string());
        let known = {
            let mut state = self.state();
            std::mem::replace(&mut source(&mut state).unreadable, reason.clone()) == reason
        };
        if !known || is_forced {
            revisions.refuse(Actor::Files, name, error);
        }
    }

    fn reload_keys(
        &self,
        revisions: &Revisions,
        layout: &Layout,
        is_forced: bool,
        reload: &mut Reload,
    ) {
        let rotated = layout.keys().and_then(|keys| match keys {
            Some(keys) => revisions.rotate(keys, layout.keep_dropped_keys),
            None => Ok(()),
        });
        match rotated {
            Ok(()) => self.state().keys = SourceState::default(),
            Err(error) => {
                self.unreadable(revisions, is_forced, &error, "signing keys", |state| {
                    &mut state.keys
                });
                reload.errors.push(error.to_string());
            }
        }
    }

    fn reload_policy(
        &self,
        revisions: &Revisions,
        layout: &Layout,
        is_forced: bool,
        reload: &mut Reload,
    ) {
        let policy = match layout.policy().and_then(written) {
            Ok(policy) => policy,
            Err(error) => {
                self.unreadable(revisions, is_forced, &error, "policy", |state| &mut state.policy);
                reload.errors.push(error.to_string());
                return;
            }
        };
        let new = Some(policy_digest(&policy));
        {
            let mut state = self.state();
            state.policy.unreadable = None;
            if state.policy.offered == new && !is_forced {
                return;
            }
            state.policy.offered = new;
        }
        match self.offer_policy(revisions, policy, is_forced) {
            Ok(revision) => reload.deployed = revision,
            Err(error) => reload.errors.push(error.to_string()),
        }
    }

    fn offer_policy(&self, revisions: &Revisions, policy: Source, is_forced: bool) -> Deployed {
        let source = policy.path.as_deref().map_or_else(|| "policy".to_owned(), shown);
        let deployed = revisions.deploy(&Candidate {
            source,
            policy: Some(policy),
            joins_trial: true,
            overrides_rollback: is_forced,
            ..Candidate::default()
        });
        self.state().policy.rejected = deployed.as_ref().err().map(ToString::to_string);
        deployed
    }

    fn reload_component(
        self: &Arc<Self>,
        revisions: &Arc<Revisions>,
        layout: &Layout,
        is_forced: bool,
        reload: &mut Reload,
    ) {
        let bytes = match layout.component() {
            Ok(bytes) => bytes,
            Err(error) => {
                self.unreadable(revisions, is_forced, &error, "component", |state| {
                    &mut state.component
                });
                reload.errors.push(error.to_string());
                return;
            }
        };
        let new = bytes.as_deref().map(digest);
        {
            let mut state = self.state();
            state.component.unreadable = None;
            if state.component.offered == new && !is_forced {
                return;
            }
            state.component.offered = new;
            state.component.rejected = None;
            state.component.is_pending = bytes.is_some();
        }
        if let (Some(bytes), Some((path, _))) = (bytes, &layout.component) {
            reload.component = Some(self.queue_component(revisions, |done| ComponentJob {
                bytes: Some(bytes),
                name: shown(path),
                bundle: None,
                is_forced,
                done,
            }));
        }
    }

    /// Queues a component in place of a waiting one. Starts the thread that compiles components if
    /// it is not running. Returns the receiver of the result.
    fn queue_component(
        self: &Arc<Self>,
        revisions: &Arc<Revisions>,
        job: impl FnOnce(Sender<Deployed>) -> ComponentJob,
    ) -> Receiver<Deployed> {
        let (done, result) = channel();
        let mut queue = self.queue();
        queue.next = Some(job(done));
        if !queue.is_running {
            let (sources, revisions) = (Arc::clone(self), Arc::clone(revisions));
            let thread = std::thread::Builder::new().name("component".to_owned());
            queue.is_running = thread.spawn(move || sources.deploy_components(&revisions)).is_ok();
            if !queue.is_running {
                // Without a thread, the receiver must not wait.
                queue.next = None;
            }
        }
        result
    }

    fn deploy_components(&self, revisions: &Revisions) {
        loop {
            let job = {
                let mut queue = self.queue();
                queue.is_running = queue.next.is_some();
                queue.next.take()
            };
            let Some(job) = job else { return };
            let deployed = self.deploy_component(revisions, &job);
            let _ = job.done.send(deployed);
        }
    }

    fn deploy_component(&self, revisions: &Revisions, job: &ComponentJob) -> Deployed {
        let (policy, bundle) = job.bundle.clone().unzip();
        let is_bundle = bundle.is_some();
        let candidate = Candidate {
            source: job.name.clone(),
            component: job.bytes.clone(),
            policy,
            joins_trial: !is_bundle,
            actor: if is_bundle { Actor::Bundle } else { Actor::Files },
            overrides_rollback: job.is_forced,
            bundle,
            ..Candidate::default()
        };
        // Compiling takes seconds. A newer file in the meantime supersedes this one.
        let prepared = revisions.prepare(&candidate);
        let is_superseded = self.queue().next.is_some();
        if is_superseded {
            info!(source = candidate.source, "component superseded by a newer file");
            return Err(Error::Refused("superseded by a newer component".to_owned()));
        }
        let mut deployed = revisions.deploy_prepared(&candidate, prepared);
        if is_bundle {
            let mut state = self.state();
            state.bundle.rejected = deployed.as_ref().err().map(ToString::to_string);
            state.bundle.is_pending = false;
            return deployed;
        }
        // A policy may be valid under the new component only.
        let (layout, policy_is_rejected) = {
            let state = self.state();
            (state.layout.clone(), state.policy.rejected.is_some())
        };
        if policy_is_rejected && let Ok(policy) = layout.policy() {
            if deployed.is_ok() {
                deployed = self.offer_policy(revisions, policy, job.is_forced).or(deployed);
            } else {
                let both = Candidate { policy: Some(policy), ..candidate };
                let prepared = revisions.prepare(&both);
                deployed = revisions.deploy_prepared(&both, prepared);
                if deployed.is_ok() {
                    self.state().policy.rejected = None;
                }
            }
        }
        let mut state = self.state();
        state.component.rejected = deployed.as_ref().err().map(ToString::to_string);
        state.component.is_pending = false;
        deployed
    }
}

/// The results of a reload until now.
#[derive(Default)]
struct Reload {
    deployed: Option<Arc<Revision>>,
    errors: Vec<String>,
    /// Receives the result of the component. `None` if no component is being compiled.
    component: Option<Receiver<Deployed>>,
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// Returns the digest of the parts that a bundle deploys. `policy` and `component` are digests of
/// its parts, which files may provide.
fn bundle_digest(bundle: &BundleParts, policy: Option<&str>, component: Option<&str>) -> String {
    format!("{} {policy:?} {component:?}", bundle.label.number)
}

fn policy_digest(policy: &Source) -> String {
    digest(policy.json().as_bytes())
}

/// Rejects an empty policy file, which is probably incomplete.
fn written(policy: Source) -> Result<Source> {
    match &policy.path {
        Some(path) if policy.text.trim().is_empty() => Err(Error::Refused(format!(
            "{} is empty: write {{}} for the default policy",
            path.display()
        ))),
        _ => Ok(policy),
    }
}
