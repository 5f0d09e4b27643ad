//! Names of fields that are written in another way than in the records.

/// Returns the only one of the `known` dotted names that `wanted` can mean: the name in another
/// case and with other separators, or else the end of a name. O(known).
pub(super) fn alike<'k>(known: &'k [String], wanted: &str) -> Option<&'k str> {
    // `-price` leaves out a field.
    if !wanted.starts_with(|sign: char| sign.is_alphanumeric() || sign == '_') {
        return None;
    }
    let wanted = plain_keys(wanted);
    if wanted.iter().any(String::is_empty) {
        return None;
    }
    let only = |is_meant: &dyn Fn(&[String]) -> bool| {
        let mut found = known.iter().filter(|name| is_meant(&plain_keys(name)));
        found.next().filter(|_| found.next().is_none())
    };
    let same = only(&|keys| keys == wanted);
    same.or_else(|| only(&|keys| keys.ends_with(&wanted))).map(String::as_str)
}

/// Returns the keys of a dotted name in lower case, without the separators of words.
fn plain_keys(name: &str) -> Vec<String> {
    let plain = |key: &str| {
        let signs = key.chars().filter(|sign| !['_', '-', ' '].contains(sign));
        signs.flat_map(char::to_lowercase).collect()
    };
    name.split('.').map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_field_is_meant() {
        let known = ["unit_price", "metadata.namespace", "user.name", "repo.name", "repo.owner.id"];
        let known: Vec<String> = known.iter().map(|name| (*name).to_owned()).collect();
        for (wanted, meant) in [
            ("unitPrice", Some("unit_price")),
            ("Unit Price", Some("unit_price")),
            ("namespace", Some("metadata.namespace")),
            ("Owner.Id", Some("repo.owner.id")),
            ("name", None),
            ("repo", None),
            ("space", None),
            ("-unitPrice", None),
            ("", None),
        ] {
            assert_eq!(alike(&known, wanted), meant, "{wanted}");
        }
    }
}
