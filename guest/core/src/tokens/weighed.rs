//! What texts weigh that are much like others: some are weighed, and tell what a byte of them does.

/// Texts that were weighed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weighed {
    bytes: u64,
    weight: u64,
}

impl Weighed {
    /// Bytes of all that were weighed.
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.bytes
    }

    /// What a text of so many bytes weighs, about; none where nothing was weighed yet.
    #[must_use]
    pub fn tells(self, bytes: usize) -> Option<u64> {
        self.weight.saturating_mul(bytes as u64).checked_div(self.bytes)
    }

    /// Adds a text that was weighed, and gives its weight.
    pub fn add(&mut self, bytes: usize, weight: u64) -> u64 {
        self.bytes += bytes as u64;
        self.weight = self.weight.saturating_add(weight);
        weight
    }
}
