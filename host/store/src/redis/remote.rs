//! The connection to a server: opened at the first call, and again after a failure.

use std::sync::atomic::Ordering;

use redis::{ErrorKind, FromRedisValue, Pipeline, RedisError, RedisResult};

use super::{Connection, Remote, is_read_only};

impl Remote {
    pub(super) async fn query<T: FromRedisValue>(&self, pipeline: &Pipeline) -> RedisResult<T> {
        // The server may have closed an idle connection. The second attempt uses a new one.
        let result = self.once(pipeline).await;
        if result.as_ref().is_err_and(RedisError::is_connection_dropped) {
            return self.once(pipeline).await;
        }
        result
    }

    async fn once<T: FromRedisValue>(&self, pipeline: &Pipeline) -> RedisResult<T> {
        let mut connection = self.connect().await?;
        let asked = tokio::time::timeout(self.timeout, pipeline.query_async(&mut connection)).await;
        let result = asked.unwrap_or_else(|_| {
            Err(std::io::Error::new(std::io::ErrorKind::TimedOut, "no answer in time").into())
        });
        // After a failover, the connection may still lead to the former master, which is read-only.
        if result
            .as_ref()
            .is_err_and(|error: &RedisError| error.kind() == ErrorKind::Io || is_read_only(error))
        {
            *self.connection.lock().await = None;
        }
        result
    }

    /// Drops the connection, so that the next call opens one.
    pub(super) fn forget_connection(&self) {
        self.is_connected.store(false, Ordering::Relaxed);
        if let Ok(mut connection) = self.connection.try_lock() {
            *connection = None;
        }
    }

    async fn connect(&self) -> RedisResult<Connection> {
        let mut slot = self.connection.lock().await;
        if let Some(connection) = &*slot {
            return Ok(connection.clone());
        }
        let connection =
            tokio::time::timeout(self.timeout, self.server.open()).await.map_err(|_| {
                RedisError::from(std::io::Error::new(
                    std::io::ErrorKind::TimedOut,
                    "no connection in time",
                ))
            })??;
        *slot = Some(connection.clone());
        self.is_connected.store(true, Ordering::Relaxed);
        Ok(connection)
    }
}
