//! Cost estimation for many similar texts. The tokens of some texts are computed, and those of the
//! others are estimated by their size.

/// The total size and cost of the texts whose cost was computed. The costs of other texts are
/// estimated from their ratio.
#[derive(Clone, Copy, Debug, Default)]
pub struct CostModel {
    bytes: u64,
    weight: u64,
}

impl CostModel {
    /// Returns the total bytes of the texts whose cost was computed.
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.bytes
    }

    /// Returns the cost of a text of `bytes` bytes. If `exactly`, or if no cost was computed
    /// before, calls `weigh` to compute the cost, and records it. Otherwise estimates the cost in
    /// O(1).
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
