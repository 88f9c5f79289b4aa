//! The macros that declare maps and keywords of the configuration.

/// Declares a map of the configuration: its keys and the struct that it is read into.
///
/// Each entry is declared once, with its documentation. From it come the member of the struct, the
/// default, the checks, the environment variable, the JSON Schema, the printed configuration and
/// the reference. An entry is one of these:
///
/// ```text
/// /// Units of one request.
/// cost: Cost = Whole(1, LIMIT_MAX), default "1", example "5";
///
/// /// The key is `limit_mb`, and the member is in bytes.
/// limit("limit_mb"): usize = Whole(1, 1024), default "256", example "512", via mebibytes;
///
/// /// A key without a member.
/// key redis = Leaf(&REDIS), absent "`cluster` is set", example "redis://127.0.0.1";
///
/// /// A member that a function reads from the whole map, and its value in the struct's default.
/// let place: RedisPlace = place, else RedisPlace::Single(String::new());
///
/// /// The keys of another section, in the same map; the last entry.
/// flatten shared: SharedSpec, SHARED;
/// ```
///
/// The word after the kind is the meaning of an absent key: it is an error (`required`), it has a
/// `default`, it is `absent` with the given description, or it is `needed`: then the whole map
/// counts as absent, which is not an error.
macro_rules! section {
    ($(#[$meta:meta])* pub struct $($rest:tt)*) => {
        section! { @begin [$(#[$meta])*] [pub] $($rest)* }
    };
    ($(#[$meta:meta])* struct $($rest:tt)*) => {
        section! { @begin [$(#[$meta])*] [] $($rest)* }
    };
    // Keys only: the map is read by hand.
    ($(#[$meta:meta])* static $STATIC:ident = $what:literal { $($body:tt)* }) => {
        section! { @next { keys $STATIC $what } (node reader $STATIC []) [] [] [None] [] [] [] $($body)* }
    };
    (@begin $meta:tt $vis:tt $Struct:ident, $STATIC:ident = $what:literal { $($body:tt)* }) => {
        section! {
            @next { $meta $vis $Struct $STATIC $what } (node reader $STATIC $vis)
            [] [] [None] [] [] [] $($body)*
        }
    };

    (@next $head:tt $names:tt $members:tt [$($fields:tt)*] $flat:tt $reads:tt $build:tt $absents:tt
     $(#[doc = $about:literal])+
     key $name:ident = $kind:expr, $when:ident $($means:literal)?, example $example:literal;
     $($body:tt)*) => {
        section! {
            @next $head $names $members
            [$($fields)* section!(
                @field stringify!($name), $kind, [$when $($means)?], [$($about)+], $example
            ),]
            $flat $reads $build $absents $($body)*
        }
    };
    (@next $head:tt ($node:ident $reader:ident $STATIC:ident [$($vis:tt)*])
     [$($members:tt)*] $fields:tt $flat:tt [$($reads:tt)*] [$($build:tt)*] [$($absents:tt)*]
     $(#[doc = $about:literal])+
     let $member:ident: $type:ty = $read:expr, else $otherwise:expr;
     $($body:tt)*) => {
        section! {
            @next $head ($node $reader $STATIC [$($vis)*])
            [$($members)* $(#[doc = $about])+ $($vis)* $member: $type,]
            $fields $flat
            [$($reads)* let $member: $type = $read($node, $reader);]
            [$($build)* $member,]
            [$($absents)* $member: $otherwise,]
            $($body)*
        }
    };
    (@next $head:tt ($node:ident $reader:ident $STATIC:ident [$($vis:tt)*])
     [$($members:tt)*] $fields:tt [None] [$($reads:tt)*] [$($build:tt)*] [$($absents:tt)*]
     $(#[doc = $about:literal])+
     flatten $member:ident: $type:ty, $FLAT:ident;) => {
        section! {
            @next $head ($node $reader $STATIC [$($vis)*])
            [$($members)* $(#[doc = $about])+ $($vis)* $member: $type,]
            $fields [Some(&$FLAT)]
            [$($reads)* let $member = <$type as $crate::config::table::Read>::read($node, $reader);]
            [$($build)* $member: $member?,]
            [$($absents)* $member: <$type>::default(),]
        }
    };
    (@next $head:tt ($node:ident $reader:ident $STATIC:ident [$($vis:tt)*])
     [$($members:tt)*] [$($fields:tt)*] $flat:tt
     [$($reads:tt)*] [$($build:tt)*] [$($absents:tt)*]
     $(#[doc = $about:literal])+
     $member:ident $(($name:literal))?: $type:ty = $kind:expr, $when:ident $($means:literal)?,
     example $example:literal $(, via $via:path)?;
     $($body:tt)*) => {
        section! {
            @next $head ($node $reader $STATIC [$($vis)*])
            [$($members)* $(#[doc = $about])+ $($vis)* $member: $type,]
            [$($fields)* section!(
                @field section!(@name $member $($name)?), $kind, [$when $($means)?], [$($about)+],
                $example
            ),]
            $flat
            [$($reads)* let $member = $crate::config::table::given(
                &$STATIC, section!(@name $member $($name)?), $node, $reader,
            );]
            [$($build)* $member: section!(@via [$($via)?] section!(
                @build $when $member $STATIC section!(@name $member $($name)?)
            )),]
            [$($absents)* $member: section!(
                @via [$($via)?]
                $crate::config::table::absent(&$STATIC, section!(@name $member $($name)?))
            ),]
            $($body)*
        }
    };

    (@next { keys $STATIC:ident $what:literal } $names:tt
     [] $fields:tt $flat:tt [] [] []) => {
        section! { @static $STATIC $what $fields $flat }
    };
    (@next { [$(#[$meta:meta])*] [$($vis:tt)*] $Struct:ident $STATIC:ident $what:literal }
     ($node:ident $reader:ident $same:ident $same_vis:tt)
     [$($members:tt)*] $fields:tt $flat:tt [$($reads:tt)*] [$($build:tt)*] [$($absents:tt)*]) => {
        $(#[$meta])*
        $($vis)* struct $Struct { $($members)* }

        section! { @static $STATIC $what $fields $flat }

        impl $crate::config::table::Read for $Struct {
            fn read(
                $node: &$crate::config::yaml::Node,
                $reader: &mut $crate::config::table::Reader<'_>,
            ) -> Option<Self> {
                // Everything is read before the result is checked, so that all errors are reported.
                $($reads)*
                Some(Self { $($build)* })
            }
        }

        impl Default for $Struct {
            fn default() -> Self {
                Self { $($absents)* }
            }
        }
    };
    (@static $STATIC:ident $what:literal [$($fields:tt)*] [$flat:expr]) => {
        pub(crate) static $STATIC: $crate::config::table::Section = {
            use $crate::config::table::prelude::*;
            $crate::config::table::Section { what: $what, fields: &[$($fields)*], flattened: $flat }
        };
    };

    (@field $name:expr, $kind:expr, [$($absent:tt)+], [$($about:literal)+], $example:literal) => {
        $crate::config::table::Field {
            name: $name,
            kind: $kind,
            absent: section!(@absent $($absent)+),
            about: concat!($($about),+).trim_ascii(),
            example: $example,
        }
    };
    (@absent required) => { $crate::config::table::Absent::Refused };
    (@absent default $value:literal) => { $crate::config::table::Absent::Default($value) };
    (@absent absent $means:literal) => { $crate::config::table::Absent::Means($means) };
    (@absent needed $means:literal) => { $crate::config::table::Absent::Means($means) };
    (@build required $member:ident $STATIC:ident $name:expr) => { $member? };
    (@build needed $member:ident $STATIC:ident $name:expr) => { $member? };
    (@build $when:ident $member:ident $STATIC:ident $name:expr) => {
        $member.unwrap_or_else(|| $crate::config::table::absent(&$STATIC, $name))
    };
    (@name $member:ident) => { stringify!($member) };
    (@name $member:ident $name:literal) => { $name };
    (@via [] $value:expr) => { $value };
    (@via [$via:path] $value:expr) => { $via($value) };
}

/// Declares the keywords of an enum: with the enum, or for an existing one.
macro_rules! keywords {
    ($(#[$meta:meta])* pub enum $Enum:ident {
        $($(#[$variant_meta:meta])* $Variant:ident = $word:literal,)+
    }) => {
        $(#[$meta])*
        pub enum $Enum { $($(#[$variant_meta])* $Variant,)+ }

        impl $Enum {
            /// All values, in the order of the declaration.
            pub const ALL: [Self; { [$($word),+].len() }] = [$(Self::$Variant),+];

            /// Returns the word in the configuration.
            pub fn name(self) -> &'static str {
                match self { $(Self::$Variant => $word,)+ }
            }
        }

        keywords! { $Enum { $($Variant = $word,)+ } }
    };
    ($Enum:ident { $($Variant:ident = $word:literal,)+ }) => {
        impl $crate::config::table::Keyword for $Enum {
            const KEYWORDS: &'static [&'static str] = &[$($word),+];

            fn from_keyword(keyword: &str) -> Option<Self> {
                match keyword {
                    $($word => Some(Self::$Variant),)+
                    _ => None,
                }
            }
        }

        impl $crate::config::table::Read for $Enum {
            fn read(
                node: &$crate::config::yaml::Node,
                _: &mut $crate::config::table::Reader<'_>,
            ) -> Option<Self> {
                $crate::config::table::Keyword::from_keyword(&node.as_scalar()?.text)
            }
        }
    };
}

pub(crate) use {keywords, section};
