//! Empty: the package has one test, which is compiled with few features of the client.
