//! Compresses the vocabulary of the tokenizer o200k. The crate of the tokenizer contains it as a
//! text of 3.6 MB.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "exact-tokens")]
    if let Err(error) = vocabulary::write() {
        println!("cargo::error=cannot compress the vocabulary: {error}");
    }
}

#[cfg(feature = "exact-tokens")]
mod vocabulary {
    use std::error::Error;
    use std::io::Write as _;

    use lzma_rust2::{LzmaOptions, LzmaWriter};

    /// Writes the file that `src/tokenizer/vocabulary.rs` reads: the lengths of all tokens in the
    /// order of their ranks, a byte each, and then their bytes.
    pub(super) fn write() -> Result<(), Box<dyn Error>> {
        let tokenizer = tiktoken_rs::o200k_base_singleton();
        let (mut lengths, mut tokens) = (Vec::new(), Vec::new());
        for rank in 0.. {
            // Special tokens follow the last rank after a gap.
            let Ok(token) = tokenizer.decode_bytes(&[rank]) else { break };
            lengths.push(u8::try_from(token.len())?);
            tokens.extend(token);
        }
        let count = u32::try_from(lengths.len())?.to_le_bytes();
        let file = [&count[..], &lengths, &tokens].concat();
        let mut options = LzmaOptions::with_preset(9);
        // Decompressing takes as much memory.
        options.dict_size = u32::try_from(file.len())?.next_power_of_two();
        let length = Some(file.len() as u64);
        let mut writer = LzmaWriter::new_use_header(Vec::new(), &options, length)?;
        writer.write_all(&file)?;
        let path = std::path::Path::new(&std::env::var("OUT_DIR")?).join("o200k.lzma");
        std::fs::write(path, writer.finish()?)?;
        Ok(())
    }
}
