//! Names of severities in other languages than English.
//!
//! The lists are closed: the level names of the Java runtime (`java.util.logging`), and those of
//! PostgreSQL and Windows.

use super::severity_level::Severity;

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
    severity_of_narrow_word(lower.get(..word.len())?)
}

/// Returns the severity that an ASCII word in lower case names.
fn severity_of_narrow_word(word: &[u8]) -> Option<Severity> {
    match word {
        b"schwerwiegend" | b"grave" | b"allvarlig" | b"fehler" | b"erreur" | b"errore"
        | b"fatale" | b"fout" | b"virhe" | b"feil" | b"fejl" | b"chyba" | b"hata" | b"hiba"
        | b"kritisch" | b"critique" | b"critico" | b"kritisk" | b"kritiek" | b"fatalt"
        | b"eroare" | b"napaka" | b"klaida" | b"viga" | b"kesalahan" | b"kritik" | b"panika"
        | b"panik" | b"panico" | b"katastrofalny" | b"kriittinen" | b"notfall" | b"urgence"
        | b"emergencia" | b"emergenza" | b"blad" => Some(Severity::Error),
        b"warnung" | b"advertencia" | b"avertissement" | b"avvertenza" | b"avviso" | b"varning"
        | b"attention" | b"attenzione" | b"aviso" | b"alerta" | b"alerte" | b"achtung"
        | b"waarschuwing" | b"varoitus" | b"advarsel" | b"avertisment" | b"ostrzezenie"
        | b"varovani" | b"upozorneni" | b"uyari" | b"peringatan" | b"opozorilo" | b"upozorenje"
        | b"hoiatus" => Some(Severity::Warn),
        b"informationen" | b"informations" | b"informazioni" | b"infos" | b"konfiguration"
        | b"configurar" | b"configurazione" | b"konfig" | b"fein" | b"feiner" | b"detallado"
        | b"detalhado" | b"buono" | b"migliore" | b"finare" | b"hinweis" | b"informacion"
        | b"informacao" | b"informacja" | b"informatie" | b"informasjon" | b"bilgi" | b"tieto"
        | b"debogage" | b"depuracion" | b"depuracao" | b"remarque" | b"nota" | b"depurar"
        | b"dziennik" | b"uwaga" | b"logg" | b"protokoll" | b"melding" | b"meddelande"
        | b"ablaufverfolgung" => Some(Severity::Other),
        _ => None,
    }
}

/// Returns the severity that a word in lower case, with letters beyond ASCII, names.
fn severity_of_wide_word(word: &str) -> Option<Severity> {
    match word {
        // Japanese, Chinese and Korean.
        "重大" | "重大エラー" | "致命的" | "致命" | "致命的エラー" | "エラー" | "異常" | "障害"
        | "緊急" | "严重" | "嚴重" | "错误" | "錯誤" | "致命错误" | "危急" | "紧急" | "심각"
        | "오류" | "치명적" | "에러" => Some(Severity::Error),
        "警告" | "注意" | "ワーニング" | "경고" | "주의" => Some(Severity::Warn),
        "情報" | "信息" | "資訊" | "정보" | "構成" | "配置" | "組態" | "구성" | "詳細" | "详细"
        | "デバッグ" | "トレース" | "通知" | "调试" | "調試" | "偵錯" | "跟踪" | "디버그"
        | "알림" => Some(Severity::Other),
        // Cyrillic and Greek.
        "паника"
        | "важно"
        | "паніка"
        | "фатально"
        | "ошибка"
        | "критическая"
        | "критический"
        | "критично"
        | "фатальная"
        | "авария"
        | "сбой"
        | "помилка"
        | "критична"
        | "грешка"
        | "σφάλμα"
        | "κρίσιμο" => Some(Severity::Error),
        "предупреждение"
        | "внимание"
        | "попередження"
        | "увага"
        | "упозорење"
        | "προειδοποίηση" => Some(Severity::Warn),
        "сообщение"
        | "замечание"
        | "подробности"
        | "подсказка"
        | "оператор"
        | "запис"
        | "информация"
        | "инфо"
        | "отладка"
        | "сведения"
        | "трассировка"
        | "уведомление"
        | "інформація"
        | "налагодження"
        | "πληροφορία" => Some(Severity::Other),
        // Latin letters with signs.
        "pánico" | "pânico" | "ölümcül" | "pani̇k" | "błąd" | "krytyczny" | "crítico"
        | "crítica" | "kritická" | "kritický" | "závažné" | "lỗi" | "kļūda" => {
            Some(Severity::Error)
        }
        "advertência" | "atenção" | "ostrzeżenie" | "varování" | "upozornění" | "uyarı"
        | "figyelmeztetés" | "avertizare" | "įspėjimas" | "brīdinājums" => {
            Some(Severity::Warn)
        }
        "szczegóły" | "wyrażenie" | "podpowiedź" | "日志" | "日誌" | "로그" | "ログ"
        | "información" | "informações" | "informação" | "configuração" | "configuración"
        | "précis" | "débogage" | "depuración" | "depuração" | "depuraçao" | "informační"
        | "információ" | "ladění" | "hibakeresés" | "günlük" => Some(Severity::Other),
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
