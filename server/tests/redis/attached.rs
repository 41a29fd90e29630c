//! Servers over one Redis, behind one broker, that share its requests.
use crate::elsewhere::shared;
use crate::server::Redis;

#[test]
fn a_request_that_comes_to_several_servers_is_executed_once() {
    shared::a_request_that_comes_to_several_servers_is_executed_once::<Redis>();
}
