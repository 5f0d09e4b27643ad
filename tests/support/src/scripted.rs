//! An HTTP server that sends prepared responses byte for byte, and records what it receives.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};

/// A request that the server received.
#[derive(Clone, Debug, Default)]
pub struct ReceivedRequest {
    /// The first line of the request: method, target and version.
    pub line: String,
    /// Headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body of the request.
    pub body: Vec<u8>,
}

impl ReceivedRequest {
    /// Returns the value of a header, or an empty string.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(own, _)| own == name);
        found.map_or("", |(_, value)| value)
    }
}

/// A prepared response.
#[derive(Clone, Debug)]
pub struct ScriptedResponse {
    /// The HTTP status code.
    pub status: u16,
    /// Headers, without the length.
    pub headers: Vec<(String, String)>,
    /// The body, chunk by chunk.
    pub chunks: Vec<Vec<u8>>,
    /// True for a response with a content length, false for a chunked one.
    pub sized: bool,
    /// The pause between two chunks, in milliseconds.
    pub pause_ms: u64,
}

impl ScriptedResponse {
    /// Creates a response with a JSON body.
    #[must_use]
    pub fn json(body: impl Into<Vec<u8>>) -> Self {
        Self::with_type("application/json", body)
    }

    /// Creates a response with a body of this media type.
    #[must_use]
    pub fn with_type(kind: &str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status: 200,
            headers: vec![("content-type".to_owned(), kind.to_owned())],
            chunks: vec![body.into()],
            sized: true,
            pause_ms: 0,
        }
    }

    /// Creates a response without a body.
    #[must_use]
    pub fn empty(status: u16) -> Self {
        Self { status, headers: Vec::new(), chunks: Vec::new(), sized: true, pause_ms: 0 }
    }

    /// Splits the body into chunks of `bytes` bytes, and omits the content length.
    #[must_use]
    pub fn chunked(mut self, bytes: usize) -> Self {
        self.chunks = self.chunks.concat().chunks(bytes).map(<[u8]>::to_vec).collect();
        self.sized = false;
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

type Script = dyn Fn(&ReceivedRequest) -> ScriptedResponse + Send + Sync;

/// A running server. It ends with the process.
pub struct ScriptedServer {
    /// The address that it listens on.
    pub address: SocketAddr,
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
    next: Arc<Mutex<VecDeque<ScriptedResponse>>>,
}

impl ScriptedServer {
    /// Starts a server that sends the responses given to [`Self::push`], in order, and then
    /// status 202.
    ///
    /// # Errors
    /// The server cannot listen.
    pub fn start() -> Result<Self> {
        let next: Arc<Mutex<VecDeque<ScriptedResponse>>> = Arc::default();
        let queue = Arc::clone(&next);
        let answer = move |_: &ReceivedRequest| {
            let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
            queue.pop_front().unwrap_or_else(|| ScriptedResponse::empty(202))
        };
        Self::listen(Arc::new(answer), next)
    }

    /// Starts a server that computes each response from the request.
    ///
    /// # Errors
    /// The server cannot listen.
    pub fn from_fn(
        script: impl Fn(&ReceivedRequest) -> ScriptedResponse + Send + Sync + 'static,
    ) -> Result<Self> {
        Self::listen(Arc::new(script), Arc::default())
    }

    fn listen(script: Arc<Script>, next: Arc<Mutex<VecDeque<ScriptedResponse>>>) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let requests: Arc<Mutex<Vec<ReceivedRequest>>> = Arc::default();
        let log = Arc::clone(&requests);
        std::thread::spawn(move || {
            for connection in listener.incoming().map_while(std::io::Result::ok) {
                let (script, log) = (Arc::clone(&script), Arc::clone(&log));
                std::thread::spawn(move || {
                    // A client may close its connection at any time.
                    let _ = serve(connection, &*script, &log);
                });
            }
        });
        Ok(Self { address, requests, next })
    }

    /// Adds the next response.
    pub fn push(&self, response: ScriptedResponse) {
        self.next.lock().unwrap_or_else(PoisonError::into_inner).push_back(response);
    }

    /// Drops the responses that were not sent.
    pub fn clear(&self) {
        self.next.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Returns the requests received so far.
    pub fn requests(&self) -> MutexGuard<'_, Vec<ReceivedRequest>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the URL of the server.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

fn serve(connection: TcpStream, script: &Script, log: &Mutex<Vec<ReceivedRequest>>) -> Result<()> {
    connection.set_nodelay(true)?;
    let mut reader = BufReader::new(connection.try_clone()?);
    let mut connection = connection;
    while let Some(request) = read(&mut reader)? {
        let answer = script(&request);
        log.lock().unwrap_or_else(PoisonError::into_inner).push(request);
        write(&mut connection, &answer)?;
    }
    Ok(())
}

fn read(reader: &mut impl BufRead) -> Result<Option<ReceivedRequest>> {
    let mut request = ReceivedRequest::default();
    if reader.read_line(&mut request.line)? == 0 {
        return Ok(None);
    }
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        request.headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
    if request.header("transfer-encoding").contains("chunked") {
        loop {
            let mut size = String::new();
            reader.read_line(&mut size)?;
            let mut chunk =
                vec![0; usize::from_str_radix(size.trim(), 16).context("no chunk")? + 2];
            reader.read_exact(&mut chunk)?;
            if chunk.len() == 2 {
                break;
            }
            request.body.extend_from_slice(&chunk[..chunk.len() - 2]);
        }
    } else {
        let length = request.header("content-length").parse().unwrap_or_default();
        request.body = vec![0; length];
        reader.read_exact(&mut request.body)?;
    }
    Ok(Some(request))
}

fn write(connection: &mut TcpStream, answer: &ScriptedResponse) -> Result<()> {
    let mut head = format!("HTTP/1.1 {} .\r\n", answer.status);
    for (name, value) in &answer.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if answer.sized {
        let length: usize = answer.chunks.iter().map(Vec::len).sum();
        head.push_str(&format!("content-length: {length}\r\n\r\n"));
        let mut chunks = answer.chunks.iter();
        let first = chunks.next().map_or(&[][..], Vec::as_slice);
        connection.write_all(&[head.as_bytes(), first].concat())?;
        for chunk in chunks {
            std::thread::sleep(std::time::Duration::from_millis(answer.pause_ms));
            connection.write_all(chunk)?;
        }
        return Ok(());
    }
    head.push_str("transfer-encoding: chunked\r\n\r\n");
    connection.write_all(head.as_bytes())?;
    for chunk in answer.chunks.iter().filter(|chunk| !chunk.is_empty()) {
        let framed = [format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat();
        connection.write_all(&framed)?;
        connection.flush()?;
        std::thread::sleep(std::time::Duration::from_millis(answer.pause_ms));
    }
    connection.write_all(b"0\r\n\r\n")?;
    Ok(())
}
