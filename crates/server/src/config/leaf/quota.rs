//! Quotas: `100/minute`, `5/10s`.

use core::time::Duration;

use slidegate::Quota;

use super::time::time;

/// Windows with a name.
const NAMED: [(&str, u64); 5] =
    [("second", 1), ("minute", 60), ("hour", 3600), ("day", 86_400), ("week", 604_800)];

/// A tick, the unit of stored time.
const WINDOW_MIN: Duration = Duration::from_millis(1);

/// A quota in one word.
pub(in crate::config) fn quota(text: &str) -> Result<Quota, String> {
    let wrong =
        || "use a limit and a window, such as 100/minute, 5/s, 1000/1h or 20/10s".to_owned();
    let (limit, window) = text.split_once('/').ok_or_else(wrong)?;
    let limit = limit.trim().replace('_', "").parse().map_err(|_| wrong())?;
    let window = window_of(window.trim()).ok_or_else(wrong)?;
    if window < WINDOW_MIN {
        return Err("use a window of at least 1ms".to_owned());
    }
    Quota::new(limit, window).map_err(|error| error.to_string())
}

fn window_of(text: &str) -> Option<Duration> {
    let named = NAMED.iter().find(|(name, _)| *name == text);
    if let Some((_, seconds)) = named {
        return Some(Duration::from_secs(*seconds));
    }
    // `5/s` is one second.
    if text.starts_with(|first: char| first.is_ascii_alphabetic()) {
        return time(&format!("1{text}")).ok();
    }
    time(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_are_read() {
        for (text, limit, millis) in [
            ("100/minute", 100, 60_000),
            ("5/s", 5, 1000),
            ("10_000/hour", 10_000, 3_600_000),
            ("20/10s", 20, 10_000),
            ("3/1h30m", 3, 5_400_000),
            ("1 / day", 1, 86_400_000),
            ("7/100ms", 7, 100),
        ] {
            let read = quota(text).unwrap();
            assert_eq!((read.limit(), read.window().as_millis()), (limit, millis), "{text}");
        }
        for text in ["", "100", "100/", "/minute", "100/fortnight", "0/s", "-1/s", "1/0s", "1.5/s"]
        {
            assert!(quota(text).is_err(), "{text}");
        }
    }
}
