//! Atomicity on the simulated disk: a file or store exists as a whole or not at all. The process that makes it may end
//! at any point.
use simulation::atomicity::{
    AtomicityReport, check_copy, check_new_file, check_new_store, check_rewrite,
};

fn check(what: &str, looked: Result<AtomicityReport, String>) {
    match looked {
        Ok(looked) => {
            println!("{what}: {looked:?}");
            let AtomicityReport {
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
fn a_new_store_is_valid_only_with_all_its_records() {
    check("a new store", check_new_store());
}

#[test]
fn a_copied_store_is_valid_only_when_complete() {
    check("a copy", check_copy());
}

#[test]
fn a_rewritten_store_is_the_old_or_the_new_one() {
    check("a rewrite", check_rewrite());
}

#[test]
fn a_new_file_is_complete_or_absent() {
    check("a file", check_new_file(false));
    check("a file for another", check_new_file(true));
}
