//! Descriptions of commands for messages.
use statestore_protocol::{CommandRef, TransactionOperation};

/// Describes the command for messages, with a long key shortened.
pub(super) fn action(command: CommandRef<'_>) -> String {
    const SHOWN: usize = 64;
    match command {
        CommandRef::Capabilities => return "asking what the store can do".to_owned(),
        CommandRef::Transact { operations } => {
            return format!("a transaction of {} operations", operations.len());
        }
        _ => {}
    }
    let subject = subject(command);
    let dots = if subject.len() > SHOWN { "…" } else { "" };
    let subject = subject.get(..SHOWN).unwrap_or(subject).escape_ascii();
    format!("{} \"{subject}{dots}\"", command.verb())
}

/// Returns the key or the pattern of a command.
pub(super) fn subject(command: CommandRef<'_>) -> &[u8] {
    match command {
        CommandRef::Set { key, .. }
        | CommandRef::Get { key, .. }
        | CommandRef::Del { key, .. }
        | CommandRef::Vdel { key, .. }
        | CommandRef::Watch { key }
        | CommandRef::Unwatch { key } => key,
        CommandRef::Scan { pattern, .. } => pattern,
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
