use super::*;

const KEY: u64 = 7;

// Epochs as a shard hands them out, against a set of all that were ended.
#[test]
fn no_epoch_comes_again_before_receipts_are_refused_by_tick() {
    let account = Account::unlimited();
    let mut resets = Resets::default();
    let mut epoch = 65_000;
    let mut ended = std::collections::BTreeSet::new();
    for reset in 0..70_000_u64 {
        ended.insert(epoch);
        resets.note(KEY, epoch, 10 + reset / 50_000, &account);
        epoch = resets.next_epoch(KEY).unwrap();
        if ended.contains(&epoch) {
            assert!(resets.is_void(KEY, 11), "reset {reset} reuses epoch {epoch}");
        }
        assert_eq!(resets.is_void(KEY, 11), reset >= 65_535, "reset {reset}");
    }
    assert!(!resets.is_void(KEY, 12), "later receipts are good again");
    assert!(!resets.is_void(KEY + 1, 10), "other keys are not affected");
}

#[test]
fn a_note_is_kept_for_two_windows() {
    let account = Account::unlimited();
    let mut resets = Resets::default();
    for key in 0..100 {
        resets.note(key, 1, 1000 + key, &account);
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

// Without memory for a note, no receipt of the shard is accepted that could be void.
#[test]
fn without_memory_every_earlier_receipt_is_void() {
    let account = Account::new(KEY_BYTES);
    let mut resets = Resets::default();
    resets.note(1, 5, 10, &account);
    assert!(!resets.is_void(2, 10));
    resets.note(2, 5, 20, &account);
    assert!(resets.is_void(1, 20) && resets.is_void(2, 20) && resets.is_void(3, 20));
    assert!(!resets.is_void(3, 21));
    assert_eq!(resets.bytes(), account.used());
}
