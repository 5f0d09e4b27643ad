//! Runs a gateway: its listeners, its background tasks, and the drain (completion of requests in
//! flight) at the end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tracing::info;

use super::front::listener;
use super::router;
use super::serve::Gateway;
use crate::{Error, Result, admin, probe};

/// The maximum time that the gateway waits for admin requests in flight when it stops.
const ADMIN_DRAIN: Duration = Duration::from_secs(1);

impl Gateway {
    /// Serves until `stop` resolves and the requests in flight have ended. `ready` is called with
    /// the addresses of the front and of the admin endpoint, if there is one.
    ///
    /// # Errors
    /// [`Error::Setup`] if an address cannot be bound.
    pub async fn run(
        self: &Arc<Self>,
        stop: impl Future<Output = ()>,
        ready: impl FnOnce(SocketAddr, Option<SocketAddr>),
    ) -> Result<()> {
        let tls = self.config.tls.as_ref();
        let tls = tls.map(|tls| listener::acceptor(tls, &self.config.folder)).transpose()?;
        let listener = listener::bind(&self.config.listen).await?;
        let address = listener.local_addr()?;
        let drain = Duration::from_secs(self.config.limits.drain_seconds);
        let mut admin_address = None;
        let mut admin_server = None;
        if let Some(config) = &self.config.admin {
            let listener = listener::bind(&config.listen).await?;
            admin_address = Some(listener.local_addr()?);
            let stopped = self.stopped.clone().cancelled_owned();
            let router = admin::router(Arc::clone(self));
            let serving = listener::serve(listener, None, router, stopped, ADMIN_DRAIN);
            admin_server = Some(tokio::spawn(serving));
        }
        let sweeping = tokio::spawn(Arc::clone(&self.aggregator).sweep());
        let probing = tokio::spawn(probe::run(Arc::clone(self)));
        let warming = tokio::spawn(Arc::clone(&self.aggregator).warm());
        ready(address, admin_address);
        let draining = async {
            stop.await;
            info!("stopping: requests in flight have {} s to finish", drain.as_secs());
            self.closing.cancel();
        };
        let router = router::router(Arc::clone(self));
        listener::serve(listener, tls, router, draining, drain).await;
        self.processes.end().await;
        // The admin endpoint outlives the front, so that operators can observe the drain.
        self.stopped.cancel();
        sweeping.abort();
        probing.abort();
        warming.abort();
        if let Some(admin) = admin_server {
            admin.await.map_err(|error| Error::Setup(error.to_string()))?;
        }
        Ok(())
    }
}
