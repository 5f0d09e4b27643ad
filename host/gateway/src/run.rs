//! Runs a gateway: its listeners, its background tasks, and the drain (completion of requests in
//! flight) at the end.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tracing::info;

use super::aggregator::MAX_SWEEP_PAUSE;
use super::front::certificates::{Acceptor, Certificates};
use super::front::connections::ClientConnections;
use super::front::descriptors::{ADMIN_CONNECTIONS, FILTER_CONNECTIONS, max_connections};
use super::front::listener::{self, ADMIN_DRAIN, Listener};
use super::router;
use super::serve::Gateway;
use super::tasks::AbortOnDrop;
use crate::{Error, Result, admin, alerts, filter_store, fleet_front, probe};

impl Gateway {
    /// Reads the last lists of upstreams from `file`, which an earlier run wrote, and writes them
    /// there. The gateway answers from them while the upstreams start.
    #[must_use]
    pub fn with_list_file(self: Arc<Self>, file: PathBuf) -> Arc<Self> {
        self.aggregator.restore_lists(file);
        self
    }

    /// Starts the background tasks that requests in flight need. Dropping the result ends them.
    pub(crate) fn spawn_background(self: &Arc<Self>) -> Vec<AbortOnDrop> {
        let memory = Arc::clone(&self.memory).run(Arc::clone(&self.recorder));
        let gateway = Arc::clone(self);
        let sessions = async move {
            if let Some(single) = &gateway.single_upstream {
                single.sweep(MAX_SWEEP_PAUSE).await;
            }
        };
        let tasks = [
            tokio::spawn(sessions),
            tokio::spawn(Arc::clone(&self.aggregator).sweep()),
            tokio::spawn(memory),
            // Requests that fail during the drain raise alerts too, and the webhook sends those
            // that wait.
            tokio::spawn(alerts::run(Arc::clone(self))),
        ];
        tasks.into_iter().map(AbortOnDrop).collect()
    }

    /// Starts the background tasks that end when the gateway begins to stop: those that start and
    /// watch upstreams. Dropping the result ends them.
    pub(crate) fn spawn_watchers(self: &Arc<Self>) -> Vec<AbortOnDrop> {
        let tasks = [
            tokio::spawn(probe::run(Arc::clone(self))),
            tokio::spawn(Arc::clone(&self.aggregator).warm()),
        ];
        tasks.into_iter().map(AbortOnDrop).collect()
    }

    /// Waits until all recorded calls are written to the history file. Before that, exports for at
    /// most three seconds.
    pub(crate) async fn flush_history(&self) {
        if let Some(export) = &self.export {
            export.finish().await;
        }
        if let Some(history) = self.recorder.history().cloned() {
            let _ = tokio::task::spawn_blocking(move || history.flush()).await;
        }
    }

    /// Starts the admin endpoint, if one is configured. Returns its address and its task, which
    /// ends when the gateway has stopped. Both are `None` without an admin endpoint.
    pub(crate) async fn start_admin(
        self: &Arc<Self>,
    ) -> Result<(Option<SocketAddr>, Option<JoinHandle<()>>)> {
        let Some(config) = &self.config.admin else { return Ok((None, None)) };
        let socket = listener::bind(&config.listen).await?;
        let address = socket.local_addr()?;
        let connections = ("of the admin endpoint", ADMIN_CONNECTIONS);
        let router = admin::router(Arc::clone(self));
        let tls = config.tls.as_ref();
        let tls = tls.map(|tls| Certificates::load(tls, &self.config.folder)).transpose()?;
        let acceptor = tls.as_ref().map(Certificates::acceptor);
        let server = self.serve_beside(socket, acceptor, connections, router);
        if let Some(certificates) = tls {
            let stopped = self.stopped.clone();
            tokio::spawn(async move { stopped.run_until_cancelled(certificates.watch()).await });
        }
        Ok((Some(address), Some(server)))
    }

    /// Serves a router in addition to the front until the gateway has stopped. `name` and `max` are
    /// the name of the endpoint and its maximum number of connections.
    fn serve_beside(
        &self,
        socket: TcpListener,
        tls: Option<Acceptor>,
        (name, max): (&'static str, usize),
        router: Router,
    ) -> JoinHandle<()> {
        let stopped = self.stopped.clone().cancelled_owned();
        let listener = Listener {
            socket,
            tls,
            connections: ClientConnections::new(name, max, max),
            timeouts: self.config.timeouts.clone(),
            is_proxy: Box::new(|_| false),
            uses_proxy_protocol: false,
            recorder: Arc::clone(&self.recorder),
        };
        tokio::spawn(async move { listener.serve(router, stopped, ADMIN_DRAIN).await })
    }

    /// Starts the endpoint for filters, if one is configured. Returns its task, which ends when the
    /// gateway has stopped, because filters read entries until then.
    async fn start_filter_store(
        self: &Arc<Self>,
        tls: Option<Acceptor>,
    ) -> Result<Option<JoinHandle<()>>> {
        let Some(settings) = &self.config.filter_store else { return Ok(None) };
        let socket = listener::bind(&settings.listen).await?;
        info!("serving the entries of filters at {}", socket.local_addr()?);
        let connections = ("of filterStore", FILTER_CONNECTIONS);
        let router = filter_store::router(self, settings);
        Ok(Some(self.serve_beside(socket, tls, connections, router)))
    }

    /// Serves until `stop` resolves, and then until the requests in flight have ended or the time
    /// of the drain has passed. `ready` is called with the addresses of the front and of the admin
    /// endpoint, if there is one.
    ///
    /// # Errors
    /// [`Error::Setup`] if an address cannot be bound, and [`Error::Config`] if a file of `tls` is
    /// invalid.
    pub async fn run(
        self: &Arc<Self>,
        stop: impl Future<Output = ()>,
        ready: impl FnOnce(SocketAddr, Option<SocketAddr>),
    ) -> Result<()> {
        let tls = self.config.tls.as_ref();
        let tls = tls.map(|tls| Certificates::load(tls, &self.config.folder)).transpose()?;
        let listener = listener::bind(&self.config.listen).await?;
        let address = listener.local_addr()?;
        let drain = Duration::from_secs(self.config.limits.drain_seconds);
        let (admin_address, admin_server) = self.start_admin().await?;
        let mut replicas = None;
        if let Some(fleet) = &self.fleet {
            let listener = listener::bind(&fleet.settings.listen).await?;
            fleet.listens_at(listener.local_addr()?);
            let (gateway, fleet) = (Arc::clone(self), Arc::clone(fleet));
            replicas = Some(tokio::spawn(fleet_front::serve(gateway, fleet, listener, drain)));
        }
        let acceptor = tls.as_ref().map(Certificates::acceptor);
        let filters = self.start_filter_store(acceptor.clone()).await?;
        let (background, watchers) = (self.spawn_background(), self.spawn_watchers());
        let gateway = Arc::clone(self);
        let key_refresh = tokio::spawn(async move { gateway.access.refresh_keys().await });
        let certificates = tls.map(|tls| tokio::spawn(tls.watch()));
        let limits = &self.config.limits;
        let connections = ClientConnections::new(
            "limits.connections",
            max_connections(&self.config),
            limits.connections_per_address,
        );
        ready(address, admin_address);
        let draining = async {
            stop.await;
            info!("stopping: requests in flight have {} s to finish", drain.as_secs());
            self.closing.cancel();
            drop(watchers);
        };
        let router = router::router(Arc::clone(self));
        let gateway = Arc::clone(self);
        let listener = Listener {
            socket: listener,
            tls: acceptor,
            connections,
            timeouts: self.config.timeouts.clone(),
            is_proxy: Box::new(move |address| gateway.access.is_trusted_proxy(address)),
            uses_proxy_protocol: self.config.access.proxy_protocol,
            recorder: Arc::clone(&self.recorder),
        };
        listener.serve(router, draining, drain).await;
        if let Some(replicas) = replicas {
            let _ = replicas.await;
        }
        self.places.return_slots().await;
        self.processes.end().await;
        // The admin endpoint outlives the front, so that operators can observe the drain.
        self.stopped.cancel();
        self.aggregator.store_lists().await;
        self.flush_history().await;
        drop(background);
        key_refresh.abort();
        if let Some(certificates) = certificates {
            certificates.abort();
        }
        for server in [admin_server, filters].into_iter().flatten() {
            server.await.map_err(|error| Error::Setup(error.to_string()))?;
        }
        Ok(())
    }
}
