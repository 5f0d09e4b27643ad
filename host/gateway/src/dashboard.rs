//! The dashboard for operators, and the data that it shows. It is served at the admin address of a
//! gateway, or over a history file without a gateway.

mod assets;
mod console;
mod data;
mod events;
mod sign_in;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use context_guard_cursor_store::clock::SystemClock;

use crate::Result;
use crate::access::AdminAccess;
use crate::config::{Access, Admin, Secret, Timeouts};
use crate::front::connections::ClientConnections;
use crate::front::descriptors::ADMIN_CONNECTIONS;
use crate::front::listener::{self, ADMIN_DRAIN, Listener};
use crate::telemetry::Recorder;

pub(crate) use console::{Console, authorized, peer};

/// Returns the routes of the dashboard and of its data. The page itself is public; its data require
/// the token or a session.
pub(crate) fn router(console: &Arc<Console>) -> Router {
    let data = Router::new()
        .route("/admin/v1/query", get(data::query))
        .route("/admin/v1/sessions", get(data::sessions))
        .route("/admin/v1/records", get(data::records))
        .route("/admin/v1/health", get(data::health))
        .route("/admin/v1/events", get(events::events))
        .route_layer(from_fn_with_state(Arc::clone(console), authorized));
    let page = Router::new()
        .route("/", get(assets::index))
        .route("/assets/{name}", get(assets::asset))
        .route("/session", get(sign_in::state).post(sign_in::begin).delete(sign_in::end));
    data.merge(page).with_state(Arc::clone(console))
}

/// A dashboard over a history file, without a gateway.
pub struct Dashboard {
    /// The history file. It may be missing until a command records calls there.
    pub history: PathBuf,
    /// The address to listen on.
    pub address: SocketAddr,
    /// The key that signs operators in.
    pub key: Secret,
}

impl Dashboard {
    /// Serves the dashboard until `stop` resolves. `ready` is called with its address.
    ///
    /// # Errors
    /// [`crate::Error::Setup`] if the address cannot be bound.
    pub async fn run(
        self,
        stop: impl Future<Output = ()>,
        ready: impl FnOnce(SocketAddr),
    ) -> Result<()> {
        let socket = listener::bind(&self.address.to_string()).await?;
        let admin = Admin { listen: self.address.to_string(), token: Some(self.key), tls: None };
        let access = AdminAccess::new(&admin, &Access::default());
        let recorder = Arc::new(Recorder::new(0, None, Arc::new(SystemClock)));
        let console = Console::of_file(self.history, Arc::new(access), Arc::clone(&recorder));
        ready(socket.local_addr()?);
        let max = ADMIN_CONNECTIONS;
        let listener = Listener {
            socket,
            tls: None,
            connections: ClientConnections::new("of the dashboard", max, max),
            timeouts: Timeouts::default(),
            is_proxy: Box::new(|_| false),
            uses_proxy_protocol: false,
            recorder,
        };
        listener.serve(router(&Arc::new(console)), stop, ADMIN_DRAIN).await;
        Ok(())
    }
}
