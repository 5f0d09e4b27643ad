//! Instances of the component, one per request.

use std::path::Path;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use wasmtime::component::{Component, GuestTaskId, Linker, ResourceTable};
use wasmtime::{Engine, Result, Store, StoreContextMut};
use wasmtime_wasi::{HostWallClock, WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::handler::{
    HandlerState, Instance, ProxyPre, ShouldAccept, WorkerExpiration, WorkerState, WorkerStatus,
};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView, default_hooks, p2, p3};

use crate::keyvalue::{self, Bucket, View};

/// The state of an instance.
pub(crate) struct State {
    wasi: WasiCtx,
    http: WasiHttpCtx,
    table: ResourceTable,
    bucket: Bucket,
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl WasiHttpView for State {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView { ctx: &mut self.http, table: &mut self.table, hooks: default_hooks() }
    }
}

/// A clock with a fixed time.
#[derive(Clone, Copy)]
struct Still(u64);

impl HostWallClock for Still {
    fn resolution(&self) -> Duration {
        Duration::from_millis(1)
    }

    fn now(&self) -> Duration {
        Duration::from_millis(self.0)
    }
}

/// The factory of instances.
pub(crate) struct Instances {
    engine: Engine,
    pre: Pre,
    env: Mutex<Vec<(String, String)>>,
    now_ms: Option<u64>,
    bucket: Bucket,
}

enum Pre {
    P2(p2::bindings::ProxyPre<State>),
    P3(p3::bindings::ServicePre<State>),
}

impl Instances {
    /// Compiles a component for either version of WASI.
    pub(crate) fn load(
        path: &Path,
        env: &[String],
        now_ms: Option<u64>,
        bucket: &Bucket,
    ) -> Result<Self> {
        let mut config = wasmtime::Config::new();
        config.wasm_component_model_async(true);
        let engine = Engine::new(&config)?;
        let component = compiled(&engine, path)?;
        let mut linker = Linker::<State>::new(&engine);
        wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
        wasmtime_wasi::p3::add_to_linker(&mut linker)?;
        p2::add_only_http_to_linker_async(&mut linker)?;
        p3::add_to_linker(&mut linker)?;
        keyvalue::add_to_linker(&mut linker, |state| View {
            bucket: &state.bucket,
            table: &mut state.table,
        })?;
        let pre = linker.instantiate_pre(&component)?;
        let pre = match p3::bindings::ServicePre::new(pre.clone()) {
            Ok(service) => Pre::P3(service),
            Err(_) => Pre::P2(p2::bindings::ProxyPre::new(pre)?),
        };
        let instances = Self { engine, pre, env: Mutex::default(), now_ms, bucket: bucket.clone() };
        instances.begin_anew(env);
        Ok(instances)
    }

    /// Replaces the environment, and clears the bucket.
    pub(crate) fn begin_anew(&self, env: &[String]) {
        let pair = |pair: &String| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (name.to_owned(), value.to_owned())
        };
        *self.env.lock().unwrap_or_else(PoisonError::into_inner) = env.iter().map(pair).collect();
        self.bucket.entries().clear();
    }
}

/// Returns a compiled component. Its code is kept beside this program, because the tests serve each
/// composition several times.
#[allow(unsafe_code, reason = "executing compiled code needs trust in its file")]
fn compiled(engine: &Engine, path: &Path) -> Result<Component> {
    let name = path.file_stem().unwrap_or_default();
    let code = std::env::current_exe()?.with_file_name(name).with_extension("cwasm");
    let modified = |path: &Path| std::fs::metadata(path).and_then(|file| file.modified()).ok();
    if modified(&code) > modified(path) {
        // SAFETY: only this program writes the file, to the folder of the build.
        if let Ok(component) = unsafe { Component::deserialize_file(engine, &code) } {
            return Ok(component);
        }
    }
    let component = Component::from_file(engine, path)?;
    // A file that has its name is complete.
    let partial = code.with_extension(std::process::id().to_string());
    std::fs::write(&partial, component.serialize()?)?;
    std::fs::rename(partial, code)?;
    Ok(component)
}

impl HandlerState for Instances {
    type StoreData = State;
    type WorkerExpiration = AfterItsRequest;
    type WorkerState = OneRequest;

    async fn instantiate(&self) -> Result<Instance<State, AfterItsRequest, OneRequest>> {
        let mut wasi = WasiCtx::builder();
        wasi.envs(&self.env.lock().unwrap_or_else(PoisonError::into_inner)).inherit_stderr();
        if let Some(now_ms) = self.now_ms {
            wasi.wall_clock(Still(now_ms));
        }
        let state = State {
            wasi: wasi.build(),
            http: WasiHttpCtx::new(),
            table: ResourceTable::new(),
            bucket: self.bucket.clone(),
        };
        let mut store = Store::new(&self.engine, state);
        let pre = match &self.pre {
            Pre::P2(pre) => ProxyPre::P2(pre.clone()),
            Pre::P3(pre) => ProxyPre::P3(pre.clone()),
        };
        let proxy = pre.instantiate_async(&mut store).await?;
        Ok(Instance {
            store,
            proxy,
            view: State::http,
            expiration: AfterItsRequest,
            state: OneRequest,
        })
    }
}

/// Ends an instance with its request.
pub(crate) struct AfterItsRequest;

impl WorkerExpiration for AfterItsRequest {
    fn poll(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        status: WorkerStatus,
        _: Instant,
    ) -> Poll<()> {
        if status == WorkerStatus::Idle { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// Limits an instance to one request.
pub(crate) struct OneRequest;

impl WorkerState for OneRequest {
    type StoreData = State;
    type RequestData = ();

    fn should_accept_request(&self, _: usize, total: usize) -> ShouldAccept {
        if total == 0 { ShouldAccept::Yes } else { ShouldAccept::Never }
    }

    fn on_request_start(
        &self,
        _: StoreContextMut<'_, State>,
        (): (),
        _: GuestTaskId,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + Sync>> {
        Box::pin(std::future::pending())
    }

    fn drop(&self, _: Store<State>, result: Result<()>) {
        if let Err(error) = result {
            eprintln!("an instance failed: {error:?}");
        }
    }
}
