//! Cost estimation for many similar texts: some are priced, and the others estimated by their size.

/// The costs of the texts that were priced.
#[derive(Clone, Copy, Debug, Default)]
pub struct CostModel {
    bytes: u64,
    weight: u64,
}

impl CostModel {
    /// Returns the number of bytes that were priced.
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.bytes
    }

    /// Returns the cost of a text of so many bytes. Prices it if `exactly`, or if none was priced
    /// before, and remembers the result. Else estimates it in O(1).
    pub fn estimate_cost(
        &mut self,
        bytes: usize,
        exactly: bool,
        weigh: impl FnOnce() -> u64,
    ) -> u64 {
        let bytes = bytes as u64;
        if !exactly && self.bytes > 0 {
            return self.weight.saturating_mul(bytes) / self.bytes;
        }
        let weight = weigh();
        self.bytes += bytes;
        self.weight = self.weight.saturating_add(weight);
        weight
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpriced_texts_are_estimated() {
        let mut weighed = CostModel::default();
        assert_eq!(weighed.estimate_cost(10, false, || 30), 30);
        assert_eq!(weighed.estimate_cost(20, true, || 30), 30);
        assert_eq!((weighed.bytes(), weighed.estimate_cost(15, false, || 99)), (30, 30));
        assert_eq!(weighed.bytes(), 30);
    }
}
