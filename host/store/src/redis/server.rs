//! The ways to connect to a server: by its address, as a cluster, or as the master that Sentinels
//! report.

use futures_util::future::select_ok;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::cluster_async::ClusterConnection;
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ErrorKind, IntoConnectionInfo as _,
    Pipeline, RedisError, RedisFuture, RedisResult, TlsMode, Value,
};
use tokio::sync::Mutex;

use super::RedisOptions;
use crate::Topology;

/// A server, and the way to find it.
pub(super) struct Server {
    kind: Kind,
    config: AsyncConnectionConfig,
}

enum Kind {
    One(Client),
    /// A cluster, and the client of one node, which suffices for channels because nodes forward
    /// messages to each other.
    Cluster(Box<ClusterClient>, Client),
    /// A client for each Sentinel. All are asked concurrently, because some may not answer.
    Sentinel(Vec<Mutex<SentinelClient>>),
}

/// A connection to a server.
#[derive(Clone)]
pub(super) enum Connection {
    One(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Server {
    /// Returns the server of `options`. Does not connect.
    ///
    /// # Errors
    /// A URL is invalid.
    pub(super) fn new(options: &RedisOptions) -> RedisResult<Self> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(options.timeout))
            .set_response_timeout(Some(options.timeout));
        let urls = || options.urls.iter().map(String::as_str);
        let first = urls().next().unwrap_or_default();
        let kind = match &options.topology {
            Topology::One => Kind::One(Client::open(first)?),
            Topology::Cluster => {
                let nodes = ClusterClientBuilder::new(urls())
                    .connection_timeout(options.timeout)
                    .response_timeout(options.timeout)
                    .retries(2)
                    .build()?;
                Kind::Cluster(Box::new(nodes), Client::open(first)?)
            }
            Topology::Sentinel(name) => {
                let clients: RedisResult<Vec<_>> =
                    urls().map(|url| sentinel(url, name).map(Mutex::new)).collect();
                Kind::Sentinel(clients?)
            }
        };
        Ok(Self { kind, config })
    }

    /// Returns true if the server is a cluster.
    pub(super) fn is_cluster(&self) -> bool {
        matches!(self.kind, Kind::Cluster(..))
    }

    /// Returns the client of the server, of the current master, or of one node of the cluster.
    ///
    /// # Errors
    /// No Sentinel answers, or none knows a master.
    pub(super) async fn client(&self) -> RedisResult<Client> {
        match &self.kind {
            Kind::One(client) | Kind::Cluster(_, client) => Ok(client.clone()),
            Kind::Sentinel(sentinels) => {
                let asked = sentinels.iter().map(|sentinel| {
                    Box::pin(async { sentinel.lock().await.async_get_client().await })
                });
                select_ok(asked).await.map(|(client, _)| client)
            }
        }
    }

    /// Opens a connection to one node.
    ///
    /// # Errors
    /// The node cannot be found or reached.
    pub(super) async fn open_node(&self) -> RedisResult<MultiplexedConnection> {
        self.client().await?.get_multiplexed_async_connection_with_config(&self.config).await
    }

    /// Opens a connection for the commands of the store.
    ///
    /// # Errors
    /// The server cannot be found or reached.
    pub(super) async fn open(&self) -> RedisResult<Connection> {
        match &self.kind {
            Kind::Cluster(client, _) => {
                client.get_async_connection().await.map(Connection::Cluster)
            }
            _ => self.open_node().await.map(Connection::One),
        }
    }
}

/// Returns a client that asks one Sentinel for the master `name`. The login and the database in the
/// URL apply to the master.
fn sentinel(url: &str, name: &str) -> RedisResult<SentinelClient> {
    let info = url.into_connection_info()?;
    let master = info.redis_settings();
    let is_encrypted = matches!(info.addr(), ConnectionAddr::TcpTls { .. });
    if matches!(info.addr(), ConnectionAddr::Unix(_)) {
        return Err(RedisError::from((ErrorKind::InvalidClientConfig, "a Sentinel needs a host")));
    }
    let mut builder =
        SentinelClientBuilder::new([info.addr().clone()], name, SentinelServerType::Master)?
            .set_client_to_redis_db(master.db());
    if let Some(user) = master.username() {
        builder = builder.set_client_to_redis_username(user);
    }
    if let Some(password) = master.password() {
        builder = builder.set_client_to_redis_password(password);
    }
    if is_encrypted {
        builder = builder.set_client_to_redis_tls_mode(TlsMode::Secure);
    }
    builder.build()
}

impl ConnectionLike for Connection {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Self::One(connection) => connection.req_packed_command(cmd),
            Self::Cluster(connection) => connection.req_packed_command(cmd),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        cmd: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Self::One(connection) => connection.req_packed_commands(cmd, offset, count),
            Self::Cluster(connection) => connection.req_packed_commands(cmd, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Self::One(connection) => connection.get_db(),
            Self::Cluster(connection) => connection.get_db(),
        }
    }
}
