//! Numbers of variable length (LEB128): seven bits a byte, the lowest first.

/// Appends a number.
pub(crate) fn write(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(u8::try_from(number & 0x7f).unwrap_or_default() | 0x80);
        number >>= 7;
    }
    bytes.push(u8::try_from(number).unwrap_or_default());
}

/// Removes a number from the front of `bytes`. `None` if `bytes` is incomplete.
pub(crate) fn read(bytes: &mut &[u8]) -> Option<u64> {
    let (mut number, mut shift) = (0_u64, 0_u32);
    loop {
        let next = byte(bytes)?;
        number |= u64::from(next & 0x7f).checked_shl(shift).unwrap_or_default();
        if next & 0x80 == 0 {
            return Some(number);
        }
        shift += 7;
    }
}

/// Removes a byte from the front of `bytes`. `None` if `bytes` is empty.
pub(crate) fn byte(bytes: &mut &[u8]) -> Option<u8> {
    let (first, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(*first)
}
