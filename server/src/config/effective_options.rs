//! The options that a server runs with, for operators.
use super::options::Options;
use statestored_admin::EffectiveOption;

/// The options in force, and those whose changes wait for a restart.
#[derive(Debug, Clone, Default)]
pub(crate) struct EffectiveOptions {
    options: Options,
    needs_restart: Vec<String>,
}

impl EffectiveOptions {
    /// Creates the options of a server that starts.
    pub(crate) fn new(options: Options) -> Self {
        Self {
            options,
            needs_restart: Vec::new(),
        }
    }

    /// Takes over the options of a reload, except those that need a restart.
    pub(crate) fn apply(&mut self, changed: &Options, needs_restart: &[String]) {
        self.options = changed.keeping(&self.options, needs_restart);
        self.needs_restart = needs_restart.to_vec();
    }

    /// Returns all options in the order of their names.
    pub(crate) fn list(&self) -> Vec<EffectiveOption> {
        let options = self.options.entries();
        options
            .map(|(name, value, source)| EffectiveOption {
                value,
                source,
                needs_restart: self.needs_restart.iter().any(|it| it == name),
                name: name.to_owned(),
            })
            .collect()
    }
}
