//! Names of fields that are written in another way than in the records.

/// Returns the only one of the `known` dotted names that `wanted` can mean: the name in another
/// case and with other separators, or without a unit in parentheses, or else the end of a name.
/// O(known).
pub(super) fn alike<'k>(known: &'k [String], wanted: &str) -> Option<&'k str> {
    // `-price` leaves out a field.
    if !wanted.starts_with(|sign: char| sign.is_alphanumeric() || sign == '_') {
        return None;
    }
    let wanted = plain_keys(wanted);
    if wanted.iter().any(String::is_empty) {
        return None;
    }
    let only = |is_meant: &dyn Fn(&str) -> bool| {
        let mut found = known.iter().filter(|name| is_meant(name));
        found.next().filter(|_| found.next().is_none())
    };
    let same = only(&|name| plain_keys(name) == wanted);
    let same = same.or_else(|| {
        only(&|name| without_unit(name).is_some_and(|name| plain_keys(name) == wanted))
    });
    same.or_else(|| only(&|name| plain_keys(name).ends_with(&wanted))).map(String::as_str)
}

/// Returns a name without the unit in parentheses at its end: `Mass` of `Mass (kg)`. `None` if it
/// has none.
fn without_unit(name: &str) -> Option<&str> {
    let (name, unit) = name.strip_suffix(')')?.rsplit_once('(')?;
    (!name.trim().is_empty() && !unit.contains('.')).then(|| name.trim())
}

/// Returns the keys of a dotted name in lower case, without the separators of words.
fn plain_keys(name: &str) -> Vec<String> {
    let plain = |key: &str| {
        let signs = key.chars().filter(|sign| !['_', '-', ' '].contains(sign));
        signs.flat_map(char::to_lowercase).collect()
    };
    // A key may end with a dot: `No.`.
    name.trim_end_matches('.').split('.').map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_field_is_meant() {
        let known = [
            "unit_price",
            "metadata.namespace",
            "user.name",
            "repo.name",
            "repo.owner.id",
            "Body Mass (g)",
            "Depth (m)",
            "Depth (ft)",
            "Part No.",
        ];
        let known: Vec<String> = known.iter().map(|name| (*name).to_owned()).collect();
        for (wanted, meant) in [
            ("unitPrice", Some("unit_price")),
            ("Unit Price", Some("unit_price")),
            ("namespace", Some("metadata.namespace")),
            ("Owner.Id", Some("repo.owner.id")),
            ("body_mass", Some("Body Mass (g)")),
            ("depth", None),
            ("part_no", Some("Part No.")),
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
