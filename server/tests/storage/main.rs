//! The storages: what each one keeps, and what the durable one does when its files are not well.
mod committer;
mod conformance;
mod damage;
mod directory;
mod failure;
mod growth;
mod kill;
mod load;
mod model;
