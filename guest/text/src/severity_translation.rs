//! Names of severities in other languages than English.
//!
//! The lists are closed: the level names of the Java runtime (`java.util.logging`), and those of
//! PostgreSQL and Windows.

use super::severity::Severity;

/// The length of the longest translated name, in bytes.
pub(super) const MAX_TRANSLATION_BYTES: usize = 28;
/// The length of the shortest translated name, in bytes.
const MIN_TRANSLATION_BYTES: usize = 4;

/// Returns the severity that a word of another language than English names, ignoring case. `None`
/// for other words. O(1).
pub(super) fn severity_of_translation(word: &[u8]) -> Option<Severity> {
    if !(MIN_TRANSLATION_BYTES..=MAX_TRANSLATION_BYTES).contains(&word.len()) {
        return None;
    }
    if !word.is_ascii() {
        return severity_of_wide_word(&std::str::from_utf8(word).ok()?.to_lowercase());
    }
    let mut lower = [0; MAX_TRANSLATION_BYTES];
    lower.iter_mut().zip(word).for_each(|(to, from)| *to = from.to_ascii_lowercase());
    match lower.get(..word.len())? {
        b"schwerwiegend" | b"grave" | b"allvarlig" | b"fehler" | b"erreur" | b"errore"
        | b"fatale" | b"fout" | b"virhe" | b"feil" | b"fejl" | b"chyba" | b"hata" | b"hiba"
        | b"kritisch" | b"critique" | b"critico" => Some(Severity::Error),
        b"warnung" | b"advertencia" | b"avertissement" | b"avvertenza" | b"avviso" | b"varning"
        | b"attention" | b"attenzione" | b"aviso" | b"alerta" | b"alerte" | b"achtung"
        | b"waarschuwing" | b"varoitus" | b"advarsel" => Some(Severity::Warn),
        b"informationen" | b"informations" | b"informazioni" | b"infos" | b"konfiguration"
        | b"configurar" | b"configurazione" | b"konfig" | b"fein" | b"feiner" | b"detallado"
        | b"detalhado" | b"buono" | b"migliore" | b"finare" | b"hinweis" => Some(Severity::Other),
        _ => None,
    }
}

/// Returns the severity that a word in lower case, with letters beyond ASCII, names.
fn severity_of_wide_word(word: &str) -> Option<Severity> {
    match word {
        "重大"
        | "심각"
        | "严重"
        | "嚴重"
        | "ошибка"
        | "错误"
        | "錯誤"
        | "エラー"
        | "오류"
        | "błąd"
        | "crítico"
        | "критическая" => Some(Severity::Error),
        "advertência"
        | "警告"
        | "경고"
        | "предупреждение"
        | "ostrzeżenie"
        | "varování"
        | "uyarı"
        | "figyelmeztetés" => Some(Severity::Warn),
        "información"
        | "informações"
        | "configuração"
        | "précis"
        | "情報"
        | "信息"
        | "資訊"
        | "정보"
        | "информация"
        | "отладка"
        | "構成"
        | "配置"
        | "組態"
        | "구성"
        | "詳細"
        | "详细" => Some(Severity::Other),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn translated_severities_are_detected() {
        for (word, expected) in [
            ("GRAVE", Some(Severity::Error)),
            ("Schwerwiegend", Some(Severity::Error)),
            ("ОШИБКА", Some(Severity::Error)),
            ("严重", Some(Severity::Error)),
            ("ADVERTÊNCIA", Some(Severity::Warn)),
            ("警告", Some(Severity::Warn)),
            ("INFORMACIÓN", Some(Severity::Other)),
            ("PRÉCIS", Some(Severity::Other)),
            ("gravel", None),
            ("é", None),
        ] {
            assert_eq!(severity_of_translation(word.as_bytes()), expected, "{word}");
        }
    }
}
