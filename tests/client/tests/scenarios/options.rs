//! Options of the calls in a scenario.
use crate::step::bytes;
use bytes::Bytes;
use serde_json::{Map, Value};
use statestore::{
    Condition, DelOptions, GetOptions, Hlc, LeaseOptions, LockOptions, ObserveOptions, Overflow,
    Renewal, Retry, SetOptions, UpdateOptions,
};
use std::collections::HashMap;
use std::time::Duration;

pub(crate) struct Options<'a> {
    pub(crate) given: &'a Map<String, Value>,
    pub(crate) versions: &'a HashMap<String, Hlc>,
}

impl Options<'_> {
    fn word(&self, name: &str) -> Option<&str> {
        self.given.get(name).and_then(Value::as_str)
    }
    fn lifetime(&self) -> Option<Duration> {
        let endless = (self.word("expires_in") == Some("never")).then_some(Duration::MAX);
        endless.or(self.time("expires_in"))
    }
    pub(crate) fn time(&self, name: &str) -> Option<Duration> {
        let value = self.given.get(name).and_then(Value::as_u64);
        value.map(Duration::from_millis)
    }
    fn token(&self) -> Option<Hlc> {
        Some(self.version_of(self.given.get("fencing_token")?))
    }
    fn version_of(&self, reference: &Value) -> Hlc {
        let name = reference["ref"].as_str().expect("a reference");
        self.versions[name].clone()
    }
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.given.get(name) == Some(&Value::Bool(true))
    }
    fn condition(&self) -> Condition {
        if let Some(Value::Object(condition)) = self.given.get("condition") {
            return Condition::IfVersion(self.version_of(&condition["if_version"]).into());
        }
        match self.word("condition") {
            None | Some("always") => Condition::Always,
            Some("if_absent") => Condition::IfAbsent,
            Some("if_absent_or_equal") => Condition::IfAbsentOrEqual,
            Some(other) => panic!("no such condition: {other}"),
        }
    }
    pub(crate) fn retry(&self) -> Retry {
        match self.word("retry") {
            None | Some("safe") => Retry::Safe,
            Some("always") => Retry::Always,
            Some("never") => Retry::Never,
            Some(other) => panic!("no such retry: {other}"),
        }
    }
    pub(crate) fn get(&self) -> GetOptions {
        GetOptions::new()
            .remaining(self.flag("remaining"))
            .eventual(self.flag("eventual"))
            .timeout(self.time("timeout"))
    }
    pub(crate) fn set(&self) -> SetOptions {
        SetOptions::new()
            .condition(self.condition())
            .expires_in(self.lifetime())
            .fencing_token(self.token())
            .persist(self.flag("persist"))
            .coalesce(self.flag("coalesce"))
            .timeout(self.time("timeout"))
            .retry(self.retry())
    }
    pub(crate) fn del(&self) -> DelOptions {
        let if_version = self.given.get("if_version");
        DelOptions::new()
            .fencing_token(self.token())
            .if_version(if_version.map(|version| self.version_of(version).into()))
            .timeout(self.time("timeout"))
            .retry(self.retry())
    }
    pub(crate) fn observe(&self) -> ObserveOptions {
        let overflow = match self.given.get("overflow") {
            None => Overflow::Latest,
            Some(Value::String(word)) if word == "latest" => Overflow::Latest,
            Some(Value::String(word)) if word == "all" => Overflow::All(1024),
            Some(kept) => {
                let kept = kept["all"].as_u64().expect("a number");
                Overflow::All(usize::try_from(kept).expect("a small number"))
            }
        };
        ObserveOptions::new()
            .overflow(overflow)
            .timeout(self.time("timeout"))
    }
    pub(crate) fn update(&self) -> UpdateOptions {
        UpdateOptions::new()
            .expires_in(self.lifetime())
            .persist(self.flag("persist"))
            .timeout(self.time("timeout"))
    }
    pub(crate) fn lease(&self) -> LeaseOptions {
        let default = LeaseOptions::default();
        LeaseOptions::new()
            .duration(self.time("duration").unwrap_or(default.duration))
            .renewal(match self.given.get("renewal") {
                None => Renewal::Third,
                Some(Value::String(word)) if word == "third" => Renewal::Third,
                Some(Value::String(word)) if word == "manual" => Renewal::Manual,
                Some(_) => Renewal::Every(self.time("renewal").expect("a time")),
            })
            .holder(self.word("holder").map(|name| Bytes::from(bytes(name))))
            .resume(self.flag("resume"))
            .timeout(self.time("timeout"))
            .foreign_lease_max(
                self.time("foreign_lease_max")
                    .unwrap_or(default.foreign_lease_max),
            )
    }
    pub(crate) fn lock(&self) -> LockOptions {
        LockOptions::new()
            .lease(self.lease())
            .wait(self.time("wait"))
    }
}
