//! The configuration of the HTTP port.
mod admin_config;
mod error;
mod http_address;
mod http_tokens;
mod log_control;
mod token;

pub use admin_config::{AdminConfig, MetricNames};
pub use error::AdminConfigError;
pub use http_address::HttpAddress;
pub use http_tokens::HttpTokens;
pub(crate) use http_tokens::{ActiveTokens, TokenRole};
pub use log_control::{LogControl, LogFilter};
pub use token::Token;
