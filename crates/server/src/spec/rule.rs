//! A rule: the forward auth requests that it matches, and their policy.

use slidegate::Cost;
use slidegate_http::{Duplicates, PathPattern};

use crate::config::table::leaves::{HOST, METHOD, PATH_PATTERN};
use crate::config::table::{Kind, Pairs, Read, Reader, given, keywords, section};
use crate::config::yaml::Node;

section! {
    /// A rule that checks matching requests against a policy.
    #[derive(Debug, Clone, PartialEq)]
    pub struct RuleSpec, RULE = "a rule" {
        /// The name in metrics and messages.
        name: String = Leaf(&NAME), required, example "login";
        /// The requests that match. All of the given parts must match.
        matches("match"): MatchSpec = Section(&MATCH), absent "every request",
            example "{path: /login, method: POST}";
        /// The key that requests are counted by: all parts together.
        key: Vec<KeyPart> = Either(&[KEY_WORD, List(&KEY_PART, 8)]), required,
            example "[address, {header: x-api-key}]";
        /// The policy that they are checked against.
        policy: String = Leaf(&NAME), required, example "api";
        /// The header whose value names a tier. Your proxy must set it, because clients can send
        /// any value.
        tier_header: Option<String> = Leaf(&HEADER), absent "the quotas of the policy",
            example "x-plan", via lowercase;
        /// Units of one request.
        cost: Cost = Whole(1, LIMIT_MAX), default "1", example "5", via units;
        /// The treatment of a request without a part of the key: skip the rule, deny the request,
        /// or count it by its address.
        missing("missing_key"): MissingKey = Choice(MissingKey::KEYWORDS), default "skip",
            example "address";
        /// The treatment of a request in which a header of the key or `tier_header` has several
        /// values: deny the request, or use the first or the last value, as the service does.
        duplicates: Duplicates = Choice(Duplicates::KEYWORDS), default "deny", example "last";
        /// Whether a comma in a header of the key separates values, into which proxies join repeated
        /// headers, or is part of the value, as in the subject of a certificate.
        commas: Commas = Choice(Commas::KEYWORDS), default "split", example "keep";
    }
}

section! {
    /// The parts of a request that must match. An empty list matches everything.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct MatchSpec, MATCH = "a match" {
        /// One of these paths. `*` at the end matches every path with this prefix.
        paths("path"): Vec<String> = PATHS, absent "any",
            example "[/login, /api/*]";
        /// How paths are compared: in normalized form, or exactly as the client sent them.
        path_match: PathMatch = Choice(PathMatch::KEYWORDS), default "normalized", example "exact";
        /// Whether uppercase and lowercase letters of paths are the same.
        ignore_case: bool = Flag, default "false", example "true";
        /// One of these methods.
        methods("method"): Vec<String> = METHODS, absent "any",
            example "[POST, PUT]";
        /// One of these hosts, without a port.
        hosts("host"): Vec<String> = HOSTS, absent "any",
            example "api.example.com", via all_lowercase;
        /// All of these headers with these values. `"*"` is any value.
        headers("header"): Vec<(String, Option<String>)> = Named(&HEADER, &Leaf(&TEXT), 32),
            absent "any", example "{x-plan: gold, authorization: \"*\"}", via header_matches;
    }
}

impl MatchSpec {
    /// Returns the paths, as they are compared with those of requests.
    pub fn path_patterns(&self) -> impl Iterator<Item = PathPattern<'_>> {
        self.paths.iter().map(|text| {
            let mut pattern = PathPattern::new(text);
            if self.path_match == PathMatch::Exact {
                pattern = pattern.exact();
            }
            if self.ignore_case { pattern.ignore_case() } else { pattern }
        })
    }
}

/// One text of a format, or a list of them.
macro_rules! one_or_more {
    ($leaf:ident, $most:literal) => {
        Kind::Either(&[Kind::Leaf(&$leaf), Kind::List(&Kind::Leaf(&$leaf), $most)])
    };
}

const PATHS: Kind = one_or_more!(PATH_PATTERN, 256);
const METHODS: Kind = one_or_more!(METHOD, 64);
const HOSTS: Kind = one_or_more!(HOST, 256);

section! {
    static KEY_PART_MAP = "a part of a key" {
        /// The value of a header.
        key header = Leaf(&HEADER), absent "the other is set", example "x-api-key";
        /// A constant: all requests are counted together.
        key constant = Leaf(&TEXT), absent "the other is set", example "all";
    }
}

/// A part of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyPart {
    /// The client's address, as the trusted proxies report it.
    Address,
    /// The value of a header.
    Header(String),
    /// The requested host.
    Host,
    /// The method.
    Method,
    /// The path pattern of the match. A client could invent the path of a request.
    Path,
    /// A constant.
    Constant(String),
}

const KEY_WORD: Kind = Kind::Choice(&["address", "host", "method", "path"]);
static KEY_PART: Kind = Kind::Either(&[KEY_WORD, Kind::One(&KEY_PART_MAP)]);

impl Read for KeyPart {
    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        if let Some(scalar) = node.as_scalar() {
            return match scalar.text.as_str() {
                "address" => Some(Self::Address),
                "host" => Some(Self::Host),
                "method" => Some(Self::Method),
                "path" => Some(Self::Path),
                _ => None,
            };
        }
        let mut given = |name| given::<String>(&KEY_PART_MAP, name, node, reader);
        match (given("header"), given("constant")) {
            (Some(header), _) => Some(Self::Header(header.to_ascii_lowercase())),
            (None, constant) => constant.map(Self::Constant),
        }
    }
}

keywords! {
    /// The treatment of a request without a part of the key.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum MissingKey {
        /// The rule does not apply.
        #[default]
        Skip = "skip",
        /// The request is denied.
        Deny = "deny",
        /// The request is counted by the client's address.
        Address = "address",
    }
}

keywords! {
    /// How the path of a request is compared with those of a rule.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum PathMatch {
        /// In normalized form: see [`RequestPath`](slidegate_http::RequestPath).
        #[default]
        Normalized = "normalized",
        /// As the client sent it, without the query.
        Exact = "exact",
    }
}

keywords! {
    Duplicates {
        Deny = "deny",
        First = "first",
        Last = "last",
    }
}

keywords! {
    /// The meaning of a comma in a header of a key.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum Commas {
        /// It separates values.
        #[default]
        Split = "split",
        /// It is part of the value.
        Keep = "keep",
    }
}

/// Converts a number that has been checked to a cost.
pub(crate) fn units(count: u64) -> Cost {
    Cost::new(count).unwrap_or(Cost::ONE)
}

fn lowercase(name: Option<String>) -> Option<String> {
    name.map(|name| name.to_ascii_lowercase())
}

fn all_lowercase(mut names: Vec<String>) -> Vec<String> {
    for name in &mut names {
        name.make_ascii_lowercase();
    }
    names
}

fn header_matches(Pairs(pairs): Pairs) -> Vec<(String, Option<String>)> {
    let wanted = |value: String| (value != "*").then_some(value);
    pairs.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), wanted(value))).collect()
}
