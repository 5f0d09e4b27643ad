//! What texts weigh that are much like others: some are weighed, and tell what a byte of them does.

/// Texts that were weighed.
#[derive(Clone, Copy, Debug, Default)]
pub struct CostModel {
    bytes: u64,
    weight: u64,
}

impl CostModel {
    /// Bytes of all that were weighed.
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.bytes
    }

    /// What a text of so many bytes weighs: weighed, and known from now on, where it should be (`exactly`), or none was before; else by its bytes. O(1) then.
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
    fn what_was_weighed_tells_of_the_others() {
        let mut weighed = CostModel::default();
        assert_eq!(weighed.estimate_cost(10, false, || 30), 30);
        assert_eq!(weighed.estimate_cost(20, true, || 30), 30);
        assert_eq!((weighed.bytes(), weighed.estimate_cost(15, false, || 99)), (30, 30));
        assert_eq!(weighed.bytes(), 30);
    }
}
