//! Client certificates.
use std::collections::BTreeMap;

/// Names in a client certificate. An authority that the server trusts has signed the certificate. When the connection
/// was made, the certificate was within its validity period and not revoked.
///
/// Empty parts of a name are left out, so that an empty string never identifies a client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ClientCertificate {
    /// The subject's distinguished name as in RFC 4514, the most special part first: `CN=pump-7,OU=Plant 3,O=Example`.
    pub subject: String,
    /// The distinguished name of the authority that signed it.
    pub issuer: String,
    /// Common name of the subject; the first if there are several.
    pub common_name: Option<String>,
    /// Subject alternative names that are DNS names.
    pub dns: Vec<String>,
    /// Subject alternative names that are URIs, such as a SPIFFE id.
    pub uri: Vec<String>,
    /// Subject alternative names that are addresses of e-mail.
    pub email: Vec<String>,
    /// SHA-256 of the certificate in DER, in hexadecimal, lower case.
    pub fingerprint: String,
}

impl ClientCertificate {
    /// Returns all parts as attributes by name: `subject`, `issuer`, `fingerprint` and `common_name`. The first
    /// alternative names are `dns`, `uri` and `email`; further ones are `dns.2`, `dns.3` and so on. Parts that the
    /// certificate does not have are left out.
    pub fn attributes(&self) -> BTreeMap<String, String> {
        let single = [
            ("subject", Some(&self.subject)),
            ("issuer", Some(&self.issuer)),
            ("fingerprint", Some(&self.fingerprint)),
            ("common_name", self.common_name.as_ref()),
        ];
        let mut attributes: BTreeMap<String, String> = single
            .into_iter()
            .filter_map(|(name, value)| {
                let value = value.filter(|value| !value.is_empty())?;
                Some((name.into(), value.clone()))
            })
            .collect();
        for (name, values) in [
            ("dns", &self.dns),
            ("uri", &self.uri),
            ("email", &self.email),
        ] {
            for (index, value) in values.iter().enumerate() {
                let name = match index {
                    0 => name.into(),
                    _ => format!("{name}.{}", index + 1),
                };
                attributes.insert(name, value.clone());
            }
        }
        attributes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_fields_of_the_certificate_become_attributes() {
        let certificate = ClientCertificate {
            subject: "CN=pump,O=Example".into(),
            common_name: Some("pump".into()),
            dns: vec!["pump.local".into(), "pump.example".into()],
            ..ClientCertificate::default()
        };
        let attributes: Vec<_> = certificate.attributes().into_iter().collect();
        let expected = [
            ("common_name", "pump"),
            ("dns", "pump.local"),
            ("dns.2", "pump.example"),
            ("subject", "CN=pump,O=Example"),
        ];
        assert_eq!(
            attributes,
            expected.map(|(name, value)| (name.into(), value.into()))
        );
    }
}
