//! Templates: texts of a policy with tokens for the client.
use crate::Principal;
use statestore_protocol::glob::Glob;

/// The client that a template is resolved for.
pub(super) struct PolicySubject<'a> {
    pub(super) principal: &'a Principal,
    pub(super) client_id: &'a str,
}

/// A text in which `{principal.clientId}`, `{principal.username}` and `{principal.attributes.NAME}` are replaced by the
/// values of the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template(Vec<TemplatePart>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum TemplatePart {
    Text(String),
    ClientId,
    UserName,
    Attribute(String),
}

impl Template {
    /// Parses a template. Braces are reserved for tokens.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        const TOKENS: &str =
            "expected {principal.clientId}, {principal.username} or {principal.attributes.NAME}";
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let (before, behind) = rest.split_at(at);
            if !before.is_empty() {
                pieces.push(TemplatePart::Text(before.into()));
            }
            let (token, behind) = behind
                .strip_prefix('{')
                .and_then(|behind| behind.split_once('}'))
                .ok_or_else(|| format!("a brace of {text:?} stands alone; {TOKENS}"))?;
            pieces.push(match token {
                "principal.clientId" => TemplatePart::ClientId,
                "principal.username" => TemplatePart::UserName,
                _ => match token.strip_prefix("principal.attributes.") {
                    Some(name) if !name.is_empty() => TemplatePart::Attribute(name.into()),
                    _ => return Err(format!("{{{token}}} is unknown; {TOKENS}")),
                },
            });
            rest = behind;
        }
        if !rest.is_empty() {
            pieces.push(TemplatePart::Text(rest.into()));
        }
        Ok(Self(pieces))
    }

    pub(super) fn has_tokens(&self) -> bool {
        let is_text = |piece: &TemplatePart| matches!(piece, TemplatePart::Text(_));
        !self.0.iter().all(is_text)
    }

    /// Replaces each token by its value, changed by `quote`; `None` if a token has no value, or the value cannot be
    /// quoted.
    fn resolve(
        &self,
        subject: &PolicySubject<'_>,
        quote: impl Fn(&str) -> Option<String>,
    ) -> Option<String> {
        let mut resolved = String::new();
        for piece in &self.0 {
            if let TemplatePart::Text(text) = piece {
                resolved.push_str(text);
                continue;
            }
            // An empty value could make a pattern match all clients.
            let value = value(piece, subject).filter(|value| !value.is_empty())?;
            resolved.push_str(&quote(value)?);
        }
        Some(resolved)
    }

    /// Returns the text with the values unchanged.
    pub(super) fn key_text(&self, subject: &PolicySubject<'_>) -> Option<String> {
        self.resolve(subject, |value| is_segment(value).then(|| value.into()))
    }

    /// Returns a glob, in which wildcards within a value match only themselves.
    pub(super) fn glob_text(&self, subject: &PolicySubject<'_>) -> Option<String> {
        self.resolve(subject, |value| {
            is_segment(value).then(|| escape_glob(value))
        })
    }

    /// Returns a glob for client ids. A template without wildcards names a single client id, whatever the value
    /// contains.
    pub(super) fn client_id_glob(&self, subject: &PolicySubject<'_>) -> Option<Glob> {
        let text = if self.has_wildcards() {
            self.glob_text(subject)
        } else {
            self.resolve(subject, |value| Some(escape_glob(value)))
        };
        Some(Glob::new(text?.as_bytes()))
    }

    /// Returns a topic filter; `None` if a value contains a wildcard.
    pub(super) fn topic_filter(&self, subject: &PolicySubject<'_>) -> Option<String> {
        self.resolve(subject, |value| {
            (is_segment(value) && !value.contains(['+', '#', '\0'])).then(|| value.into())
        })
    }

    /// Returns whether a token has a value of several segments, so that the template allows nothing.
    pub(super) fn has_multi_segment_value(&self, subject: &PolicySubject<'_>) -> bool {
        let mut pieces = self.0.iter();
        pieces.any(|piece| value(piece, subject).is_some_and(|value| !is_segment(value)))
    }

    /// Returns whether the template gives no [glob for client ids](Self::client_id_glob): it has wildcards, and a token has a
    /// value of several segments.
    pub(super) fn lacks_client_id_glob(&self, subject: &PolicySubject<'_>) -> bool {
        self.has_wildcards() && self.has_multi_segment_value(subject)
    }

    fn has_wildcards(&self) -> bool {
        let is_wild = |piece: &TemplatePart| matches!(piece, TemplatePart::Text(text) if text.contains(['*', '?', '[']));
        self.0.iter().any(is_wild)
    }

    /// Returns the text with a placeholder for each token, which is no wildcard.
    pub(super) fn with_placeholders(&self) -> String {
        let piece = |piece: &TemplatePart| match piece {
            TemplatePart::Text(text) => text.clone(),
            _ => "x".into(),
        };
        self.0.iter().map(piece).collect()
    }
}

/// Returns the value of a token; `None` if it has none.
fn value<'s>(piece: &TemplatePart, subject: &PolicySubject<'s>) -> Option<&'s str> {
    match piece {
        TemplatePart::Text(_) => None,
        TemplatePart::ClientId => Some(subject.client_id),
        TemplatePart::UserName => subject.principal.name(),
        TemplatePart::Attribute(name) => subject.principal.attribute(name),
    }
}

/// Returns whether a value is a single segment of a key or a topic. A value of several segments could reach the keys of
/// another client: a client with the id `a/b` would get `a/b/*`, which is below the `a/*` of a client with the id `a`.
fn is_segment(value: &str) -> bool {
    !value.contains('/')
}

fn escape_glob(value: &str) -> String {
    let mut quoted = String::with_capacity(value.len());
    for character in value.chars() {
        if matches!(character, '*' | '?' | '[') {
            quoted.extend(['[', character, ']']);
        } else {
            quoted.push(character);
        }
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn tokens_are_replaced_by_values_of_the_client() {
        let attributes = BTreeMap::from([("site".into(), "*".into())]);
        let principal = Principal::with_attributes(Some("ann".into()), attributes);
        let subject = PolicySubject {
            principal: &principal,
            client_id: "c[1]",
        };
        let template = Template::parse(
            "{principal.username}/{principal.attributes.site}/{principal.clientId}?",
        )
        .unwrap();
        assert!(template.has_tokens());
        assert_eq!(template.key_text(&subject).unwrap(), "ann/*/c[1]?");
        assert_eq!(template.glob_text(&subject).unwrap(), "ann/[*]/c[[]1]?");
        let glob = template.client_id_glob(&subject).unwrap();
        assert!(glob.matches(b"ann/*/c[1]!") && !glob.matches(b"ann/x/c[1]!"));
        assert_eq!(template.with_placeholders(), "x/x/x?");
    }

    #[test]
    fn a_token_with_an_empty_or_wildcard_value_allows_nothing() {
        let nobody = Principal::default();
        let subject = |client_id| PolicySubject {
            principal: &nobody,
            client_id,
        };
        let of_user = Template::parse("{principal.username}/#").unwrap();
        assert_eq!(of_user.topic_filter(&subject("c")), None);
        let of_attribute = Template::parse("{principal.attributes.a}").unwrap();
        assert_eq!(of_attribute.key_text(&subject("c")), None);
        let of_client = Template::parse("{principal.clientId}/#").unwrap();
        assert_eq!(of_client.topic_filter(&subject("c")).unwrap(), "c/#");
        for wildcard in ["+", "a/#", ""] {
            assert_eq!(
                of_client.topic_filter(&subject(wildcard)),
                None,
                "{wildcard:?}"
            );
        }
    }

    #[test]
    fn braces_are_reserved_for_tokens() {
        for wrong in [
            "{",
            "a}",
            "{}",
            "{principal}",
            "{principal.attributes.}",
            "{{principal.clientId}}",
            "{principal.userName}",
        ] {
            assert!(Template::parse(wrong).is_err(), "{wrong}");
        }
        assert!(!Template::parse("").unwrap().has_tokens());
    }
}
