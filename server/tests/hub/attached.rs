//! The hub as a client of a broker.
use bytes::BytesMut;
use statestore_protocol::mqtt::{Packet, ReasonCode, decode};
use statestored_broker::hub::{BrokerConfig, Hub, HubConfig, HubLimits};
use statestored_store::service::{ClockReading, Service, ServiceConfig};

const NOW: ClockReading = ClockReading {
    wall_ms: 1_700_000_000_000,
    mono_ms: 1_000,
};

/// The Maximum Packet Size of the next CONNECT.
fn max_packet_bytes(hub: &mut Hub) -> u32 {
    hub.broker_connected(None, None, None, NOW).unwrap();
    let mut output = BytesMut::from(&hub.broker_output(NOW)[..]);
    let Some(Packet::Connect(connect)) = decode(&mut output, u32::MAX).unwrap() else {
        panic!("it connects");
    };
    hub.broker_disconnected(Some(ReasonCode::SUCCESS), NOW);
    connect.limits.max_packet_bytes
}

#[test]
fn a_changed_packet_size_applies_from_the_next_broker_connection() {
    let config = HubConfig {
        broker: Some(BrokerConfig::default()),
        ..HubConfig::default()
    };
    let service = ServiceConfig::default();
    let mut hub = Hub::new(config, Service::embedded(service.clone()));
    let before = max_packet_bytes(&mut hub);
    let limits = HubLimits {
        max_packet_bytes: before / 2,
        ..HubLimits::default()
    };
    hub.set_limits(limits, &service);
    assert_eq!(max_packet_bytes(&mut hub), before / 2);
}
