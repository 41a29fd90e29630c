//! Atomicity on the simulated disk: a file or store exists as a whole or not at all. The process that makes it may end
//! at any point.
use simulation::wholes::{
    Looked, every_end_of_a_copy, every_end_of_a_file, every_end_of_a_new_store,
    every_end_of_a_rewrite,
};

fn holds(what: &str, looked: Result<Looked, String>) {
    match looked {
        Ok(looked) => {
            println!("{what}: {looked:?}");
            let Looked {
                calls,
                failures,
                disks,
            } = looked;
            assert!(calls >= 5 && disks > calls, "{what}: {looked:?}");
            assert!(failures >= 15, "{what}: {looked:?}");
        }
        Err(why) => panic!("{what}: {why}"),
    }
}

#[test]
fn a_store_that_is_made_with_its_records_is_one_when_all_of_them_are_there() {
    holds("a new store", every_end_of_a_new_store());
}

#[test]
fn a_copy_of_a_store_is_one_when_all_of_it_is_there() {
    holds("a copy", every_end_of_a_copy());
}

#[test]
fn a_store_that_is_written_anew_is_the_one_of_before_or_the_new_one() {
    holds("a rewrite", every_end_of_a_rewrite());
}

#[test]
fn a_new_file_is_there_as_a_whole_or_not_at_all() {
    holds("a file", every_end_of_a_file(false));
    holds("a file for another", every_end_of_a_file(true));
}
