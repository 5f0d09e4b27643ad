//! The component's allocator. It starts with memory from the data segment. Each growth of linear
//! memory is a system call that locks the address space of the host process.
#![allow(unsafe_code, reason = "an allocator needs raw memory; no other module does")]

use core::alloc::Layout;
use core::arch::wasm32::memory_grow;
use core::mem::MaybeUninit;

use talc::base::Talc;
use talc::base::binning::Binning;
use talc::cell::TalcSyncCell;
use talc::source::Source;
use talc::wasm::WasmBinning;

/// Size, in bytes, of the initial memory for allocations. With stack and data, the component starts
/// with slightly less than 16 MiB.
const INITIAL_BYTES: usize = 14 << 20;
/// Minimum number of bytes by which linear memory grows.
const MIN_GROWTH_BYTES: usize = 4 << 20;
/// Size of a WebAssembly page in bytes.
const PAGE_BYTES: usize = 64 << 10;

static mut INITIAL_MEMORY: [MaybeUninit<u8>; INITIAL_BYTES] =
    [MaybeUninit::uninit(); INITIAL_BYTES];

#[global_allocator]
static ALLOCATOR: TalcSyncCell<Memory, WasmBinning> =
    TalcSyncCell::new_wasm(Memory { claimed_initial: false });

/// The source of memory for the allocator: first the initial memory, then growth of the linear
/// memory.
#[derive(Debug)]
struct Memory {
    claimed_initial: bool,
}

// SAFETY: `acquire` does not allocate.
unsafe impl Source for Memory {
    fn acquire<B: Binning>(talc: &mut Talc<Self, B>, layout: Layout) -> Result<(), ()> {
        if !core::mem::replace(&mut talc.source.claimed_initial, true) {
            let initial = (&raw mut INITIAL_MEMORY).cast::<u8>();
            // SAFETY: only the allocator accesses this static, and it is claimed once.
            return unsafe { talc.claim(initial, INITIAL_BYTES) }.map(drop).ok_or(());
        }
        // The allocator's own metadata takes far less than a page.
        let wanted = layout.size().saturating_add(layout.align()).saturating_add(PAGE_BYTES);
        let pages = wanted.max(MIN_GROWTH_BYTES).div_ceil(PAGE_BYTES);
        let end = memory_grow::<0>(pages);
        if end == usize::MAX {
            return Err(());
        }
        let base = (end * PAGE_BYTES) as *mut u8;
        // SAFETY: `memory_grow` returned these pages, so nothing else uses them.
        unsafe { talc.claim(base, pages * PAGE_BYTES) }.map(drop).ok_or(())
    }
}
