//! A stateful client of the aggregator: its streams, what it runs, what it was asked.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::event_streams::{COMMON, Streams};
use crate::gateway::upstream::connection::{AbortOnDrop, ClientInfo, UpstreamConnection};
use crate::gateway::wire::reply;
use crate::message::{Head, Kind, with_id};

/// Who waits for the answer to a request that the client was asked.
enum Asked {
    /// An upstream, which knows it under this id.
    Upstream(Weak<UpstreamConnection>, String),
    /// The gateway.
    Gateway(oneshot::Sender<Vec<u8>>),
}

/// A session.
pub(crate) struct ClientSession {
    pub(crate) id: String,
    pub(crate) principal: Arc<str>,
    pub(crate) info: ClientInfo,
    streams: Mutex<Streams>,
    asked: Mutex<HashMap<u64, Asked>>,
    last_asked: AtomicU64,
    /// Requests in flight, by id as it is spelt.
    running: Mutex<HashMap<String, CancellationToken>>,
    /// What passes on the messages of upstreams that belong to no request.
    relays: Mutex<HashMap<String, (Weak<UpstreamConnection>, AbortOnDrop)>>,
    /// Resources that are watched on stateless upstreams.
    pub(crate) watched: Mutex<HashMap<String, AbortOnDrop>>,
    log_level: Mutex<Option<String>>,
    used: Mutex<Instant>,
    /// Ends everything that belongs to it.
    pub(crate) ended: CancellationToken,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ClientSession {
    pub(crate) fn new(id: String, principal: Arc<str>, info: ClientInfo) -> Self {
        Self {
            id,
            principal,
            info,
            streams: Mutex::default(),
            asked: Mutex::default(),
            last_asked: AtomicU64::new(0),
            running: Mutex::default(),
            relays: Mutex::default(),
            watched: Mutex::default(),
            log_level: Mutex::default(),
            used: Mutex::new(Instant::now()),
            ended: CancellationToken::new(),
        }
    }

    pub(crate) fn streams(&self) -> MutexGuard<'_, Streams> {
        lock(&self.streams)
    }

    /// It is in use.
    pub(crate) fn touch(&self) {
        *lock(&self.used) = Instant::now();
    }

    /// Since when it is idle; not at all while something runs.
    pub(crate) fn idle(&self) -> Duration {
        if lock(&self.running).is_empty() { lock(&self.used).elapsed() } else { Duration::ZERO }
    }

    pub(crate) fn log_level(&self) -> Option<String> {
        lock(&self.log_level).clone()
    }

    pub(crate) fn set_log_level(&self, level: &str) {
        *lock(&self.log_level) = Some(level.to_owned());
    }

    /// A request begins; it can be cancelled by what is given back.
    pub(crate) fn begin(&self, id: &str) -> CancellationToken {
        let token = self.ended.child_token();
        lock(&self.running).insert(id.to_owned(), token.clone());
        token
    }

    /// A request has ended.
    pub(crate) fn finish(&self, id: &str) {
        lock(&self.running).remove(id);
        self.touch();
    }

    /// The client takes no interest in a request any more.
    pub(crate) fn cancel(&self, id: &str) {
        if let Some(token) = lock(&self.running).remove(id) {
            token.cancel();
        }
    }

    /// A request of an upstream as the client gets it: under an id that no other upstream uses, which is given with it.
    pub(crate) fn ask_for(
        &self,
        connection: &Arc<UpstreamConnection>,
        request: &[u8],
    ) -> (u64, Vec<u8>) {
        let id =
            Head::read(request).map_or_else(|| "null".to_owned(), |head| head.raw_id().to_owned());
        let number = self.last_asked.fetch_add(1, Ordering::Relaxed) + 1;
        lock(&self.asked).insert(number, Asked::Upstream(Arc::downgrade(connection), id));
        (number, with_id(request, &format!("\"cg-{number}\"")))
    }

    /// A request of the gateway's own to the client, and where its answer will come.
    pub(crate) fn ask(&self, method: &str, params: &str) -> (Vec<u8>, oneshot::Receiver<Vec<u8>>) {
        let number = self.last_asked.fetch_add(1, Ordering::Relaxed) + 1;
        let (sender, receiver) = oneshot::channel();
        lock(&self.asked).insert(number, Asked::Gateway(sender));
        let method = serde_json::Value::from(method);
        let request = format!(
            r#"{{"jsonrpc":"2.0","id":"cg-{number}","method":{method},"params":{params}}}"#
        );
        (request.into_bytes(), receiver)
    }

    /// Whether the client has not answered one of these questions.
    pub(crate) fn is_asked(&self, questions: &[u64]) -> bool {
        let asked = lock(&self.asked);
        questions.iter().any(|number| asked.contains_key(number))
    }

    /// The answers to these questions are of no interest any more.
    pub(crate) fn forget(&self, questions: &[u64]) {
        let mut asked = lock(&self.asked);
        for number in questions {
            asked.remove(number);
        }
        // The gateway's own, whose request was cancelled.
        asked.retain(|_, asked| !matches!(asked, Asked::Gateway(waits) if waits.is_closed()));
    }

    /// The client answered something that it was asked.
    pub(crate) fn answered(&self, answer: &[u8]) {
        let number = Head::read(answer).and_then(|head| {
            let id: String = serde_json::from_str(head.raw_id()).ok()?;
            id.strip_prefix("cg-")?.parse::<u64>().ok()
        });
        let Some(asked) = number.and_then(|number| lock(&self.asked).remove(&number)) else {
            return;
        };
        match asked {
            Asked::Upstream(connection, id) => {
                if let Some(connection) = connection.upgrade() {
                    connection.send_in_background(with_id(answer, &id));
                }
            }
            Asked::Gateway(waits) => {
                let _ = waits.send(answer.to_vec());
            }
        }
    }

    /// Passes on what an upstream says that belongs to no request. Once a connection.
    pub(crate) fn relay(self: &Arc<Self>, connection: &Arc<UpstreamConnection>, shared: bool) {
        let mut relays = lock(&self.relays);
        if let Some((old, _)) = relays.get(&connection.server.name)
            && old.ptr_eq(&Arc::downgrade(connection))
        {
            return;
        }
        let mut messages = connection.unrelated();
        let (session, weak) = (Arc::downgrade(self), Arc::downgrade(connection));
        let upstream = weak.clone();
        let task = tokio::spawn(async move {
            loop {
                let message = match messages.recv().await {
                    Ok(message) => message,
                    Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => continue,
                    Err(tokio::sync::broadcast::error::RecvError::Closed) => return,
                };
                let (Some(session), Some(connection)) = (session.upgrade(), upstream.upgrade())
                else {
                    return;
                };
                let Some(head) = Head::read(&message) else { continue };
                if head.kind() == Some(Kind::Request) {
                    if shared {
                        connection.send_in_background(nobody(head.raw_id()));
                    } else {
                        let (_, asked) = session.ask_for(&connection, &message);
                        session.streams().send(COMMON, asked);
                    }
                } else {
                    session.streams().send(COMMON, message.to_vec());
                }
            }
        });
        relays.insert(connection.server.name.clone(), (weak, AbortOnDrop(task)));
    }
}

impl Drop for ClientSession {
    fn drop(&mut self) {
        self.ended.cancel();
    }
}

/// The answer to a request of an upstream that can be shown to nobody.
pub(crate) fn nobody(id: &str) -> Vec<u8> {
    reply::error(
        id,
        reply::NOT_TRANSLATABLE,
        "There is no client that could be asked: the connection is shared, or the client speaks a revision without requests to clients.",
    )
}
