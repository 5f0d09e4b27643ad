//! The component's memory: first what it was linked with, so that few calls have to grow it, since each growth is a system call that all threads of the host wait for;
//! then as much more as a call takes.
#![allow(
    unsafe_code,
    reason = "an allocator hands out raw memory; this is all there is of it here"
)]

use core::alloc::Layout;
use core::arch::wasm32::memory_grow;
use core::mem::MaybeUninit;

use talc::base::Talc;
use talc::base::binning::Binning;
use talc::cell::TalcSyncCell;
use talc::source::Source;
use talc::wasm::WasmBinning;

/// Bytes that are there from the beginning: with stack and data somewhat less than 16 MiB.
const ROOM: usize = 14 << 20;
/// Bytes by which memory grows at least.
const GROWTH: usize = 4 << 20;
const PAGE: usize = 64 << 10;

static mut FIRST: [MaybeUninit<u8>; ROOM] = [MaybeUninit::uninit(); ROOM];

#[global_allocator]
static ALLOCATOR: TalcSyncCell<Memory, WasmBinning> =
    TalcSyncCell::new_wasm(Memory { begun: false });

/// Where the allocator gets memory from.
#[derive(Debug)]
struct Memory {
    begun: bool,
}

// SAFETY: nothing here allocates.
unsafe impl Source for Memory {
    fn acquire<B: Binning>(talc: &mut Talc<Self, B>, layout: Layout) -> Result<(), ()> {
        if !core::mem::replace(&mut talc.source.begun, true) {
            let first = (&raw mut FIRST).cast::<u8>();
            // SAFETY: nothing but the allocator knows of it, and it is claimed once.
            return unsafe { talc.claim(first, ROOM) }.map(drop).ok_or(());
        }
        // What the allocator needs beside the memory itself is far below a page.
        let wanted = layout.size().saturating_add(layout.align()).saturating_add(PAGE);
        let pages = wanted.max(GROWTH).div_ceil(PAGE);
        let end = memory_grow::<0>(pages);
        if end == usize::MAX {
            return Err(());
        }
        let base = (end * PAGE) as *mut u8;
        // SAFETY: these pages are new.
        unsafe { talc.claim(base, pages * PAGE) }.map(drop).ok_or(())
    }
}
