//! Which requests of a log are replayed.

use super::record::Record;

/// What a request must have to be replayed. An empty list accepts everything.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Paths, or their beginnings with `*` at the end.
    pub paths: Vec<String>,
    /// Methods.
    pub methods: Vec<String>,
    statuses: Vec<(u16, u16)>,
}

impl Filter {
    /// Adds a status: `404`, `4xx` or `500-599`.
    ///
    /// # Errors
    ///
    /// Returns what is allowed if the text is none of these.
    pub fn add_status(&mut self, text: &str) -> Result<(), String> {
        let number = |text: &str| text.parse().ok().filter(|status| (100..=999).contains(status));
        let class = || {
            let hundred: u16 = text.strip_suffix("xx")?.parse().ok()?;
            (1..=9).contains(&hundred).then_some((hundred * 100, hundred * 100 + 99))
        };
        let range = match text.split_once('-') {
            Some((from, to)) => number(from).zip(number(to)).filter(|(from, to)| from <= to),
            None => number(text).map(|status| (status, status)).or_else(class),
        };
        let wrong = || format!("status {text:?} is not usable: use 404, 4xx or 500-599");
        self.statuses.push(range.ok_or_else(wrong)?);
        Ok(())
    }

    /// Returns `true` if a request is to be replayed.
    pub fn accepts(&self, record: &Record<'_>) -> bool {
        let is_path = |pattern: &String| {
            record.path().is_some_and(|path| match pattern.strip_suffix('*') {
                Some(start) => path.starts_with(start),
                None => path == pattern,
            })
        };
        let is_method = |method: &String| {
            record.method.as_deref().is_some_and(|found| found.eq_ignore_ascii_case(method))
        };
        let is_status = |(from, to): &(u16, u16)| {
            record.status.is_some_and(|status| (*from..=*to).contains(&status))
        };
        (self.paths.is_empty() || self.paths.iter().any(is_path))
            && (self.methods.is_empty() || self.methods.iter().any(is_method))
            && (self.statuses.is_empty() || self.statuses.iter().any(is_status))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::common;

    #[test]
    fn everything_that_is_named_must_match() {
        let line = r#"::1 - - [17/May/2015:10:05:03 +0000] "POST /login?x HTTP/1.1" 401 1"#;
        let record = common::parse(line).unwrap();
        let accepts = |path: &str, method: &str, status: &str| {
            let mut filter = Filter::default();
            filter.paths.extend((!path.is_empty()).then(|| path.to_owned()));
            filter.methods.extend((!method.is_empty()).then(|| method.to_owned()));
            if !status.is_empty() {
                filter.add_status(status).unwrap();
            }
            filter.accepts(&record)
        };
        assert!(
            accepts("", "", "")
                && accepts("/login", "post", "4xx")
                && accepts("/lo*", "", "400-401")
        );
        assert!(!accepts("/log", "", "") && !accepts("", "GET", "") && !accepts("", "", "2xx"));
        for wrong in ["", "x", "0xx", "99", "500-400", "4xxx"] {
            assert!(Filter::default().add_status(wrong).is_err(), "{wrong}");
        }
    }
}
