//! The set of options from the command line, the environment and a file.
use super::{Arguments, Options};
use crate::config_error::ConfigError;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory, FromArgMatches};
use statestored_common::read_tracker;
use std::error::Error;
use std::ffi::OsString;
use std::num::{IntErrorKind, ParseIntError};
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Prefix of environment variables.
const PREFIX: &str = "STATESTORED_";

/// Options that apply to a single start, not to the server. A file cannot contain them.
const NOT_IN_A_FILE: [&str; 4] = ["config", "check", "help", "version"];

/// Sources of the options of a process. They may be read more than once, since the file can change.
#[derive(Debug, Clone)]
pub struct ConfigLayers {
    command_line: Vec<OsString>,
}

impl ConfigLayers {
    /// Creates the sources from a command line, which begins with the name of the program.
    pub fn new(command_line: impl IntoIterator<Item = OsString>) -> Self {
        Self {
            command_line: command_line.into_iter().collect(),
        }
    }

    /// Reads all sources in their current state.
    pub fn read(&self) -> Result<Arguments, ConfigError> {
        let command = command();
        let matches = command
            .clone()
            .ignore_errors(true)
            .try_get_matches_from(&self.command_line)?;
        if matches.subcommand_name().is_some() {
            // The other sources have options for serving only.
            let matches = Arguments::command().try_get_matches_from(&self.command_line)?;
            return Ok(Arguments::from_arg_matches(&matches)?);
        }
        let mut command_line = self.command_line.clone();
        if let Some(path) = matches.get_one::<PathBuf>("config") {
            let file_arguments = from_file(&command, path, &matches)?;
            command_line.splice(1..1, file_arguments);
        }
        let given = matches;
        let matches = command.clone().try_get_matches_from(command_line)?;
        let options = Options::from_matches(&command, &given, &matches);
        Ok(Arguments::from_arg_matches(&matches)?.with_options(options))
    }
}

/// Returns the command with all options, each with its name in the environment.
fn command() -> Command {
    Arguments::command().mut_args(|arg| {
        let Some(long) = arg.get_long() else {
            return arg;
        };
        let name = format!("{PREFIX}{}", long.replace('-', "_").to_uppercase());
        let arg = arg.env(name).hide_env(true).hide_env_values(true);
        match arg.get_action() {
            ArgAction::Append => arg.value_delimiter(','),
            _ => arg,
        }
    })
}

/// Returns the options in a file as arguments, except those that the command line or the environment sets.
fn from_file(
    command: &Command,
    path: &Path,
    matches: &ArgMatches,
) -> Result<Vec<OsString>, ConfigError> {
    read_tracker::record_path(path);
    let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
        path: path.into(),
        source,
    })?;
    let file = File { path, text: &text };
    let table = DeTable::parse(&text).map_err(|error| {
        let at = error.span().unwrap_or(0..0);
        file.error(&at, error.message().into())
    })?;
    let mut arguments = Vec::new();
    for (key, value) in table.get_ref() {
        let name: &str = key.get_ref();
        let arg = command
            .get_arguments()
            .find(|arg| arg.get_long() == Some(name))
            .filter(|_| !NOT_IN_A_FILE.contains(&name))
            .ok_or_else(|| file.error(&key.span(), unknown_option(command, name)))?;
        let of_option = file.arguments(command, arg, name, value)?;
        let is_overridden = matches!(
            matches.value_source(arg.get_id().as_str()),
            Some(ValueSource::CommandLine | ValueSource::EnvVariable)
        );
        if !is_overridden {
            arguments.extend(of_option);
        }
    }
    Ok(arguments)
}

fn unknown_option(command: &Command, name: &str) -> String {
    let likeness = |other: &str| strsim::jaro_winkler(name, other);
    let best = command
        .get_arguments()
        .filter_map(Arg::get_long)
        .filter(|known| !NOT_IN_A_FILE.contains(known) && likeness(known) > 0.8)
        .max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    let hint = match best {
        Some(best) => format!("did you mean `{best}`?"),
        None => "`statestored --help` lists the options".into(),
    };
    format!("there is no option `{name}`; {hint}")
}

/// A configuration file, for errors with their position.
struct File<'a> {
    path: &'a Path,
    text: &'a str,
}

impl File<'_> {
    fn error(&self, at: &Range<usize>, problem: String) -> ConfigError {
        let before = self.text.get(..at.start).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        ConfigError::File {
            path: self.path.into(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            problem,
        }
    }

    /// Returns the arguments for an option, each of which the command line would accept.
    fn arguments(
        &self,
        command: &Command,
        arg: &Arg,
        name: &str,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<Vec<OsString>, ConfigError> {
        let values = match (value.get_ref(), arg.get_action()) {
            (DeValue::Array(values), ArgAction::Append) => values.iter().collect(),
            (DeValue::Array(_), _) => {
                return Err(self.error(
                    &value.span(),
                    format!("`{name}` takes one value, not a list"),
                ));
            }
            _ => vec![value],
        };
        let mut arguments = Vec::new();
        for value in values {
            let argument = match (value.get_ref(), arg.get_action()) {
                (DeValue::Boolean(false), ArgAction::SetTrue) => continue,
                (DeValue::Boolean(true), ArgAction::SetTrue) => format!("--{name}"),
                (_, ArgAction::SetTrue) => {
                    return Err(self.error(&value.span(), format!("`{name}` is true or false")));
                }
                (DeValue::String(text), _) => format!("--{name}={text}"),
                (DeValue::Integer(number), _) if number.radix() == 10 => {
                    format!("--{name}={}", number.as_str())
                }
                (other, _) => {
                    return Err(self.error(
                        &value.span(),
                        format!(
                            "`{name}` needs its value as a text or a number, not a {}",
                            other.type_str()
                        ),
                    ));
                }
            };
            let argument = OsString::from(argument);
            if let Some(problem) = problem(command, &argument) {
                return Err(self.error(&value.span(), format!("`{name}`: {problem}")));
            }
            arguments.push(argument);
        }
        Ok(arguments)
    }
}

/// Returns whether a value has other characters than those of a number.
fn is_not_a_number(error: &(dyn Error + 'static)) -> bool {
    error
        .downcast_ref::<ParseIntError>()
        .is_some_and(|error| *error.kind() == IntErrorKind::InvalidDigit)
}

/// Returns the problem of the value of an option, regardless of other options.
fn problem(command: &Command, argument: &OsString) -> Option<String> {
    let error = command
        .clone()
        .try_get_matches_from(["statestored".into(), argument.clone()])
        .err()?;
    match error.kind() {
        ErrorKind::ValueValidation => Some(match error.source() {
            Some(source) if is_not_a_number(source) => {
                "expected a whole number, without a unit".into()
            }
            Some(source) => source.to_string(),
            None => "this value is not possible".into(),
        }),
        ErrorKind::InvalidValue => Some(match error.get(ContextKind::ValidValue) {
            Some(ContextValue::Strings(values)) => format!("expected {}", values.join(" or ")),
            _ => "a value is missing".into(),
        }),
        ErrorKind::InvalidUtf8 => Some("this is not UTF-8".into()),
        // Other options may solve the problem.
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::EffectiveOptions;
    use statestored_admin::OptionSource;

    fn read(file: &str, command_line: &[&str]) -> Result<Arguments, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.toml");
        std::fs::write(&path, file).unwrap();
        let mut all = vec!["statestored".into(), "--config".into(), path.clone().into()];
        all.extend(command_line.iter().map(OsString::from));
        ConfigLayers::new(all).read().map_err(|error| {
            let error = error.to_string();
            error.replace(&path.display().to_string(), "s.toml")
        })
    }

    #[test]
    fn the_command_line_overrides_the_file() {
        let file = "max-keys = 7\nmax-bytes = \"9KiB\"\nlisten = ['tcp://[::1]:1', 'tcp://[::1]:2']\nstorage = 'memory'\n";
        let config = read(file, &["--max-keys", "8"])
            .unwrap()
            .into_config()
            .unwrap();
        assert_eq!(
            (config.service.max_keys, config.service.max_bytes),
            (8, 9 << 10)
        );
        let listeners: Vec<_> = config.listeners.iter().map(ToString::to_string).collect();
        assert_eq!(listeners, ["tcp://[::1]:1", "tcp://[::1]:2"]);
        let config = read(file, &["--listen=tcp://[::1]:3"])
            .unwrap()
            .into_config()
            .unwrap();
        assert_eq!(config.listeners[0].to_string(), "tcp://[::1]:3");
        assert_eq!(config.listeners.len(), 1);
    }

    #[test]
    fn durations_are_numbers_of_seconds_or_have_a_unit() {
        for (file, seconds) in [
            ("stop-timeout = 90", 90),
            ("stop-timeout = '90'", 90),
            ("stop-timeout = '2m'", 120),
        ] {
            let file = format!("storage = 'memory'\n{file}\n");
            let config = read(&file, &[]).unwrap().into_config().unwrap();
            assert_eq!(config.stop_timeout.as_secs(), seconds, "{file}");
        }
        let config = read("storage = 'memory'", &["--stop-timeout=1h"]).unwrap();
        assert_eq!(config.into_config().unwrap().stop_timeout.as_secs(), 3_600);
    }

    #[test]
    fn options_have_values_and_sources() {
        let arguments = read(
            "max-keys = 7\nmax-sessions = 5\n",
            &["--max-keys=8", "--storage=memory"],
        )
        .unwrap();
        let options = EffectiveOptions::new(arguments.into_config().unwrap().options).list();
        let option = |name: &str| {
            let found = options.iter().find(|it| it.name == name).unwrap();
            (found.value.as_deref(), found.source)
        };
        assert_eq!(option("max-keys"), (Some("8"), OptionSource::Argument));
        assert_eq!(option("max-sessions"), (Some("5"), OptionSource::File));
        assert_eq!(option("log"), (Some("info"), OptionSource::Default));
        assert_eq!(option("max-bytes"), (None, OptionSource::Default));
        assert!(options.iter().all(|it| !it.needs_restart));
    }

    #[test]
    fn changes_that_need_a_restart_are_marked() {
        let options = |file: &str| {
            let arguments = read(file, &["--storage=memory"]).unwrap();
            arguments.into_config().unwrap().options
        };
        let before = options("listen = 'tcp://[::1]:1'\nmax-keys = 7\n");
        let mut effective = EffectiveOptions::new(before.clone());
        let after = options("listen = 'tcp://[::1]:2'\nmax-keys = 8\n");
        effective.apply(&after, &before.needing_restart(&after));
        let options = effective.list();
        let option = |name: &str| {
            let found = options.iter().find(|it| it.name == name).unwrap();
            (found.value.as_deref(), found.needs_restart)
        };
        assert_eq!(option("listen"), (Some("tcp://[::1]:1"), true));
        assert_eq!(option("max-keys"), (Some("8"), false));
    }

    #[test]
    fn a_subcommand_has_its_own_arguments() {
        let line = ["statestored", "passwd", "--delete", "users", "ann"];
        let mut arguments = ConfigLayers::new(line.map(OsString::from)).read().unwrap();
        assert!(arguments.take_subcommand().is_some() && arguments.take_subcommand().is_none());
        for line in [
            &["statestored", "passwd", "users"][..],
            &["statestored", "--max-keys", "7", "passwd", "users", "ann"],
            &["statestored", "passwd", "users", "an:n"],
            &["statestored", "nothing"],
        ] {
            let read = ConfigLayers::new(line.iter().map(OsString::from)).read();
            assert!(matches!(read, Err(ConfigError::CommandLine(_))), "{line:?}");
        }
    }

    #[test]
    fn flags_are_true_or_false() {
        assert!(read("core-dumps = true", &[]).unwrap().allows_core_dumps());
        assert!(!read("core-dumps = false", &[]).unwrap().allows_core_dumps());
        assert_eq!(
            read("core-dumps = 1", &[]).unwrap_err(),
            "s.toml:1:14: `core-dumps` is true or false"
        );
    }

    #[test]
    fn errors_in_a_file_have_line_and_column() {
        for (file, error) in [
            (
                "\n  max-kyes = 1",
                "s.toml:2:3: there is no option `max-kyes`; did you mean `max-keys`?",
            ),
            (
                "config = 'x'",
                "s.toml:1:1: there is no option `config`; `statestored --help` lists the options",
            ),
            (
                "[x]\n",
                "s.toml:1:2: there is no option `x`; `statestored --help` lists the options",
            ),
            (
                "max-keys = 'many'",
                "s.toml:1:12: `max-keys`: expected a whole number, without a unit",
            ),
            (
                "max-bytes = '1GB'",
                "s.toml:1:13: `max-bytes`: expected a size such as 1073741824, 512MiB or 2GiB",
            ),
            (
                "stop-timeout = '1w'",
                "s.toml:1:16: `stop-timeout`: expected a duration such as 90 (seconds), 90s, 15m, 2h or 1d",
            ),
            (
                "stop-timeout = 0",
                "s.toml:1:16: `stop-timeout`: expected 1 to 86400 seconds",
            ),
            (
                "max-keys = [1]",
                "s.toml:1:12: `max-keys` takes one value, not a list",
            ),
            (
                "max-keys = 1.5",
                "s.toml:1:12: `max-keys` needs its value as a text or a number, not a float",
            ),
            (
                "http = true",
                "s.toml:1:8: `http` needs its value as a text or a number, not a boolean",
            ),
            (
                "storage = 'disk'",
                "s.toml:1:11: `storage`: expected durable, memory, etcd://HOST:PORT or redis://HOST:PORT",
            ),
            ("log = 'ä'\nlog = 'b'", "s.toml:2:1: duplicate key"),
            (
                "listen = ['tcp://a:1', 'udp://a:1']",
                "s.toml:1:24: `listen`: expected tcp://HOST:PORT, such as tcp://127.0.0.1:1883, or the same with tls, ws or wss, or unix:///PATH",
            ),
        ] {
            assert_eq!(read(file, &[]).unwrap_err(), error, "{file}");
        }
    }

    #[test]
    fn the_packaged_configuration_file_is_valid() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/statestored.toml");
        let arguments = ["statestored".into(), "--config".into(), file.into()];
        let config = ConfigLayers::new(arguments)
            .read()
            .unwrap()
            .into_config()
            .unwrap();
        assert_eq!(config.listeners[0].to_string(), "tcp://127.0.0.1:1883");
        assert!(config.admin.is_some());
    }

    #[test]
    fn related_options_may_be_split_across_layers() {
        let arguments = read("user = 'ann'", &["--password-file", "/none"]).unwrap();
        assert!(arguments.into_config().is_err(), "there is no such file");
        assert!(
            read("user = 'ann'", &[])
                .unwrap_err()
                .contains("--password-file")
        );
    }
}
