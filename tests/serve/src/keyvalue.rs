//! wasi:keyvalue as wasmCloud implements it: a bucket that outlives a request. The one of wasmtime
//! is cleared between requests.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wasmtime::component::{HasData, Linker, Resource, ResourceTable};

mod bindings {
    #![allow(missing_docs, unreachable_pub, clippy::all, reason = "generated from wit/")]
    wasmtime::component::bindgen!({
        inline: "
            package test:host;
            world host {
                import wasi:keyvalue/store@0.2.0-draft;
            }
        ",
        path: "../../guest/http/store/wit/draft",
        world: "test:host/host",
        with: { "wasi:keyvalue/store.bucket": crate::keyvalue::Bucket },
        imports: { default: trappable },
    });
}
use bindings::wasi::keyvalue::store::{self, Error, Host, HostBucket};

/// A bucket.
#[derive(Clone, Default)]
pub struct Bucket(Arc<Mutex<BTreeMap<String, Vec<u8>>>>);

impl Bucket {
    /// Returns all entries.
    pub(crate) fn entries(&self) -> MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The state that serves the interface.
pub(crate) struct View<'a> {
    pub(crate) bucket: &'a Bucket,
    pub(crate) table: &'a mut ResourceTable,
}

struct KeyValue;

impl HasData for KeyValue {
    type Data<'a> = View<'a>;
}

/// Adds the interface to a linker.
pub(crate) fn add_to_linker<T: 'static>(
    linker: &mut Linker<T>,
    view: fn(&mut T) -> View<'_>,
) -> wasmtime::Result<()> {
    store::add_to_linker::<T, KeyValue>(linker, view)
}

impl Host for View<'_> {
    fn open(&mut self, _: String) -> wasmtime::Result<Result<Resource<Bucket>, Error>> {
        Ok(Ok(self.table.push(self.bucket.clone())?))
    }
}

impl HostBucket for View<'_> {
    fn get(
        &mut self,
        bucket: Resource<Bucket>,
        key: String,
    ) -> wasmtime::Result<Result<Option<Vec<u8>>, Error>> {
        Ok(Ok(self.table.get(&bucket)?.entries().get(&key).cloned()))
    }

    fn set(
        &mut self,
        bucket: Resource<Bucket>,
        key: String,
        value: Vec<u8>,
    ) -> wasmtime::Result<Result<(), Error>> {
        self.table.get(&bucket)?.entries().insert(key, value);
        Ok(Ok(()))
    }

    fn delete(
        &mut self,
        bucket: Resource<Bucket>,
        key: String,
    ) -> wasmtime::Result<Result<(), Error>> {
        self.table.get(&bucket)?.entries().remove(&key);
        Ok(Ok(()))
    }

    fn drop(&mut self, bucket: Resource<Bucket>) -> wasmtime::Result<()> {
        self.table.delete(bucket)?;
        Ok(())
    }
}
