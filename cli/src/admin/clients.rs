//! Clients of a server: connections, sessions, refusals, and a single client.
use super::{
    api::{Api, Target},
    document,
    list::{List, ListOptions},
    table::Column,
};
use crate::{escape::escape, exit::Exit, failure::Failure, global_options::GlobalOptions, message};
use clap::{Args, ValueEnum};
use serde_json::json;

/// List the connections of clients
///
/// PEER is the address of the client, HELD the memory of its session and queues, UNSENT the bytes that wait for the client.
#[derive(Debug, Args)]
#[command(after_help = CONNECTIONS_EXAMPLES)]
pub(super) struct Connections {
    /// Only clients whose id contains this text
    #[arg(long, value_name = "TEXT")]
    client: Option<String>,
    /// Only clients of this user
    #[arg(long)]
    user: Option<String>,
    /// Only clients whose address begins with this text
    #[arg(long, value_name = "PREFIX")]
    address: Option<String>,
    /// Print the first 200 connections of this order
    #[arg(long, value_name = "ORDER")]
    sort: Option<Order>,
    #[command(flatten)]
    list: ListOptions,
}

const CONNECTIONS_EXAMPLES: &str = "\
Examples:
  statestore admin connections --sort rate --limit 10     the busiest clients
  statestore admin connections --user line1 --address 10.1.
  statestore admin connections --json | jq -r .client";

/// An order of connections.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Order {
    /// Most requests per second first
    Rate,
    /// Most memory first
    Held,
    /// Most bytes that wait for the client first
    Outstanding,
}

impl Order {
    fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Held => "held",
            Self::Outstanding => "outstanding",
        }
    }
}

const CONNECTION_COLUMNS: &[Column] = &[
    Column::left("SINCE", "since_ms"),
    Column::left("PROTOCOL", "protocol"),
    Column::left("PEER", "peer"),
    Column::right("REQUESTS", "requests"),
    Column::right("PER S", "requests_per_s"),
    Column::right("HELD", "held_bytes"),
    Column::right("UNSENT", "outstanding_bytes"),
    Column::left("USER", "user"),
    Column::left("CLIENT", "client"),
];

impl Connections {
    pub(super) async fn run(self, api: Api<'_>, global: &GlobalOptions) -> Result<Exit, Failure> {
        List::new("/api/connections", CONNECTION_COLUMNS)
            .filter("client", "client", self.client.as_ref())
            .filter("user", "user", self.user.as_ref())
            .filter("address", "peer", self.address.as_ref())
            .with("sort", self.sort.map(Order::name))
            .expect_field(self.sort.map(|_| "requests"))
            .print(api, self.list.limit, global)
            .await
    }
}

/// Show a client: connection, session, subscriptions, watches and refusals
///
/// Exit code 1 if the server does not know it.
#[derive(Debug, Args)]
#[command(after_help = CLIENT_EXAMPLES)]
pub(super) struct ShowClient {
    /// The client id
    client: String,
}

const CLIENT_EXAMPLES: &str = "\
Examples:
  statestore admin client gateway-1
  statestore admin client gateway-1 --json | jq .subscriptions";

impl ShowClient {
    pub(super) async fn run(self, api: Api<'_>, global: &GlobalOptions) -> Result<Exit, Failure> {
        let target = Target::new("/api/client").with("client", &self.client);
        let client = api.get(&target).await?;
        document::print(&client, &document::lines(&client), global).await?;
        Ok(Exit::Done)
    }
}

/// List the sessions, also those without a connection
///
/// EXPIRES is the time that the server keeps a session without a connection.
#[derive(Debug, Args)]
#[command(after_help = SESSIONS_EXAMPLES)]
pub(super) struct Sessions {
    #[command(flatten)]
    list: ListOptions,
}

const SESSIONS_EXAMPLES: &str = "\
Examples:
  statestore admin sessions
  statestore admin sessions --json | jq -r 'select(.is_connected | not) | .client'";

const SESSION_COLUMNS: &[Column] = &[
    Column::left("CONNECTED", "is_connected"),
    Column::right("SUBSCRIPTIONS", "subscriptions"),
    Column::right("HELD", "held_bytes"),
    Column::right("EXPIRES", "expiry_s"),
    Column::left("USER", "user"),
    Column::left("CLIENT", "client"),
];

impl Sessions {
    pub(super) async fn run(self, api: Api<'_>, global: &GlobalOptions) -> Result<Exit, Failure> {
        let list = List::new("/api/sessions", SESSION_COLUMNS);
        list.print(api, self.list.limit, global).await
    }
}

/// List the last rejected clients and requests
///
/// AT is the last time, COUNT the number of times.
#[derive(Debug, Args)]
#[command(after_help = REFUSALS_EXAMPLES)]
pub(super) struct Refusals {
    /// Only of this client
    #[arg(long, value_name = "ID")]
    client: Option<String>,
    /// Only of this user
    #[arg(long)]
    user: Option<String>,
    /// Only with this cause
    #[arg(long)]
    cause: Option<String>,
    /// Only of keys that contain this text
    #[arg(long, value_name = "TEXT")]
    key: Option<String>,
    #[command(flatten)]
    list: ListOptions,
}

const REFUSALS_EXAMPLES: &str = "\
Examples:
  statestore admin refusals --client gateway-1
  statestore admin refusals --cause quota --key line1/";

const REFUSAL_COLUMNS: &[Column] = &[
    Column::left("AT", "at_ms"),
    Column::right("COUNT", "count"),
    Column::left("CAUSE", "cause"),
    Column::left("PEER", "peer"),
    Column::left("USER", "user"),
    Column::left("CLIENT", "client"),
    Column::left("KEY", "key"),
    Column::left("WHY", "why"),
];

impl Refusals {
    pub(super) async fn run(self, api: Api<'_>, global: &GlobalOptions) -> Result<Exit, Failure> {
        List::new("/api/refusals", REFUSAL_COLUMNS)
            .filter("client", "client", self.client.as_ref())
            .filter("user", "user", self.user.as_ref())
            .filter("cause", "cause", self.cause.as_ref())
            .with("key", self.key.as_ref())
            .print(api, self.list.limit, global)
            .await
    }
}

/// Disconnect a client, or all clients of a user; they may reconnect
///
/// Exit code 1 if there is no such client.
#[derive(Debug, Args)]
#[command(after_help = DISCONNECT_EXAMPLES)]
pub(super) struct Disconnect {
    /// The client id
    #[arg(required_unless_present = "user")]
    client: Option<String>,
    /// All clients of this user
    #[arg(long, conflicts_with = "client")]
    user: Option<String>,
}

const DISCONNECT_EXAMPLES: &str = "\
Examples:
  statestore admin disconnect gateway-1
  statestore admin disconnect --user line1";

impl Disconnect {
    pub(super) async fn run(self, api: Api<'_>, global: &GlobalOptions) -> Result<Exit, Failure> {
        let request = match (&self.client, &self.user) {
            (Some(client), _) => json!({ "client": client }),
            (None, user) => json!({ "user": user }),
        };
        let answer = api.post("/api/disconnect", &request).await?;
        let Some(user) = &self.user else {
            document::print(&answer, "disconnected\n", global).await?;
            return Ok(Exit::Done);
        };
        let count = answer["disconnected"].as_u64().unwrap_or_default();
        if count == 0 {
            document::print(&answer, "", global).await?;
            let user = escape(user.as_bytes());
            message::print_error(&format!("no client of user '{user}' is connected"));
            return Ok(Exit::NegativeResult);
        }
        let text = message::count(count, "client") + " disconnected\n";
        document::print(&answer, &text, global).await?;
        Ok(Exit::Done)
    }
}
