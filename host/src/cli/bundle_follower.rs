//! Follows the bundle of a gateway: reads the bundle at the start, and deploys newer ones.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use anyhow::{Context as _, Result};
use context_guard::bundle::{AcceptedNumber, Bundle, BundleSource, Error, Place, public_keys};
use context_guard::config::{self, Config, Secret};
use context_guard::engine::{SigningKey, digest};
use context_guard::policy::Source;
use context_guard::revision::{BundleLabel, BundleParts, Revisions, Sources};
use context_guard::store::CursorStore;
use tracing::{error, info, warn};

/// The bundle that the gateway currently uses. It replaces parts of the layout of the gateway's
/// files.
pub(crate) type CurrentBundle = Arc<Mutex<Option<Arc<BundleParts>>>>;

/// Follows the bundle of a gateway.
pub(crate) struct BundleFollower {
    source: BundleSource,
    accepted: AcceptedNumber,
    /// The public keys in the gateway file that verify bundles.
    keys: Vec<String>,
    secret: Option<Secret>,
    interval: Duration,
    current: CurrentBundle,
    /// The bytes of the bundle that is used from the start, until it is deployed. Empty without
    /// one.
    first: Vec<u8>,
    /// The error of the last read, which is reported once. `None` if the last read succeeded.
    fault: Option<String>,
}

impl BundleFollower {
    /// Prepares to follow the bundle of a gateway file. Returns `None` if the file configures no
    /// bundle.
    pub(crate) fn open(
        config: &Config,
        file: Option<&Path>,
        store: &Arc<dyn CursorStore>,
    ) -> Result<Option<Self>> {
        let Some(settings) = &config.bundle else { return Ok(None) };
        public_keys(&settings.public_keys).context("bundle.publicKeys")?;
        let folder = match &settings.state {
            Some(folder) => config.folder.join(folder),
            None => config::state_folder()?.join("bundles"),
        };
        // Gateways of one user have a number each.
        let name = std::path::absolute(file.unwrap_or(&config.folder))?;
        let mut name = digest(name.as_os_str().as_encoded_bytes());
        name.truncate(16);
        let place = Place::parse(&settings.source, &config.folder);
        Ok(Some(Self {
            source: BundleSource::new(place, Arc::clone(store))?,
            accepted: AcceptedNumber::open(folder.join(format!("{name}.json")), Arc::clone(store))?,
            keys: settings.public_keys.clone(),
            secret: settings.secret.clone(),
            interval: Duration::from_secs(settings.poll_seconds),
            current: CurrentBundle::default(),
            first: Vec::new(),
            fault: None,
        }))
    }

    /// Returns the bundle that the gateway uses, for the layout of its sources.
    pub(crate) fn current(&self) -> CurrentBundle {
        Arc::clone(&self.current)
    }

    fn set_current(&self, parts: BundleParts) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(parts));
    }

    /// Reads the bundle at the start. If its source cannot be read, or has no acceptable bundle,
    /// uses the bundle that was deployed last.
    ///
    /// # Errors
    /// There is no acceptable bundle, and none was deployed before.
    pub(crate) fn read_first(&mut self) -> Result<()> {
        match self.read() {
            Ok(Some((bytes, parts))) => {
                self.first = bytes;
                self.set_current(parts);
                Ok(())
            }
            Ok(None) => Ok(()),
            Err(error) => self.use_last_deployed(&error),
        }
    }

    /// Uses the bundle that was deployed last instead of one that failed with `reason`.
    ///
    /// # Errors
    /// No bundle was deployed before, or it cannot be used.
    pub(crate) fn use_last_deployed(&mut self, reason: &dyn std::fmt::Display) -> Result<()> {
        let place = self.source.place().clone();
        let bytes = self.accepted.last_deployed();
        // It is on the disk of this user, but the keys may have been replaced since.
        let parts = bytes.and_then(|bytes| Ok((self.open_bundle(&bytes)?, bytes)));
        let (bundle, bytes) = parts.map_err(|_| {
            anyhow::anyhow!(
                "the bundle of {place} cannot be used, and none was deployed before: {reason}"
            )
        })?;
        error!(
            "the bundle of {place} cannot be used, bundle {} serves, which was deployed last: {reason}",
            bundle.number
        );
        let parts = self.parts(bundle)?;
        self.first = bytes;
        self.set_current(parts);
        Ok(())
    }

    /// Compares the number of the first bundle with the number in the fleet's store, which needs
    /// the signing keys. An older bundle is replaced by the one that was deployed last.
    ///
    /// # Errors
    /// The bundle that was deployed last is too old, too, or there is none.
    pub(crate) fn compare_with_fleet(&mut self) -> Result<()> {
        if self.first.is_empty() {
            return Ok(());
        }
        let bundle = self.open_bundle(&self.first)?;
        if let Err(error) = self.accepted.compare_with_fleet(&bundle) {
            self.use_last_deployed(&error)?;
            let bundle = self.open_bundle(&self.first)?;
            self.accepted.compare_with_fleet(&bundle)?;
        }
        Ok(())
    }

    fn open_bundle(&self, bytes: &[u8]) -> Result<Bundle, Error> {
        Bundle::open(bytes, &public_keys(&self.keys)?)
    }

    /// Reads the source of bundles. Returns the bytes and parts of a new, acceptable bundle, or
    /// `None` if there is no new one.
    fn read(&mut self) -> Result<Option<(Vec<u8>, BundleParts)>, Error> {
        let Some(bytes) = self.source.read()? else { return Ok(None) };
        let bundle = self.open_bundle(&bytes)?;
        // Keys that cannot be decrypted do not use up the number.
        let parts = self.parts(bundle.clone())?;
        self.accepted.accept(&bundle)?;
        Ok(Some((bytes, parts)))
    }

    fn parts(&self, bundle: Bundle) -> Result<BundleParts, Error> {
        let secret = self.secret.as_ref().map(|secret| secret.expose().as_bytes());
        let keys = bundle.contents.signing_keys(secret)?.map(|keys| {
            let key = |(at, key): (usize, String)| SigningKey {
                id: at.to_string(),
                secret: key.into_bytes(),
            };
            keys.into_iter().enumerate().map(key).collect()
        });
        Ok(BundleParts {
            place: self.source.place().to_string(),
            label: BundleLabel { number: bundle.number, salt: bundle.salt },
            policy: bundle.contents.policy.map(|policy| Source::inline(Some(policy))),
            component: bundle.contents.component,
            keys,
        })
    }

    /// Starts the thread that deploys newer bundles. It ends at the next poll after `revisions` is
    /// dropped.
    pub(crate) fn follow(
        mut self,
        revisions: &Arc<Revisions>,
        sources: &Arc<Sources>,
    ) -> Result<()> {
        let (revisions, sources) = (Arc::downgrade(revisions), Arc::clone(sources));
        let first = std::mem::take(&mut self.first);
        std::thread::Builder::new().name("bundle".to_owned()).spawn(move || {
            if !first.is_empty() {
                self.accepted.deployed(&first);
            }
            drop(first);
            loop {
                std::thread::sleep(self.interval);
                let Some(revisions) = Weak::upgrade(&revisions) else { return };
                self.poll(&revisions, &sources);
            }
        })?;
        Ok(())
    }

    fn poll(&mut self, revisions: &Arc<Revisions>, sources: &Arc<Sources>) {
        let place = self.source.place().to_string();
        match self.read() {
            Ok(new) => {
                if self.fault.take().is_some() {
                    info!("the bundle of {place} can be read again");
                }
                sources.bundle_unreadable(None);
                let Some((bytes, parts)) = new else { return };
                self.set_current(parts);
                // A refusal is reported where it happens.
                if sources.reload_bundle_parts(revisions).is_ok() {
                    self.accepted.deployed(&bytes);
                }
            }
            Err(error) => {
                let reason = error.to_string();
                let is_known = self.fault.as_ref() == Some(&reason);
                self.fault = Some(reason.clone());
                match error {
                    Error::Unreachable(_) | Error::File { .. } => {
                        if sources.bundle_unreadable(Some(&reason)) {
                            warn!("the bundle cannot be read, the deployed one serves: {reason}");
                        }
                    }
                    Error::Refused(_) | Error::Invalid(_) if !is_known => {
                        sources.refuse_bundle(revisions, &place, &reason);
                    }
                    Error::Refused(_) | Error::Invalid(_) => {}
                }
            }
        }
    }
}
