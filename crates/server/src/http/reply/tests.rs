//! Tests of `reply`.

use super::*;

#[test]
fn seconds_round_up_to_the_millisecond() {
    for (nanos, text) in [
        (0, "0"),
        (1, "0.001"),
        (59_997_000_000, "59.997"),
        (999_000_001, "1"),
        (1_000_000_000, "1"),
        (1_050_000_000, "1.050"),
        (1_700_000_000_123_000_000, "1700000000.123"),
    ] {
        let seconds = Seconds(Duration::from_nanos(nanos));
        let mut writer = DecisionWriter::with_capacity(1);
        writer.seconds(seconds.0);
        assert_eq!(writer.finish(), text, "{nanos}");
        let read: f64 = text.parse().unwrap();
        let json = serde_json::to_string(&seconds).unwrap();
        assert_eq!(json.parse::<f64>().unwrap().to_bits(), read.to_bits(), "{nanos}");
    }
}
