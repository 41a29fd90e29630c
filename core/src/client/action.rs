//! Descriptions of commands for messages.
use statestore_protocol::{CommandRef, TransactionOperation};

/// Describes an action on a key for messages, with a long key shortened.
pub(crate) fn key_action(verb: &str, key: &[u8]) -> String {
    const SHOWN: usize = 64;
    let dots = if key.len() > SHOWN { "…" } else { "" };
    let key = key.get(..SHOWN).unwrap_or(key).escape_ascii();
    format!("{verb} \"{key}{dots}\"")
}

/// Describes the command for messages, with a long key shortened.
pub(super) fn action(command: CommandRef<'_>) -> String {
    match command {
        CommandRef::Capabilities => "asking what the store can do".to_owned(),
        CommandRef::Transact { operations } => match operations.len() {
            1 => "a transaction of 1 operation".to_owned(),
            count => format!("a transaction of {count} operations"),
        },
        CommandRef::GetMany {
            keys: [first, rest @ ..],
        } if !rest.is_empty() => {
            let first = key_action(command.verb(), first);
            format!("{first} and {} more", rest.len())
        }
        _ => key_action(command.verb(), subject(command)),
    }
}

/// Returns the first key or the pattern of a command.
pub(super) fn subject(command: CommandRef<'_>) -> &[u8] {
    match command {
        CommandRef::Set { key, .. }
        | CommandRef::Get { key, .. }
        | CommandRef::Del { key, .. }
        | CommandRef::Vdel { key, .. }
        | CommandRef::Watch { key }
        | CommandRef::Unwatch { key } => key,
        CommandRef::Scan { pattern, .. }
        | CommandRef::WatchPattern { pattern }
        | CommandRef::UnwatchPattern { pattern } => pattern,
        CommandRef::GetMany { keys } => keys.first().map(|key| &key[..]).unwrap_or_default(),
        CommandRef::Capabilities | CommandRef::Transact { .. } => &[],
    }
}

/// Describes an operation of a transaction for messages.
pub(super) fn operation_action(operations: &[TransactionOperation], operation: usize) -> String {
    let description = operations.get(operation).map(operation_command).map(action);
    format!(
        "operation {operation} of a transaction, {}",
        description.unwrap_or_default()
    )
}

/// Converts the operation to the command that it would be outside of a transaction.
pub(super) fn operation_command(operation: &TransactionOperation) -> CommandRef<'_> {
    match operation {
        TransactionOperation::Set {
            key,
            value,
            options,
            ..
        } => CommandRef::Set {
            key,
            value,
            options: *options,
        },
        TransactionOperation::Del {
            key, if_version, ..
        } => CommandRef::Del {
            key,
            if_version: *if_version,
        },
    }
}
