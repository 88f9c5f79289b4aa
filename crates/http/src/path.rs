//! Paths of requests, and the patterns of rules that they match.

use percent_encoding::percent_decode_str;

/// The path of a request, in the form in which patterns are compared with it.
///
/// Servers disagree about what names a resource: `/login/`, `/login;x=1`, `//login`, `/%6cogin` and
/// `/a/../login` are `/login` to some of them. A client chooses the notation, so a rule for
/// `/login` has to apply to all of them.
///
/// ```
/// use slidegate_http::{PathPattern, RequestPath};
///
/// let login = PathPattern::new("/login");
/// for uri in ["/login?next=/", "/login/", "/login;x=1", "//login", "/%6cogin", "/login%20"] {
///     assert!(login.matches(&RequestPath::new(uri)), "{uri}");
/// }
/// assert!(!login.matches(&RequestPath::new("/login/form")));
/// assert!(!login.matches(&RequestPath::new("/Login")));
/// assert!(login.ignore_case().matches(&RequestPath::new("/Login")));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestPath {
    /// Without the query, otherwise as the client sent it.
    sent: String,
    /// Each segment after a slash. Empty for the root.
    segments: String,
    /// Whether servers disagree about which segments count, because of a dot segment or a character
    /// that ends the path in some of them.
    is_ambiguous: bool,
}

impl RequestPath {
    /// Reads the path of a request target: `/a?b=c`, or a URI with scheme and host as in requests to
    /// proxies.
    ///
    /// Percent-encoding is removed once. `/` and `\`, also if encoded, separate segments, and empty
    /// segments are removed. A segment ends at `;`, whose parameters Java servers remove, and has no
    /// spaces at its ends.
    pub fn new(target: &str) -> Self {
        let target = match target.split_once("://") {
            Some((scheme, rest)) if !scheme.contains(['/', '?', '#']) => {
                rest.find(['/', '?', '#', '\\']).map_or("", |at| &rest[at..])
            }
            _ => target,
        };
        let sent = target.split('?').next().unwrap_or_default();
        // Anything that is not `%XX` is unchanged.
        let decoded = percent_decode_str(sent).decode_utf8_lossy();
        let mut segments = String::with_capacity(decoded.len() + 1);
        let mut is_ambiguous = false;
        for segment in decoded.split(['/', '\\']) {
            let end = segment.find(is_end).unwrap_or(segment.len());
            // Servers that end the path here ignore the segments that follow.
            is_ambiguous |= segment[end..].contains(|end| end != ';' && is_end(end));
            match segment[..end].trim() {
                "" => {}
                "." | ".." => is_ambiguous = true,
                segment => {
                    segments.push('/');
                    segments.push_str(segment);
                }
            }
        }
        Self { sent: sent.to_owned(), segments, is_ambiguous }
    }

    /// Returns the path as the client sent it, without the query.
    pub fn as_sent(&self) -> &str {
        &self.sent
    }
}

/// Returns `true` for a character at which servers may end a segment or the path.
fn is_end(character: char) -> bool {
    matches!(character, ';' | '?' | '#') || character.is_control()
}

/// The path of a rule: one path, or with `*` at the end all paths that start with it.
///
/// By default paths are compared as [`RequestPath`] describes. A trailing slash does not matter:
/// `/login` matches `/login/`, and `/api/*` matches `/api`. A path with `.` or `..` segments, which
/// clients remove before they send it, matches if any way to resolve them does, so it may match more
/// than intended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PathPattern<'a> {
    text: &'a str,
    is_exact: bool,
    ignores_case: bool,
}

impl<'a> PathPattern<'a> {
    /// Creates a pattern such as `/login` or `/api/*`.
    pub const fn new(text: &'a str) -> Self {
        Self { text, is_exact: false, ignores_case: false }
    }

    /// Compares with the path as the client sent it. Use it if the service behind does too.
    #[must_use]
    pub const fn exact(mut self) -> Self {
        self.is_exact = true;
        self
    }

    /// Ignores the difference of uppercase and lowercase letters.
    #[must_use]
    pub const fn ignore_case(mut self) -> Self {
        self.ignores_case = true;
        self
    }

    /// Returns the text of the pattern.
    pub const fn as_str(&self) -> &'a str {
        self.text
    }

    /// Returns `true` if some path matches the pattern. A pattern that is compared in normalized form
    /// must be in this form: `/login;x` and `/%6cogin` never match.
    pub fn is_matchable(&self) -> bool {
        let (start, _) = self.start();
        let path = RequestPath::new(start);
        self.is_exact || !path.is_ambiguous && path.segments == start.trim_end_matches('/')
    }

    /// Returns `true` if the path matches.
    pub fn matches(&self, path: &RequestPath) -> bool {
        let (start, is_prefix) = self.start();
        let found = if self.is_exact { &path.sent } else { &path.segments };
        if self.ignores_case {
            let (start, found) = (start.to_lowercase(), found.to_lowercase());
            return self.matches_text(&start, is_prefix, &found, path.is_ambiguous);
        }
        self.matches_text(start, is_prefix, found, path.is_ambiguous)
    }

    fn start(&self) -> (&'a str, bool) {
        self.text.strip_suffix('*').map_or((self.text, false), |start| (start, true))
    }

    fn matches_text(&self, start: &str, is_prefix: bool, found: &str, is_ambiguous: bool) -> bool {
        if self.is_exact {
            return if is_prefix { found.starts_with(start) } else { found == start };
        }
        // `/api/*` ends with a whole segment, `/api*` does not.
        let wanted = start.trim_end_matches('/');
        let is_partial = is_prefix && wanted.len() == start.len();
        if is_ambiguous {
            return is_among(wanted, is_partial, found);
        }
        let Some(rest) = found.strip_prefix(wanted) else { return false };
        rest.is_empty() || is_partial || is_prefix && rest.starts_with('/')
    }
}

/// Returns `true` if the wanted segments are among those found, in this order. Each way to resolve
/// dot segments only removes segments.
fn is_among(wanted: &str, is_partial: bool, found: &str) -> bool {
    let mut found = found.split('/').skip(1);
    let mut wanted = wanted.split('/').skip(1).peekable();
    while let Some(segment) = wanted.next() {
        let is_start = is_partial && wanted.peek().is_none();
        let fits = |found: &str| found == segment || is_start && found.starts_with(segment);
        if !found.any(fits) {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests;
