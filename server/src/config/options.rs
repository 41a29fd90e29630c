//! The values of all options, to find those that a reload cannot apply.
use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use statestored_admin::OptionSource;
use std::collections::BTreeMap;
use std::ffi::OsString;

/// Options that a reload applies. All others need a restart.
const RELOADABLE: [&str; 37] = [
    "user",
    "password-file",
    "users-file",
    "jwks-file",
    "jwt-issuer",
    "jwt-audience",
    "jwt-leeway",
    "tls-user",
    "policy-file",
    "tls-cert",
    "tls-key",
    "tls-client-ca",
    "tls-client-cert",
    "tls-client-crl",
    "max-keys",
    "max-bytes",
    "max-session-bytes",
    "max-connections",
    "max-sessions",
    "max-watches",
    "max-request-rate",
    "max-byte-rate",
    "max-packet-bytes",
    "limit-user",
    "limit-prefix",
    "http-token-file",
    "http-read-token-file",
    "http-metrics-token-file",
    "http-tls-cert",
    "http-tls-key",
    "http-tls-client-ca",
    "audit-keys",
    "audit-rate",
    "slow-request",
    "log",
    // Options of the command line alone, which stay as they are.
    "config",
    "check",
];

/// Options whose removal needs a restart, although a reload applies other values.
const TLS: [&str; 4] = ["tls-cert", "tls-key", "http-tls-cert", "http-tls-key"];

/// The values of the options that a process was given, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    values: BTreeMap<String, Vec<OsString>>,
    /// Sources of all options, of those without a value as well.
    sources: BTreeMap<String, OptionSource>,
}

impl Options {
    /// Creates the options from the matches with those of the file. `given` are the matches without them.
    pub(super) fn from_matches(
        command: &Command,
        given: &ArgMatches,
        matches: &ArgMatches,
    ) -> Self {
        let mut options = Self::default();
        for arg in command.get_arguments() {
            let (id, Some(name)) = (arg.get_id().as_str(), arg.get_long()) else {
                continue;
            };
            let source = match matches.value_source(id) {
                Some(ValueSource::EnvVariable) => OptionSource::Environment,
                Some(ValueSource::CommandLine)
                    if given.value_source(id) == Some(ValueSource::CommandLine) =>
                {
                    OptionSource::Argument
                }
                Some(ValueSource::CommandLine) => OptionSource::File,
                _ => OptionSource::Default,
            };
            options.sources.insert(name.to_owned(), source);
            if let Some(values) = matches.get_raw(id) {
                let values = values.map(Into::into).collect();
                options.values.insert(name.to_owned(), values);
            }
        }
        options
    }

    /// Returns the names of all options, their values, separated by commas, and their sources.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&str, Option<String>, OptionSource)> {
        self.sources.iter().map(move |(name, source)| {
            let values = self.values.get(name).map(|values| {
                let texts = values.iter().map(|value| value.to_string_lossy());
                texts.collect::<Vec<_>>().join(",")
            });
            (name.as_str(), values, *source)
        })
    }

    /// Returns these options, with the named ones as in `former`.
    pub(super) fn keeping(&self, former: &Self, names: &[String]) -> Self {
        let mut kept = self.clone();
        for name in names {
            match former.values.get(name) {
                Some(values) => kept.values.insert(name.clone(), values.clone()),
                None => kept.values.remove(name),
            };
            if let Some(source) = former.sources.get(name) {
                kept.sources.insert(name.clone(), *source);
            }
        }
        kept
    }

    /// Returns the names of options that are other ones now, and that a reload does not apply.
    pub(crate) fn needing_restart(&self, now: &Self) -> Vec<String> {
        let names = self.values.keys().chain(now.values.keys());
        let mut changed: Vec<String> = names
            .filter(|name| !RELOADABLE.contains(&name.as_str()) || self.is_deferred(now, name))
            .filter(|name| self.values.get(*name) != now.values.get(*name))
            .cloned()
            .collect();
        // A reload replaces certificates, but removes none from a listener.
        changed.extend(
            TLS.iter()
                .filter(|name| {
                    let has = |options: &Self| options.values.contains_key(**name);
                    has(self) && !has(now)
                })
                .map(ToString::to_string),
        );
        changed.sort();
        changed.dedup();
        changed
    }

    /// Returns whether a change of this option takes effect at a restart, although a reload applies it otherwise. The option depends on
    /// another one that changes at a restart only: a server starts with it in one of the two configurations only.
    pub(crate) fn is_deferred(&self, now: &Self, name: &str) -> bool {
        self.excludes(name) != now.excludes(name) && self.values.get(name) != now.values.get(name)
    }

    /// Returns whether a server does not start with this option beside the others.
    fn excludes(&self, name: &str) -> bool {
        let has = |name| self.values.contains_key(name);
        name == "policy-file" && has("attach") && !has("attach-identity")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Arguments;
    use clap::CommandFactory;

    fn with_option(name: &str) -> Options {
        Options {
            values: BTreeMap::from([(name.to_owned(), vec!["x".into()])]),
            sources: BTreeMap::new(),
        }
    }

    #[test]
    fn reloadable_options_exist() {
        let command = Arguments::command();
        let names: Vec<_> = command
            .get_arguments()
            .filter_map(|arg| arg.get_long())
            .collect();
        for name in RELOADABLE {
            assert!(names.contains(&name), "{name}");
        }
    }

    #[test]
    fn options_that_need_a_restart_are_reported() {
        let options = |arguments: &[&str]| {
            let command = Arguments::command();
            let all = std::iter::once("statestored").chain(arguments.iter().copied());
            let matches = command.clone().try_get_matches_from(all).unwrap();
            Options::from_matches(&command, &matches, &matches)
        };
        let before = options(&["--listen", "tcp://127.0.0.1:0", "--max-keys", "5"]);
        assert!(before.needing_restart(&before).is_empty());
        let limits = options(&[
            "--listen",
            "tcp://127.0.0.1:0",
            "--max-keys",
            "6",
            "--log",
            "warn",
        ]);
        assert!(before.needing_restart(&limits).is_empty());
        let attached = options(&["--attach", "mqtt://127.0.0.1"]);
        let identity = ["--attach-identity", "id", "--attach-identity-key", "/k"];
        let attach = ["--attach", "mqtt://127.0.0.1", "--policy-file", "/p"];
        let guarded = options(&[&attach[..], &identity].concat());
        let names = ["attach-identity", "attach-identity-key", "policy-file"];
        assert_eq!(attached.needing_restart(&guarded), names);
        assert_eq!(guarded.needing_restart(&attached), names);
        let of_clients = options(&["--policy-file", "/p"]);
        assert_eq!(
            of_clients.needing_restart(&attached),
            ["attach", "policy-file"]
        );
        assert!(!of_clients.is_deferred(&guarded, "policy-file"));
        let others = options(&[
            "--http",
            "--max-keys",
            "6",
            "--core-dumps",
            "--trusted-proxy",
            "192.0.2.7",
        ]);
        assert_eq!(
            before.needing_restart(&others),
            ["core-dumps", "http", "listen", "trusted-proxy"]
        );
    }

    /// Every option is either reloaded or named, even one added later.
    #[test]
    fn every_option_is_reloadable_or_reported() {
        let command = Arguments::command();
        let none = Options::default();
        for name in command.get_arguments().filter_map(|arg| arg.get_long()) {
            let with = with_option(name);
            let named = none.needing_restart(&with);
            let expected: &[&str] = if RELOADABLE.contains(&name) {
                &[]
            } else {
                &[name]
            };
            assert_eq!(named, expected);
            assert!(with.needing_restart(&with).is_empty());
        }
    }

    #[test]
    fn removed_certificates_are_reported() {
        let none = Options::default();
        for name in TLS {
            assert_eq!(with_option(name).needing_restart(&none), [name]);
            assert!(none.needing_restart(&with_option(name)).is_empty());
        }
    }
}
