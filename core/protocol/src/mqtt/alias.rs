//! Topic aliases (MQTT 5, section 3.3.2.3.4). They live as long as one connection.
use super::{Publish, ReasonCode};
use std::sync::Arc;

/// A topic alias that its receiver cannot resolve. The connection must be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AliasError {
    /// Above the Topic Alias Maximum that this end stated.
    #[error("the topic alias {0} is above the allowed maximum")]
    AboveMaximum(u16),
    /// Used before a topic was given to it.
    #[error("the topic alias {0} has no topic")]
    Unknown(u16),
}

impl AliasError {
    /// Returns the reason code for the DISCONNECT that answers it.
    pub fn reason(self) -> ReasonCode {
        match self {
            Self::AboveMaximum(_) => ReasonCode::TOPIC_ALIAS_INVALID,
            Self::Unknown(_) => ReasonCode::PROTOCOL_ERROR,
        }
    }
}

/// The aliases that the peer defines.
#[derive(Debug, Clone, Default)]
pub struct InboundAliases {
    maximum: u16,
    /// At index `alias - 1`; grows with use.
    topics: Vec<Option<Arc<str>>>,
    /// Total size of all topics.
    bytes: usize,
}

impl InboundAliases {
    /// Creates an empty table for the Topic Alias Maximum that this end announced.
    pub fn new(maximum: u16) -> Self {
        Self {
            maximum,
            topics: Vec::new(),
            bytes: 0,
        }
    }

    /// Returns the total size of the topics that have aliases.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns whether a PUBLISH names this topic by an alias alone.
    pub fn is_alias_of(&self, publish: &Publish, topic: &str) -> bool {
        let Some(alias) = publish.topic_alias() else {
            return false;
        };
        let known = self.topics.get(usize::from(alias).wrapping_sub(1));
        publish.topic_bytes().is_empty() && matches!(known, Some(Some(known)) if **known == *topic)
    }

    /// Resolves the topic of a received PUBLISH, like [`resolve`](Self::resolve).
    pub fn topic_of(&mut self, publish: &Publish) -> Result<Option<Arc<str>>, AliasError> {
        match publish.topic_alias() {
            None => Ok(None),
            alias => self.resolve(publish.topic(), alias),
        }
    }

    /// Resolves the topic of a PUBLISH, and records an alias that it defines. Returns the topic behind the alias if the
    /// topic of the PUBLISH is empty; `None` if the PUBLISH names its topic itself.
    pub fn resolve(
        &mut self,
        topic: &str,
        alias: Option<u16>,
    ) -> Result<Option<Arc<str>>, AliasError> {
        let Some(alias) = alias else { return Ok(None) };
        if alias == 0 || alias > self.maximum {
            return Err(AliasError::AboveMaximum(alias));
        }
        let index = usize::from(alias) - 1;
        if topic.is_empty() {
            let topic = self.topics.get(index).cloned().flatten();
            return topic.map(Some).ok_or(AliasError::Unknown(alias));
        }
        if self.topics.len() <= index {
            self.topics.resize(index + 1, None);
        }
        if self.topics[index].as_deref() != Some(topic) {
            let previous = self.topics[index].replace(topic.into());
            self.bytes += topic.len();
            self.bytes -= previous.map_or(0, |previous| previous.len());
        }
        Ok(None)
    }
}

/// How to name a topic in a PUBLISH.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopicName {
    /// The topic name alone.
    Plain,
    /// The topic name, with a definition of this alias.
    Define(u16),
    /// The alias alone, without the topic name.
    Alias(u16),
}

/// The aliases that this end defines: the first few topics get one, and keep it over reconnects.
#[derive(Debug, Clone, Default)]
pub struct OutboundAliases {
    maximum: usize,
    /// The topic of each alias, at index `alias - 1`, and whether this connection's peer knows it.
    topics: Vec<(Arc<str>, AliasState)>,
    /// Some alias is being defined.
    defining: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AliasState {
    Undefined,
    /// The PUBLISH that defines it may still be withdrawn.
    Pending,
    Defined,
}

/// Few enough that looking a topic up is comparing it with each.
const MAX_OUTBOUND: usize = 16;

impl OutboundAliases {
    /// Creates an empty table for the Topic Alias Maximum that the peer announced.
    pub fn new(maximum: u16) -> Self {
        Self {
            maximum: usize::from(maximum).min(MAX_OUTBOUND),
            ..Self::default()
        }
    }

    /// Starts a new connection, to a peer that knows no alias yet and announced this Topic Alias Maximum.
    pub fn reconnected(&mut self, maximum: u16) {
        self.maximum = usize::from(maximum).min(MAX_OUTBOUND);
        for (_, known) in &mut self.topics {
            *known = AliasState::Undefined;
        }
    }

    /// Returns how to name `topic` in the next PUBLISH.
    pub fn name(&mut self, topic: &str) -> TopicName {
        let place = self.topics.iter().position(|(one, _)| **one == *topic);
        let index = place.unwrap_or(self.topics.len());
        let Some(alias) = u16::try_from(index + 1)
            .ok()
            .filter(|_| index < self.maximum)
        else {
            return TopicName::Plain;
        };
        match self.topics.get_mut(index) {
            Some((_, AliasState::Defined)) => return TopicName::Alias(alias),
            Some((_, AliasState::Pending)) => return TopicName::Plain,
            Some((_, known)) => *known = AliasState::Pending,
            None => self.topics.push((topic.into(), AliasState::Pending)),
        }
        self.defining = true;
        TopicName::Define(alias)
    }

    /// Records that all PUBLISHes so far are sent: later ones can use the aliases that they define.
    pub fn mark_sent(&mut self) {
        if std::mem::take(&mut self.defining) {
            for (_, known) in &mut self.topics {
                if *known == AliasState::Pending {
                    *known = AliasState::Defined;
                }
            }
        }
    }

    /// Records that the PUBLISH that was to define `alias` is not sent.
    pub fn undefine(&mut self, alias: u16) {
        if let Some((_, known)) = self.topics.get_mut(usize::from(alias).wrapping_sub(1)) {
            *known = AliasState::Undefined;
        }
    }

    /// Returns the topic of `alias`, on this or a former connection.
    pub fn topic(&self, alias: u16) -> Option<Arc<str>> {
        self.topics
            .get(usize::from(alias).wrapping_sub(1))
            .map(|(topic, _)| topic.clone())
    }
}
