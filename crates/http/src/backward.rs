//! Text that is written from its end, as the digits of a number come.

/// Up to `N` bytes, the last first. What finds no room is left out.
pub(crate) struct Backward<const N: usize> {
    bytes: [u8; N],
    start: usize,
}

impl<const N: usize> Backward<N> {
    #[inline]
    pub(crate) fn new() -> Self {
        Self { bytes: [0; N], start: N }
    }

    /// Puts text before what is there.
    #[inline]
    pub(crate) fn text(&mut self, text: &[u8]) {
        let Some(start) = self.start.checked_sub(text.len()) else { return };
        self.bytes[start..self.start].copy_from_slice(text);
        self.start = start;
    }

    /// Puts a number before what is there. The formatter of the standard library takes five times as
    /// long.
    #[inline]
    pub(crate) fn number(&mut self, number: u64) {
        let (mut start, mut rest) = (self.start, number);
        while let Some(place) = self.bytes[..start].last_mut() {
            *place = b'0' + (rest % 10) as u8;
            start -= 1;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.start = start;
    }

    #[inline]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_comes_first() {
        for number in [0, 7, 10, 99, 12_345, u64::MAX] {
            let mut text = Backward::<30>::new();
            text.number(number);
            text.text(b";t=");
            text.number(60);
            assert_eq!(text.as_bytes(), format!("60;t={number}").as_bytes());
        }
    }
}
