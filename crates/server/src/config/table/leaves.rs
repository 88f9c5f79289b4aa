//! The formats of texts: their descriptions, patterns and checks.

use core::net::SocketAddr;
use core::time::Duration;

use slidegate::{ErrorKind, Policy, Quota};
use slidegate_http::{ClientAddress, HopField, QuotaUnit};
use slidegate_redis::Redis;

use super::Leaf;

/// The maximum length of a path pattern.
const PATTERN_MAX: usize = 1024;

pub(crate) static TEXT: Leaf = Leaf::new("a text", "^[\\s\\S]+$", text);

pub(crate) static SECRET: Leaf = Leaf { secret: true, ..Leaf::new("a text", "^[\\s\\S]+$", text) };

pub(crate) static PATH: Leaf = Leaf::new("a path", "^[^\\u0000]+$", |text| {
    allow(!text.is_empty() && !text.contains('\0'), "use the path of a file")
});

/// The path of a file that is read. It must exist, and is watched for changes.
pub(crate) static FILE: Leaf = Leaf::new(PATH.what, PATH.pattern, |text| (PATH.check)(text));

pub(crate) static NAME: Leaf = Leaf::new("a name", "^[a-zA-Z][a-zA-Z0-9_.:/*-]{0,63}$", |text| {
    // The library checks the name; any quota works.
    let policy = Policy::new(text, Quota::per_second(1));
    allow(policy.is_ok(), "use 1 to 64 of a-z A-Z 0-9 _ - . : / *, a letter first")
});

pub(crate) static DOMAIN_NAME: Leaf = Leaf::new("a domain's name", "^.{1,256}$", |text| {
    let usable = (1..=256).contains(&text.len()) && !text.contains(char::is_control);
    allow(usable, "use 1 to 256 bytes without control characters")
});

pub(crate) static ENDPOINT: Leaf = Leaf::new(
    "an address with a port, or `off`",
    "^(off|localhost:[0-9]+|[0-9.]+:[0-9]+|\\[[0-9a-fA-F:.]+\\]:[0-9]+)$",
    |text| endpoint(text).map(|_| ()),
);

/// Parses a listen address. `None` is `off`.
pub(super) fn endpoint(text: &str) -> Result<Option<SocketAddr>, String> {
    if text == "off" {
        return Ok(None);
    }
    if let Some(port) = text.strip_prefix("localhost:") {
        return endpoint(&format!("127.0.0.1:{port}"));
    }
    let port = text.strip_prefix(':').unwrap_or(text);
    text.parse().map(Some).map_err(|_| match port.parse::<u16>() {
        Ok(_) => {
            format!("add the address: 127.0.0.1:{port} for this machine, 0.0.0.0:{port} for all")
        }
        Err(_) => {
            "use an address with a port, such as 127.0.0.1:8080 or [::1]:8080, or off".to_owned()
        }
    })
}

pub(crate) static NETWORK: Leaf = Leaf::new(
    "a network such as 10.0.0.0/8, or an address",
    "^[0-9a-fA-F:.]+(/[0-9]{1,3})?$",
    |text| {
        let alone = ClientAddress::builder().field(HopField::XForwardedFor).trust(text).build();
        alone.map(|_| ()).map_err(|error| error.to_string())
    },
);

pub(crate) static REDIS: Leaf = Leaf::new(
    "an address such as redis://host:6379",
    "^(redis|rediss|valkey|valkeys|unix|redis\\+unix|valkey\\+unix)://.+$",
    |text| {
        let help = "use redis://host:6379, rediss://host:6379 for TLS, or unix:///path/to/socket";
        allow(Redis::single(text).is_ok(), help)
    },
);

pub(crate) static COLLECTOR: Leaf =
    Leaf::new("an address such as http://127.0.0.1:4317", "^http://.+$", |text| {
        let usable = text.parse().is_ok_and(|uri: http::Uri| {
            uri.scheme_str() == Some("http") && uri.authority().is_some()
        });
        let help = "use http://host:4317; for TLS, run a collector on this machine";
        allow(usable, help)
    });

pub(crate) static HOST_AND_PORT: Leaf =
    Leaf::new("a host with a port", "^(\\[[0-9a-fA-F:.]+\\]|[^\\s:/]+):[0-9]{1,5}$", |text| {
        let parts = text.rsplit_once(':').and_then(|(host, port)| {
            let is_address = host.starts_with('[') && host.ends_with(']');
            let is_host = is_address || (has_only(host, b"-._") && !host.is_empty());
            port.parse::<u16>().ok().filter(|port| is_host && *port > 0)
        });
        allow(parts.is_some(), "use a host and a port, such as statsd.internal:8125")
    });

pub(crate) static TAG: Leaf =
    Leaf::new("a tag such as zone:eu", "^[^\\s:=|#@,]{1,64}:[^\\s:=|#@,]{1,64}$", |text| {
        let is_part = |part: &str| {
            (1..=64).contains(&part.len())
                && !part
                    .contains(|letter: char| letter.is_whitespace() || ":=|#@,".contains(letter))
        };
        let usable =
            text.split_once(':').is_some_and(|(name, value)| is_part(name) && is_part(value));
        allow(usable, "use a name and a value, such as zone:eu")
    });

pub(crate) static PREFIX: Leaf =
    Leaf::new("1 to 32 of a-z A-Z 0-9 _ - . :", "^[a-zA-Z0-9_.:-]{1,32}$", |text| {
        let usable = (1..=32).contains(&text.len()) && has_only(text, b"_-.:");
        allow(usable, "use 1 to 32 of a-z A-Z 0-9 _ - . :")
    });

pub(crate) static QUOTA: Leaf = Leaf::new(
    "a quota such as 100/minute or 20/10s",
    "^[0-9][0-9_]* ?/ ?([a-z]+|([0-9]+(w|d|h|m|s|ms|us|ns))+)$",
    |text| match text.parse::<Quota>() {
        Ok(quota) => {
            allow(quota.window() >= Duration::from_millis(1), "use a window of at least 1ms")
        }
        Err(error) if error.kind() == ErrorKind::Policy => {
            Err("use a limit and a window, such as 100/minute, 5/s, 1000/1h or 20/10s".to_owned())
        }
        Err(error) => Err(error.to_string()),
    },
);

pub(crate) static QUOTA_UNIT: Leaf =
    Leaf::new("the name of a unit", "^[ !#-\\[\\]-~]{1,64}$", |text| {
        QuotaUnit::new(text.to_owned()).map(|_| ()).map_err(|error| error.to_string())
    });

pub(crate) static HEADER: Leaf =
    Leaf::new("a header's name", "^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$", |text| {
        let usable = (1..=128).contains(&text.len()) && has_only(text, TOKEN);
        allow(usable, "use the name of a header, such as x-api-key")
    });

pub(crate) static METHOD: Leaf = Leaf::new("a method", "^[^a-z\\s]{1,32}$", |text| {
    let usable = (1..=32).contains(&text.len()) && has_only(text, TOKEN);
    let capital = !text.bytes().any(|byte| byte.is_ascii_lowercase());
    allow(usable && capital, "use a method in capital letters, such as POST")
});

pub(crate) static HOST: Leaf =
    Leaf::new("a host without a port", "^[^\\s:]{1,253}$|^\\[.*\\]$", |text| {
        let address = text.starts_with('[') && text.ends_with(']');
        let usable = (1..=253).contains(&text.len()) && (address || has_only(text, b"-._"));
        allow(usable, "use a host without a port, such as api.example.com")
    });

pub(crate) static PATH_PATTERN: Leaf =
    Leaf::new("a path, with `*` at its end for a prefix", "^/[^?#*]*\\*?$", |text| {
        let plain = text.strip_suffix('*').unwrap_or(text);
        let usable = plain.starts_with('/')
            && text.len() <= PATTERN_MAX
            && !plain.contains(|letter: char| letter.is_control() || "?#*".contains(letter));
        let help = "use a path that starts with `/`, such as /login or /api/*; `*` only at its end";
        allow(usable, help)
    });

pub(crate) static UNIT: Leaf = Leaf::new(
    "second, minute, hour, day, week, month or year",
    "^(second|minute|hour|day|week|month|year|SECOND|MINUTE|HOUR|DAY|WEEK|MONTH|YEAR)$",
    |text| {
        let known = crate::spec::Unit::parse(text).is_some();
        allow(known, "use second, minute, hour, day, week, month or year")
    },
);

/// The characters of an HTTP token other than letters and digits.
const TOKEN: &[u8] = b"!#$%&'*+-.^_`|~";

/// Checks that a text is not empty.
pub(crate) fn text(text: &str) -> Result<(), String> {
    allow(!text.is_empty(), "use a text that is not empty")
}

/// Returns `help` as an error unless the text is `usable`.
pub(crate) fn allow(usable: bool, help: &str) -> Result<(), String> {
    if usable { Ok(()) } else { Err(help.to_owned()) }
}

fn has_only(text: &str, others: &[u8]) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || others.contains(&byte))
}
