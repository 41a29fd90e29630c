//! The metadata of a component: the address of its store, the credentials, and the options.
//!
//! No error shows a value, because any of them may be a secret.
use statestore::Settings;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// The vendor's defaults.
const HOST_NAME: &str = "aio-broker";
const PORT: u16 = 18883;

/// Names that belong to daprd, which passes on all metadata. The prefix of keys is already part of a key.
const DAPR_NAMES: [&str; 8] = [
    "actorStateStore",
    "keyPrefix",
    "outboxDiscardWhenMissingState",
    "outboxPublishPubsub",
    "outboxPublishTopic",
    "outboxPubsub",
    "primaryEncryptionKey",
    "secondaryEncryptionKey",
];

/// Changes the settings; the error completes the sentence "`name` has a value ...".
type ApplySetting = fn(ComponentSpec, &str) -> Result<ComponentSpec, &'static str>;

/// Names that are only meaningful together, and are read before the rest.
const ADDRESS: [&str; 4] = ["hostname", "tcpPort", "url", "useTls"];

const SETTINGS: [(&str, ApplySetting); 29] = [
    ("allowPlaintextCredentials", |spec, text| {
        let allow = boolean(text)?;
        Ok(spec.with(|settings| settings.allow_plaintext_credentials(allow)))
    }),
    ("caFile", |spec, path| {
        Ok(spec.with(|settings| settings.ca_file(path)))
    }),
    ("certFile", |spec, path| {
        Ok(spec.with(|settings| settings.cert_file(path)))
    }),
    ("cleanStart", |spec, text| {
        let clean_start = boolean(text)?;
        Ok(spec.with(|settings| settings.clean_start(clean_start)))
    }),
    ("clientId", |spec, id| {
        Ok(spec.with(|settings| settings.client_id(id)))
    }),
    ("connectLimit", |spec, text| {
        let limit = duration(text)?;
        Ok(spec.with(|settings| settings.connect_limit(limit)))
    }),
    ("connectTimeout", |spec, text| {
        let timeout = duration(text)?;
        Ok(spec.with(|settings| settings.connect_timeout(timeout)))
    }),
    ("keepAlive", |spec, text| {
        let interval = duration(text)?;
        Ok(spec.with(|settings| settings.keep_alive(interval)))
    }),
    ("keepContentType", |spec, text| {
        let keep_content_type = boolean(text)?;
        Ok(ComponentSpec {
            keep_content_type,
            ..spec
        })
    }),
    ("keyFile", |spec, path| {
        Ok(spec.with(|settings| settings.key_file(path)))
    }),
    ("keyPasswordFile", |spec, path| {
        Ok(spec.with(|settings| settings.key_password_file(path)))
    }),
    ("maxBufferedBytes", |spec, text| {
        let bytes = number(text)?;
        Ok(spec.with(|settings| settings.max_buffered_bytes(bytes)))
    }),
    ("maxInFlight", |spec, text| {
        let requests = number(text)?;
        Ok(spec.with(|settings| settings.max_in_flight(requests)))
    }),
    ("maxPacketBytes", |spec, text| {
        let bytes = number(text)?;
        Ok(spec.with(|settings| settings.max_packet_bytes(bytes)))
    }),
    ("maxQueued", |spec, text| {
        let requests = number(text)?;
        Ok(spec.with(|settings| settings.max_queued(requests)))
    }),
    ("maxValueBytes", |spec, text| {
        let bytes = number(text)?;
        Ok(spec.with(|settings| settings.max_value_bytes(bytes)))
    }),
    ("password", |spec, password| {
        let password = password.as_bytes().to_vec();
        Ok(spec.with(|settings| settings.password(password)))
    }),
    ("passwordFile", |spec, path| {
        Ok(spec.with(|settings| settings.password_file(path)))
    }),
    ("persist", |spec, text| {
        let persist = boolean(text)?;
        Ok(ComponentSpec { persist, ..spec })
    }),
    ("pingTimeout", |spec, text| {
        let timeout = duration(text)?;
        Ok(spec.with(|settings| settings.ping_timeout(timeout)))
    }),
    ("reconnectDelayMax", |mut spec, text| {
        spec.reconnect_delay.1 = duration(text)?;
        Ok(spec.with_delays())
    }),
    ("reconnectDelayMin", |mut spec, text| {
        spec.reconnect_delay.0 = duration(text)?;
        Ok(spec.with_delays())
    }),
    ("reconnectLimit", |spec, text| {
        let limit = duration(text)?;
        Ok(spec.with(|settings| settings.reconnect_limit(limit)))
    }),
    ("requestTimeout", |spec, text| {
        let timeout = duration(text)?;
        Ok(spec.with(|settings| settings.request_timeout(timeout)))
    }),
    ("satAuthFile", |spec, path| {
        Ok(spec.with(|settings| settings.sat_file(path)))
    }),
    ("serverName", |spec, name| {
        Ok(spec.with(|settings| settings.server_name(name)))
    }),
    ("sessionExpiry", |spec, text| {
        let expiry = duration(text)?;
        Ok(spec.with(|settings| settings.session_expiry(expiry)))
    }),
    ("userName", |spec, name| {
        Ok(spec.with(|settings| settings.user_name(name)))
    }),
    ("websocket", |spec, path| {
        Ok(spec.with(|settings| settings.websocket(path)))
    }),
];

/// Other words for settings: those of the vendor's older component, and those of URLs.
const ALIASES: [(&str, &str); 2] = [("satTokenPath", "satAuthFile"), ("satFile", "satAuthFile")];

/// The configuration of a component.
#[derive(Debug, Clone)]
pub(crate) struct ComponentSpec {
    /// Settings of the connection to the store.
    pub(crate) settings: Settings,
    /// Whether all values are stored on disk.
    pub(crate) persist: bool,
    /// Whether content types are kept, in an envelope around the value.
    pub(crate) keep_content_type: bool,
    reconnect_delay: (Duration, Duration),
}

impl ComponentSpec {
    /// Reads a component's metadata. `default_url` names the store if the metadata does not.
    ///
    /// Case, `_` and `-` in names are ignored, and an empty value counts as absent.
    ///
    /// # Errors
    /// The reason why the metadata is invalid.
    pub(crate) fn read(
        properties: &HashMap<String, String>,
        default_url: Option<&str>,
    ) -> Result<Self, String> {
        let mut given = BTreeMap::new();
        for (name, value) in properties {
            let Some(known) = canonical_name(name) else {
                return Err(unknown(name));
            };
            if DAPR_NAMES.contains(&known) || value.is_empty() {
                continue;
            }
            if given.insert(known, value.as_str()).is_some() {
                return Err(format!("`{known}` is given twice"));
            }
        }
        let mut spec = Self {
            settings: address(&mut given, default_url)?,
            persist: false,
            keep_content_type: false,
            reconnect_delay: (Duration::from_millis(100), Duration::from_secs(30)),
        };
        for (name, apply) in &SETTINGS {
            if let Some(value) = given.get(name) {
                spec = apply(spec, value)
                    .map_err(|problem| format!("`{name}` has a value {problem}"))?;
            }
        }
        Ok(spec)
    }

    fn with(self, change: impl FnOnce(Settings) -> Settings) -> Self {
        Self {
            settings: change(self.settings),
            ..self
        }
    }

    fn with_delays(self) -> Self {
        let (min, max) = self.reconnect_delay;
        self.with(|settings| settings.reconnect_delay(min, max))
    }
}

/// Returns the address of the store.
fn address(
    given: &mut BTreeMap<&str, &str>,
    default_url: Option<&str>,
) -> Result<Settings, String> {
    let [host_name, port, url, tls] = ADDRESS.map(|name| given.remove(name));
    let parts = [host_name, port, tls];
    let url = url.or_else(|| default_url.filter(|_| parts.iter().all(Option::is_none)));
    if let Some(url) = url {
        if let Some(at) = parts.iter().position(Option::is_some) {
            let name = ["hostname", "tcpPort", "useTls"][at];
            return Err(format!(
                "`url` and `{name}` are both given; a URL says everything about the address"
            ));
        }
        return Settings::from_url(url).map_err(|error| error.to_string());
    }
    let port = match port.map(str::parse) {
        None => PORT,
        Some(Ok(port)) if port > 0 => port,
        Some(_) => {
            return Err("`tcpPort` has a value which is not a port from 1 to 65535".to_owned());
        }
    };
    let tls = match tls.map(boolean) {
        None => true,
        Some(Ok(tls)) => tls,
        Some(Err(problem)) => return Err(format!("`useTls` has a value {problem}")),
    };
    let mut hosts = host_name.unwrap_or(HOST_NAME).split(',').map(str::trim);
    let first = Settings::new(hosts.next().unwrap_or_default(), port);
    Ok(hosts
        .fold(first, |settings, host| settings.add_address(host, port))
        .tls(tls))
}

/// Returns the canonical form of a given name.
fn canonical_name(name: &str) -> Option<&'static str> {
    let plain = normalized(name);
    if let Some((_, setting)) = ALIASES
        .iter()
        .find(|(alias, _)| self::normalized(alias) == plain)
    {
        return Some(setting);
    }
    names().find(|known| self::normalized(known) == plain)
}

fn names() -> impl Iterator<Item = &'static str> {
    let settings = SETTINGS.iter().map(|(name, _)| *name);
    settings.chain(ADDRESS).chain(DAPR_NAMES)
}

/// Returns a name without the characters that are ignored in it.
fn normalized(name: &str) -> String {
    let letters = name.chars().filter(|letter| !['_', '-'].contains(letter));
    letters.collect::<String>().to_ascii_lowercase()
}

fn unknown(name: &str) -> String {
    let plain = normalized(name);
    let near = names()
        .map(|known| {
            (
                strsim::damerau_levenshtein(&plain, &self::normalized(known)),
                known,
            )
        })
        .min();
    let shown = name.escape_debug().take(100).collect::<String>();
    match near {
        Some((distance, known)) if distance <= known.len() / 2 => {
            format!("there is no setting `{shown}`; did you mean `{known}`?")
        }
        _ => {
            let mut all: Vec<_> = names().collect();
            all.sort_unstable();
            format!(
                "there is no setting `{shown}`; there are {}",
                all.join(", ")
            )
        }
    }
}

/// Parses the forms of true and false that daprd accepts in its own settings.
fn boolean(text: &str) -> Result<bool, &'static str> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "t" | "yes" | "y" | "on" | "1" => Ok(true),
        "false" | "f" | "no" | "n" | "off" | "0" => Ok(false),
        _ => Err("which is neither `true` nor `false`"),
    }
}

/// Parses seconds, or numbers with units.
fn duration(text: &str) -> Result<Duration, &'static str> {
    let text = text.trim();
    if let Ok(seconds) = text.parse() {
        return Ok(Duration::from_secs(seconds));
    }
    humantime::parse_duration(text)
        .map_err(|_| "which is not a time, as `10s`, `500ms` or a number of seconds")
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, &'static str> {
    let text = text.trim();
    text.parse()
        .map_err(|_| "which is not a number, or too large a one")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(properties: &[(&str, &str)]) -> Result<ComponentSpec, String> {
        read_with(properties, None)
    }

    fn read_with(properties: &[(&str, &str)], url: Option<&str>) -> Result<ComponentSpec, String> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        ComponentSpec::read(&properties.iter().map(owned).collect(), url)
    }

    fn shown(properties: &[(&str, &str)]) -> String {
        format!("{:?}", read(properties).unwrap().settings)
    }

    #[test]
    fn vendor_names_are_accepted() {
        let settings = shown(&[]);
        assert!(settings.contains("aio-broker:18883"), "{settings}");
        assert!(!settings.contains("tls: None"), "{settings}");
        let settings = shown(&[
            ("hostname", "one, two"),
            ("tcpPort", "1884"),
            ("useTls", "true"),
            ("caFile", "/ca"),
            ("satAuthFile", "/token"),
            ("keyPrefix", "name"),
        ]);
        assert!(settings.contains("one:1884,two:1884"), "{settings}");
        assert!(
            settings.contains("/ca") && settings.contains("/token"),
            "{settings}"
        );
        let settings = shown(&[("url", "mqtts://host"), ("satTokenPath", "/token")]);
        assert!(settings.contains("host:8883") && settings.contains("/token"));
        let settings = shown(&[("hostname", "host"), ("useTls", "no")]);
        assert!(settings.contains("tls: None"), "{settings}");
    }

    #[test]
    fn a_store_is_named_in_one_way() {
        let url = Some("mqtt://other");
        let default = read_with(&[("keyPrefix", "none")], url).unwrap();
        assert_eq!(default.settings.address(), "other:1883");
        let own = read_with(&[("url", "mqtt://own")], url).unwrap();
        assert_eq!(own.settings.address(), "own:1883");
        let own = read_with(&[("hostname", "own")], url).unwrap();
        assert_eq!(own.settings.address(), "own:18883");
        let error = read(&[("url", "mqtt://own"), ("tcpPort", "1")]).unwrap_err();
        assert!(error.contains("`url` and `tcpPort`"), "{error}");
    }

    #[test]
    fn every_setting_is_applied() {
        for (name, _) in SETTINGS {
            let value = match name {
                "websocket" => "/mqtt",
                "allowPlaintextCredentials" | "cleanStart" | "keepContentType" | "persist" => "on",
                _ => "7",
            };
            read(&[(name, value)]).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        let spec = read(&[("persist", "true"), ("keep_content_type", "TRUE")]).unwrap();
        assert!(spec.persist && spec.keep_content_type);
        let settings = shown(&[("CLIENTID", "me"), ("user-name", "ann"), ("password", "JZ")]);
        assert!(
            settings.contains("\"me\"") && settings.contains("\"ann\""),
            "{settings}"
        );
        assert!(!settings.contains("JZ"), "{settings}");
    }

    #[test]
    fn errors_name_the_setting_and_omit_its_value() {
        for (properties, problem) in [
            (
                &[("hostnam", "JZ")][..],
                "there is no setting `hostnam`; did you mean `hostname`?",
            ),
            (
                &[("cafiel", "JZ")],
                "there is no setting `cafiel`; did you mean `caFile`?",
            ),
            (
                &[("redisHost", "JZ")],
                "there is no setting `redisHost`; there are actorStateStore, ",
            ),
            (
                &[("tcpPort", "JZ")],
                "`tcpPort` has a value which is not a port from 1 to 65535",
            ),
            (
                &[("tcpPort", "0")],
                "`tcpPort` has a value which is not a port from 1 to 65535",
            ),
            (
                &[("useTls", "JZ")],
                "`useTls` has a value which is neither `true` nor `false`",
            ),
            (
                &[("keepAlive", "JZ")],
                "`keepAlive` has a value which is not a time",
            ),
            (
                &[("maxQueued", "JZ")],
                "`maxQueued` has a value which is not a number",
            ),
            (
                &[("url", "JZ")],
                "reading the connection URL: it has no scheme",
            ),
            (
                &[("caFile", "JZ"), ("ca_file", "JZ")],
                "`caFile` is given twice",
            ),
            (
                &[("satFile", "JZ"), ("satAuthFile", "JZ")],
                "`satAuthFile` is given twice",
            ),
        ] {
            let error = read(properties).unwrap_err();
            assert!(error.starts_with(problem), "{error}");
            assert!(!error.contains("JZ"), "{error}");
        }
    }

    #[test]
    fn an_empty_value_is_none() {
        let spec = read(&[("hostname", ""), ("keepAlive", ""), ("clientId", "")]).unwrap();
        assert_eq!(spec.settings.address(), "aio-broker:18883");
    }
}
