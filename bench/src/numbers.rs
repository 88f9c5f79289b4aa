//! Which key is checked next.

use core::ops::Range;

use crate::random::Random;

/// Checks between two looks at the source of key numbers; also the size of a batch.
pub(crate) const BLOCK: usize = 64;

/// A source of key numbers, handed out in blocks so that choosing the kind costs nothing per check.
#[derive(Debug, Clone)]
pub(crate) enum Numbers<'a> {
    /// Always number 0.
    One,
    /// Every number once, to fill a table.
    InOrder(Range<u32>),
    /// Any number below `keys`.
    Uniform { random: Random, keys: u32 },
    /// Numbers drawn beforehand, because drawing them takes longer than a check; around again at
    /// the end. They are read in order, four bytes each, so no cache miss is charged.
    Listed { list: &'a [u32], next: usize },
}

impl Numbers<'_> {
    /// Fills `block` from the start. Returns the number of values written.
    pub(crate) fn fill(&mut self, block: &mut [u32; BLOCK]) -> usize {
        match self {
            Self::One => block.fill(0),
            Self::InOrder(range) => {
                let wanted = block.iter_mut();
                return wanted.zip(range).map(|(place, number)| *place = number).count();
            }
            Self::Uniform { random, keys } => block.fill_with(|| random.below(*keys)),
            Self::Listed { list, next } => {
                for place in &mut *block {
                    *place = list.get(*next).copied().unwrap_or(0);
                    *next = if *next + 1 >= list.len() { 0 } else { *next + 1 };
                }
            }
        }
        BLOCK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_order_ends_with_a_part_of_a_block() {
        let mut numbers = Numbers::InOrder(0..100);
        let mut block = [0; BLOCK];
        assert_eq!(numbers.fill(&mut block), 64);
        assert_eq!(block[63], 63);
        assert_eq!(numbers.fill(&mut block), 36);
        assert_eq!(block[35], 99);
        assert_eq!(numbers.fill(&mut block), 0);
    }

    #[test]
    fn a_list_starts_again() {
        let list: Vec<u32> = (0..65).collect();
        let mut numbers = Numbers::Listed { list: &list, next: 0 };
        let mut block = [0; BLOCK];
        numbers.fill(&mut block);
        numbers.fill(&mut block);
        assert_eq!(block[..3], [64, 0, 1]);
    }
}
