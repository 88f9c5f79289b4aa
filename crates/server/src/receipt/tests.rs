//! Tests of `receipt`.

use super::*;
use proptest::prelude::*;

fn text(receipt: PortableReceipt) -> String {
    String::from_utf8(receipt.encode(&mut [0; TEXT_MAX]).to_vec()).unwrap()
}

proptest! {
    #[test]
    fn text_round_trips(units in 1..1u64 << 53, epoch: u16, tick: u64, number: u64) {
        let receipt = PortableReceipt { units, epoch, tick, number };
        prop_assert!(text(receipt).len() <= TEXT_MAX);
        prop_assert_eq!(PortableReceipt::parse(&text(receipt)), Some(receipt));
    }

    // Two spellings of one receipt could pass for two receipts.
    #[test]
    fn no_other_text_means_the_same(word in "[A-Za-z0-9_-]{1,46}|.{0,50}") {
        if let Some(read) = PortableReceipt::parse(&word) {
            prop_assert_eq!(text(read), word);
        }
    }
}

#[test]
fn malformed_text_is_refused() {
    let long = "A".repeat(TEXT_MAX + 1);
    for word in ["", "A", "AQ", "AQD70JX_vDE", "AQD70JX_vDF", "AAD7sMDMvDEB", &long] {
        assert_eq!(PortableReceipt::parse(word), None, "{word}");
    }
}
