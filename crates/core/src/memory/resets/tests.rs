//! Epochs and records of reset keys.

use super::*;

fn budget(account: &Account) -> NoteBudget<'_> {
    NoteBudget { bytes_max: usize::MAX, account }
}

const KEY: u64 = 7;

// Epochs as a shard assigns them, compared with the set of all that were ended.
#[test]
fn no_epoch_is_reused_before_receipts_are_rejected_by_tick() {
    let account = Account::unlimited();
    let mut resets = Resets::default();
    let mut epoch = 65_000;
    let mut ended = std::collections::BTreeSet::new();
    for reset in 0..70_000_u64 {
        ended.insert(epoch);
        resets.note(KEY, epoch, 10 + reset / 50_000, budget(&account));
        epoch = resets.next_epoch(KEY).unwrap();
        if ended.contains(&epoch) {
            assert!(resets.is_void(KEY, 11), "reset {reset} reuses epoch {epoch}");
        }
        assert_eq!(resets.is_void(KEY, 11), reset >= 65_534, "reset {reset}");
    }
    assert!(!resets.is_void(KEY, 12), "later receipts are valid");
    assert!(!resets.is_void(KEY + 1, 10), "other keys are not affected");
}

#[test]
fn a_note_is_kept_for_two_windows() {
    let account = Account::unlimited();
    let mut resets = Resets::default();
    for key in 0..100 {
        resets.note(key, 1, 1000 + key, budget(&account));
    }
    assert_eq!(resets.bytes(), account.used());
    resets.sweep(1000, 1000 + 2 * 60 + 49, 60, &account);
    assert_eq!(resets.next_epoch(49), None);
    assert_eq!(resets.next_epoch(50), Some(2));
    assert_eq!(resets.bytes(), account.used());
    for _ in 0..20 {
        resets.sweep(7, 5000, 60, &account);
    }
    assert_eq!((resets.bytes(), account.used()), (0, 0));
}

// Dropped records void every receipt of the shard that they could have covered, and no later one.
#[test]
fn without_memory_the_records_make_room() {
    let account = Account::new(4 * KEY_BYTES);
    let small = NoteBudget { bytes_max: 3 * KEY_BYTES, account: &account };
    for (budget, most) in [(budget(&account), 4), (small, 3)] {
        let mut resets = Resets::default();
        for number in 1..=100 {
            resets.note(number, 5, 10 * number, budget);
            let dropped = (number - 1) / most * most;
            assert!(dropped == 0 || resets.is_void(999, 10 * dropped), "after {number}");
            assert!(!resets.is_void(999, 10 * dropped + 1), "after {number}");
            assert_eq!(resets.next_epoch(number), Some(6), "after {number}");
            assert_eq!(resets.bytes(), account.used());
        }
        resets.sweep(100, 10_000, 1, &account);
        assert_eq!(account.used(), 0);
    }
}

#[test]
fn without_memory_all_earlier_receipts_are_void() {
    let account = Account::new(0);
    let mut resets = Resets::default();
    resets.note(1, 5, 10, budget(&account));
    assert!(resets.is_void(1, 10) && resets.is_void(2, 10) && !resets.is_void(2, 11));
    assert_eq!(account.used(), 0);
}
