//! An option that a server runs with.
/// An option, as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectiveOption {
    /// Name, as on the command line.
    pub name: String,
    /// Values that are in force, separated by commas; `None` is the default of an option without a fixed one.
    pub value: Option<String>,
    /// Source of the value.
    pub source: OptionSource,
    /// Whether the option was changed since the start, and the change needs a restart.
    pub needs_restart: bool,
}

/// Source of the value of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionSource {
    /// Nothing: it is the default.
    Default,
    /// The configuration file.
    File,
    /// A variable of the environment.
    Environment,
    /// The command line.
    Argument,
}

impl OptionSource {
    /// Returns the name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::File => "file",
            Self::Environment => "environment",
            Self::Argument => "argument",
        }
    }
}
