//! The deployment of a bundle, whose policy and component become one revision.

use std::sync::Arc;

use super::{ComponentJob, Deployed, Reload, Sources, bundle_digest, policy_digest, written};
use crate::layout::{BundleParts, Layout};
use crate::{Actor, Error, Revisions, digest};

impl Sources {
    /// Reads all sources, and deploys a new bundle. Waits for the result. Returns `None` if the
    /// bundle has been deployed already, or equals the active revision.
    ///
    /// # Errors
    /// The reason why the bundle or another source was rejected, which was already reported. A
    /// newer bundle that supersedes this one is such a reason.
    pub fn reload_bundle_parts(self: &Arc<Self>, revisions: &Arc<Revisions>) -> Deployed {
        let Reload { errors, component, .. } = self.begin_reload(revisions, false);
        match component.map(|component| component.recv()) {
            Some(Ok(deployed)) => deployed,
            Some(Err(_)) => {
                Err(Error::Refused("the thread that deploys bundles failed".to_owned()))
            }
            None if errors.is_empty() => Ok(None),
            None => Err(Error::Refused(errors.join("; "))),
        }
    }

    /// Reports a bundle that is not deployed, because it is not authentic or too old. `place` is
    /// its location.
    pub fn refuse_bundle(&self, revisions: &Revisions, place: &str, reason: &str) {
        self.state().bundle.rejected = Some(reason.to_owned());
        revisions.refuse(Actor::Bundle, place, &Error::Refused(reason.to_owned()));
    }

    /// Sets the reason why the location of the bundle cannot be read, or `None` if it can. Returns
    /// true if that is another reason than before.
    pub fn bundle_unreadable(&self, reason: Option<&str>) -> bool {
        let reason = reason.map(str::to_owned);
        std::mem::replace(&mut self.state().bundle.unreadable, reason.clone()) != reason
    }

    /// Deploys policy and component of a bundle as one revision, if a part of the bundle or of the
    /// files has changed.
    pub(super) fn reload_bundle(
        self: &Arc<Self>,
        revisions: &Arc<Revisions>,
        layout: &Layout,
        bundle: &BundleParts,
        is_forced: bool,
        reload: &mut Reload,
    ) {
        let read = layout.policy().and_then(written).and_then(|policy| {
            let component = layout.component()?;
            Ok((policy, component))
        });
        let (policy, component) = match read {
            Ok(read) => read,
            Err(error) => {
                self.unreadable(revisions, is_forced, &error, &bundle.name(), |state| {
                    &mut state.policy
                });
                reload.errors.push(error.to_string());
                return;
            }
        };
        {
            let mut state = self.state();
            let policy = policy_digest(&policy);
            let component = component.as_deref().map(digest);
            let new = bundle_digest(bundle, Some(&policy), component.as_deref());
            state.policy.unreadable = None;
            state.policy.offered = Some(policy);
            state.component.offered = component;
            if state.bundle.offered.as_ref() == Some(&new) && !is_forced {
                return;
            }
            state.bundle.offered = Some(new);
            state.bundle.rejected = None;
            state.bundle.is_pending = true;
        }
        reload.component = Some(self.queue_component(revisions, |done| ComponentJob {
            bytes: component,
            name: bundle.name(),
            bundle: Some((policy, bundle.label.clone())),
            is_forced,
            done,
        }));
    }
}
