//! Which field of a JSON line or CSV column has which meaning.

/// What a field of a log can mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    Time,
    Client,
    User,
    Method,
    Target,
    /// Method and path together, `GET / HTTP/1.1`.
    Request,
    Host,
    Status,
    Cost,
}

impl Meaning {
    const ALL: [(&'static str, Self); 9] = [
        ("time", Self::Time),
        ("client", Self::Client),
        ("user", Self::User),
        ("method", Self::Method),
        ("path", Self::Target),
        ("request", Self::Request),
        ("host", Self::Host),
        ("status", Self::Status),
        ("cost", Self::Cost),
    ];

    /// Names that are tried in this order: those of nginx, Caddy, Traefik, Envoy, Apache and Logstash
    /// in their usual configurations.
    fn usual(self) -> &'static [&'static str] {
        match self {
            Self::Time => &[
                "time",
                "timestamp",
                "@timestamp",
                "ts",
                "time_iso8601",
                "time_local",
                "msec",
                "start_time",
                "StartUTC",
                "date",
                "datetime",
            ],
            Self::Client => &[
                "client",
                "client_ip",
                "remote_addr",
                "remote_ip",
                "clientip",
                "ip",
                "ClientHost",
                "request.client_ip",
                "request.remote_ip",
                "downstream_remote_address",
                "client_addr",
                "source.ip",
                "key",
            ],
            Self::User => &[
                "user",
                "user_id",
                "remote_user",
                "username",
                "ClientUsername",
                "auth",
                "user.name",
            ],
            Self::Method => {
                &["method", "request_method", "RequestMethod", "request.method", "verb"]
            }
            Self::Target => {
                &["path", "uri", "request_uri", "url", "RequestPath", "request.uri", "url.path"]
            }
            Self::Request => &["request"],
            Self::Host => {
                &["host", "http_host", "server_name", "RequestHost", "request.host", "authority"]
            }
            Self::Status => {
                &["status", "status_code", "response_code", "DownstreamStatus", "response", "code"]
            }
            Self::Cost => &["cost"],
        }
    }
}

/// Names that the user gave to fields, before the usual ones.
#[derive(Debug, Clone, Default)]
pub struct FieldNames(Vec<(Meaning, String)>);

impl FieldNames {
    /// Adds `MEANING=NAME`, such as `client=headers.x-real-ip`.
    ///
    /// # Errors
    ///
    /// Returns what is allowed if the meaning is unknown or there is no name.
    pub fn add(&mut self, text: &str) -> Result<(), String> {
        let names = Meaning::ALL.map(|(name, _)| name).join(", ");
        let wrong =
            || format!("field {text:?} is not usable: use MEANING=NAME with one of {names}");
        let (meaning, name) = text.split_once('=').ok_or_else(wrong)?;
        let found = Meaning::ALL.iter().find(|(known, _)| *known == meaning).ok_or_else(wrong)?;
        if name.is_empty() {
            return Err(wrong());
        }
        self.0.push((found.1, name.to_owned()));
        Ok(())
    }

    /// Names for a meaning: the user's if there are any, otherwise the usual ones.
    pub(crate) fn of(&self, meaning: Meaning) -> impl Iterator<Item = &str> {
        let given = self.0.iter().filter(move |(known, _)| *known == meaning);
        let is_given = given.clone().next().is_some();
        let usual = if is_given { &[][..] } else { meaning.usual() };
        given.map(|(_, name)| name.as_str()).chain(usual.iter().copied())
    }
}
