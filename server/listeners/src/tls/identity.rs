//! The identity of a certificate's owner.
use rustls::pki_types::CertificateDer;
use statestored_access::ClientCertificate;
use std::fmt::Write;
use x509_parser::asn1_rs::ToDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

/// Attributes with a short name in RFC 4514, and the e-mail address, which many certificates have.
const SHORT_NAMES: [(&str, &str); 10] = [
    ("2.5.4.3", "CN"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "STREET"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("0.9.2342.19200300.100.1.1", "UID"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("1.2.840.113549.1.9.1", "emailAddress"),
];

/// Returns the identity in a client's certificate, if the certificate is valid now. A resumed session may have one that
/// has expired.
pub(crate) fn identity(der: &CertificateDer<'_>) -> Result<ClientCertificate, &'static str> {
    let (_, certificate) =
        X509Certificate::from_der(der).map_err(|_| "the client's certificate cannot be read")?;
    if !certificate.validity().is_valid() {
        return Err("the client's certificate has expired");
    }
    let mut identity = ClientCertificate {
        subject: name(certificate.subject()),
        issuer: name(certificate.issuer()),
        common_name: certificate
            .subject()
            .iter_common_name()
            .filter_map(attribute_text)
            .filter(|text| !text.is_empty())
            .last()
            .map(Into::into),
        fingerprint: to_hex(ring::digest::digest(&ring::digest::SHA256, der).as_ref()),
        ..ClientCertificate::default()
    };
    let names = certificate
        .subject_alternative_name()
        .map_err(|_| "the client's certificate has names that cannot be read")?;
    for name in names.iter().flat_map(|names| &names.value.general_names) {
        let (of_kind, text) = match name {
            GeneralName::DNSName(text) => (&mut identity.dns, text),
            GeneralName::URI(text) => (&mut identity.uri, text),
            GeneralName::RFC822Name(text) => (&mut identity.email, text),
            _ => continue,
        };
        if !text.is_empty() && !text.contains(char::is_control) {
            of_kind.push((*text).to_owned());
        }
    }
    Ok(identity)
}

/// Returns the subject of a certificate, and its end in seconds since 1970.
pub(super) fn subject_and_expiry(der: &CertificateDer<'_>) -> Option<(String, i64)> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let end_s = certificate.validity().not_after.timestamp();
    Some((name(certificate.subject()), end_s))
}

/// Formats a distinguished name according to RFC 4514.
fn name(name: &X509Name<'_>) -> String {
    let mut out = String::new();
    let parts: Vec<_> = name.iter_rdn().collect();
    for (index, part) in parts.into_iter().rev().enumerate() {
        if index > 0 {
            out.push(',');
        }
        for (index, attribute) in part.iter().enumerate() {
            if index > 0 {
                out.push('+');
            }
            push_attribute(&mut out, attribute);
        }
    }
    out
}

fn push_attribute(out: &mut String, attribute: &AttributeTypeAndValue<'_>) {
    let id = attribute.attr_type().to_id_string();
    let short = SHORT_NAMES.iter().find(|(known, _)| *known == id);
    out.push_str(short.map_or(&id, |(_, short)| *short));
    out.push('=');
    if let Some(text) = attribute_text(attribute).filter(|_| short.is_some()) {
        escape(out, text);
    } else {
        let der = attribute.attr_value().to_der_vec().unwrap_or_default();
        out.push('#');
        out.push_str(&to_hex(&der));
    }
}

fn attribute_text<'a>(attribute: &'a AttributeTypeAndValue<'_>) -> Option<&'a str> {
    attribute.as_str().ok()
}

/// Escapes the characters of RFC 4514, section 2.4, and all control characters.
fn escape(out: &mut String, text: &str) {
    let last = text.chars().count().saturating_sub(1);
    for (index, letter) in text.chars().enumerate() {
        match letter {
            '"' | '+' | ',' | ';' | '<' | '>' | '\\' | '=' => {
                out.push('\\');
                out.push(letter);
            }
            '#' | ' ' if index == 0 => {
                out.push('\\');
                out.push(letter);
            }
            ' ' if index == last => out.push_str("\\ "),
            letter if letter.is_control() => {
                let mut bytes = [0; 4];
                for byte in letter.encode_utf8(&mut bytes).bytes() {
                    // Writing to a `String` cannot fail.
                    let _ = write!(out, "\\{byte:02X}");
                }
            }
            letter => out.push(letter),
        }
    }
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair, SanType, date_time_ymd};

    fn certificate(change: impl FnOnce(&mut CertificateParams)) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().clone()
    }

    #[test]
    fn the_names_of_a_certificate_are_parsed() {
        let der = certificate(|params| {
            let name = &mut params.distinguished_name;
            name.push(DnType::OrganizationName, "A, B & C");
            name.push(DnType::OrganizationalUnitName, " #x ");
            name.push(DnType::CommonName, "pump=7");
            params.subject_alt_names = vec![
                SanType::DnsName("pump.local".try_into().unwrap()),
                SanType::DnsName("pump.example".try_into().unwrap()),
                SanType::URI("spiffe://plant/pump".try_into().unwrap()),
                SanType::Rfc822Name("pump@example.org".try_into().unwrap()),
                SanType::IpAddress([192, 0, 2, 1].into()),
            ];
        });
        let identity = identity(&der).unwrap();
        assert_eq!(identity.subject, r"CN=pump\=7,OU=\ #x\ ,O=A\, B & C");
        assert_eq!(identity.issuer, identity.subject);
        assert_eq!(identity.common_name.as_deref(), Some("pump=7"));
        assert_eq!(identity.dns, ["pump.local", "pump.example"]);
        assert_eq!(identity.uri, ["spiffe://plant/pump"]);
        assert_eq!(identity.email, ["pump@example.org"]);
        assert_eq!(identity.fingerprint.len(), 64);
    }

    #[test]
    fn special_characters_in_a_name_are_escaped() {
        let der = certificate(|params| {
            let name = &mut params.distinguished_name;
            name.push(DnType::CommonName, "pump,O=Other\n\u{0}");
        });
        let identity = identity(&der).unwrap();
        assert_eq!(identity.subject, r"CN=pump\,O\=Other\0A\00");
    }

    #[test]
    fn an_expired_or_future_certificate_is_rejected() {
        let der = certificate(|params| {
            params.not_before = date_time_ymd(2001, 1, 1);
            params.not_after = date_time_ymd(2001, 1, 2);
        });
        assert_eq!(identity(&der), Err("the client's certificate has expired"));
    }
}
