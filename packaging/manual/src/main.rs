//! Writes the manual pages of `statestore`, of each of its subcommands, of `statestored`, of each of its subcommands, and of
//! `statestore-dapr` into a folder.
//!
//!     cargo run --package statestore-manual FOLDER
#![forbid(unsafe_code)]

use clap::{Command, CommandFactory as _};
use clap_mangen::{
    Man,
    roff::{Roff, roman},
};
use std::{env, fs, io, path::Path, process::ExitCode};

const MANUAL: &str = "libstatestore";

fn main() -> ExitCode {
    let Some(folder) = env::args_os().nth(1) else {
        eprintln!("Usage: statestore-manual FOLDER");
        return ExitCode::from(2);
    };
    let folder = Path::new(&folder);
    let written = fs::create_dir_all(folder)
        .and_then(|()| client(folder))
        .and_then(|()| server(folder))
        .and_then(|()| write(folder, statestore_dapr::command(), "statestore-dapr", "8"));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!(
                "statestore-manual: cannot write in {}: {error}",
                folder.display()
            );
            ExitCode::FAILURE
        }
    }
}

fn client(folder: &Path) -> io::Result<()> {
    // Only the built command passes global arguments to its subcommands.
    let mut command = statestore_cli::command().disable_help_subcommand(true);
    command.build();
    with_verbs(folder, command, "statestore", "1")
}

fn with_verbs(folder: &Path, command: Command, name: &str, section: &str) -> io::Result<()> {
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        let name = format!("{name}-{}", verb.get_name());
        with_verbs(folder, verb.clone(), &name, section)?;
    }
    write(folder, command, name, section)
}

fn server(folder: &Path) -> io::Result<()> {
    let mut command = statestored::config::Arguments::command().disable_help_subcommand(true);
    command.build();
    with_verbs(folder, command, "statestored", "8")
}

/// Writes a page. The text after the help consists of paragraphs: a title line with indented lines becomes a section after the
/// options, anything else continues the description.
fn write(folder: &Path, command: Command, name: &str, section: &str) -> io::Result<()> {
    let after = command.get_after_help().map(ToString::to_string);
    let paragraphs = after.iter().flat_map(|after| after.split("\n\n"));
    let (sections, description): (Vec<_>, Vec<_>) =
        paragraphs.partition(|paragraph| titled(paragraph).is_some());
    let has_verbs = command.get_subcommands().any(|verb| !verb.is_hide_set());
    let page = Man::new(command)
        .title(name.to_uppercase())
        .section(section)
        // A page has no date. An empty argument would be omitted, and the others would move up.
        .date(" ")
        .source(format!("{MANUAL} {}", env!("CARGO_PKG_VERSION")))
        .manual(MANUAL);
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    for paragraph in description {
        untitled(paragraph).to_writer(&mut text)?;
    }
    page.render_options_section(&mut text)?;
    if has_verbs {
        page.render_subcommands_section(&mut text)?;
    }
    for (title, lines) in sections.into_iter().filter_map(titled) {
        let mut roff = Roff::new();
        roff.control("SH", [title.to_uppercase().as_str()]);
        verbatim(&mut roff, lines);
        roff.to_writer(&mut text)?;
    }
    fs::write(folder.join(format!("{name}.{section}")), text)
}

/// Splits a paragraph into its title and its indented lines, if it has both.
fn titled(paragraph: &str) -> Option<(&str, &str)> {
    let (title, lines) = paragraph.split_once(":\n")?;
    (!title.starts_with(' ') && lines.starts_with("  ")).then_some((title, lines))
}

fn untitled(paragraph: &str) -> Roff {
    let mut roff = Roff::new();
    roff.control("PP", []);
    if paragraph.starts_with("  ") {
        verbatim(&mut roff, paragraph);
    } else {
        roff.text([roman(paragraph)]);
    }
    roff
}

/// Adds lines that are not filled, without their indentation.
fn verbatim(roff: &mut Roff, lines: &str) {
    roff.control("nf", []);
    for line in lines.lines() {
        roff.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
    }
    roff.control("fi", []);
}
