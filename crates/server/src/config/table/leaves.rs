//! The forms of texts.

use super::Leaf;
use crate::config::leaf;

pub(crate) static TEXT: Leaf =
    Leaf { what: "a text", pattern: "^[\\s\\S]+$", check: leaf::text, secret: false };

pub(crate) static SECRET: Leaf =
    Leaf { what: "a text", pattern: "^[\\s\\S]+$", check: leaf::text, secret: true };

pub(crate) static PATH: Leaf =
    Leaf { what: "a path", pattern: "^[^\\u0000]+$", check: leaf::path, secret: false };

/// The path of a file that is read: it must exist, and is watched for changes.
pub(crate) static FILE: Leaf =
    Leaf { what: "a path", pattern: "^[^\\u0000]+$", check: leaf::path, secret: false };

pub(crate) static NAME: Leaf = Leaf {
    what: "a name",
    pattern: "^[a-zA-Z][a-zA-Z0-9_.:/*-]{0,63}$",
    check: leaf::name,
    secret: false,
};

pub(crate) static DOMAIN_NAME: Leaf =
    Leaf { what: "a domain's name", pattern: "^.{1,256}$", check: leaf::domain, secret: false };

pub(crate) static ENDPOINT: Leaf = Leaf {
    what: "an address with a port, or `off`",
    pattern: "^(off|localhost:[0-9]+|[0-9.]+:[0-9]+|\\[[0-9a-fA-F:.]+\\]:[0-9]+)$",
    check: |text| leaf::endpoint(text).map(|_| ()),
    secret: false,
};

pub(crate) static NETWORK: Leaf = Leaf {
    what: "a network such as 10.0.0.0/8, or an address",
    pattern: "^[0-9a-fA-F:.]+(/[0-9]{1,3})?$",
    check: leaf::network,
    secret: false,
};

pub(crate) static REDIS: Leaf = Leaf {
    what: "an address such as redis://host:6379",
    pattern: "^(redis|rediss|valkey|valkeys|unix|redis\\+unix|valkey\\+unix)://.+$",
    check: leaf::redis,
    secret: false,
};

pub(crate) static COLLECTOR: Leaf = Leaf {
    what: "an address such as http://127.0.0.1:4317",
    pattern: "^http://.+$",
    check: leaf::collector,
    secret: false,
};

pub(crate) static PREFIX: Leaf = Leaf {
    what: "1 to 32 of a-z A-Z 0-9 _ - .",
    pattern: "^[a-zA-Z0-9_.-]{1,32}$",
    check: leaf::prefix,
    secret: false,
};

pub(crate) static QUOTA: Leaf = Leaf {
    what: "a quota such as 100/minute or 20/10s",
    pattern: "^[0-9][0-9_]* ?/ ?([a-z]+|([0-9]+(w|d|h|m|s|ms|us|ns))+)$",
    check: |text| leaf::quota(text).map(|_| ()),
    secret: false,
};

pub(crate) static HEADER: Leaf = Leaf {
    what: "a header's name",
    pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$",
    check: leaf::header,
    secret: false,
};

pub(crate) static METHOD: Leaf =
    Leaf { what: "a method", pattern: "^[^a-z\\s]{1,32}$", check: leaf::method, secret: false };

pub(crate) static HOST: Leaf = Leaf {
    what: "a host without a port",
    pattern: "^[^\\s:]{1,253}$|^\\[.*\\]$",
    check: leaf::host,
    secret: false,
};

pub(crate) static PATH_PATTERN: Leaf = Leaf {
    what: "a path, `*` at its end for what begins so",
    pattern: "^/[^?#*]*\\*?$",
    check: leaf::path_pattern,
    secret: false,
};

pub(crate) static UNIT: Leaf = Leaf {
    what: "second, minute, hour, day, week, month or year",
    pattern: "^(second|minute|hour|day|week|month|year|SECOND|MINUTE|HOUR|DAY|WEEK|MONTH|YEAR)$",
    check: |text| match crate::spec::Unit::parse(text) {
        Some(_) => Ok(()),
        None => Err("use second, minute, hour, day, week, month or year".to_owned()),
    },
    secret: false,
};
