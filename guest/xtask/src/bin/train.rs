//! Computes the tables of the `lexical` estimator from a folder of text, and evaluates them. Called
//! by `cargo xtask train`.
#![allow(clippy::print_stderr, reason = "a command line tool")]

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::{Parser, ValueEnum};
use context_guard_core::tokens::lexical::train::{TABLE_BYTES, Trainer, characters, estimate_with};
use context_guard_core::tokens::vocabulary::train::{Strings, short_tokens, vocabulary};
use tiktoken_rs::CoreBPE;

/// The tokenizer that the tables approximate.
#[derive(Clone, Copy, ValueEnum)]
enum Tokenizer {
    O200k,
    Cl100k,
}

/// Computes the tables of the `lexical` estimator from a folder of text, or from the tokenizer.
#[derive(Parser)]
struct Arguments {
    /// A folder. Every UTF-8 file at any depth counts. Without it, the greatest costs of characters
    /// are computed, which depend on the tokenizer alone.
    #[arg(long)]
    texts: Option<PathBuf>,
    /// Write the ranks of the tokens, with which the tokens of short texts are counted. The texts
    /// show which strings must not be taken for tokens.
    #[arg(long)]
    ranks: bool,
    /// The tokenizer that the tables approximate.
    #[arg(long, value_enum, default_value = "o200k")]
    tokenizer: Tokenizer,
    /// The file to write.
    #[arg(long)]
    out: PathBuf,
    /// Fail unless this percentage of the other texts is estimated within a tenth.
    #[arg(long, default_value_t = 0)]
    least: usize,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let tokenizer = match arguments.tokenizer {
        Tokenizer::O200k => tiktoken_rs::o200k_base_singleton(),
        Tokenizer::Cl100k => tiktoken_rs::cl100k_base_singleton(),
    };
    let Some(folder) = &arguments.texts else {
        if arguments.ranks {
            return write_ranks(tokenizer, arguments.tokenizer, &[], &arguments.out);
        }
        let file = characters_of(tokenizer, arguments.tokenizer);
        return std::fs::write(&arguments.out, file)
            .with_context(|| arguments.out.display().to_string());
    };
    let mut texts = Vec::new();
    read(folder, &mut texts)?;
    ensure!(texts.len() >= 2, "{} holds fewer than two texts", folder.display());
    texts.sort();
    if arguments.ranks {
        return write_ranks(tokenizer, arguments.tokenizer, &texts, &arguments.out);
    }
    // Every fifth text is left out: texts that the tables were made from prove nothing.
    let mut trainer = Trainer::default();
    let mut bytes = 0;
    for (_, text) in texts.iter().enumerate().filter(|(at, _)| at % 5 != 4) {
        trainer.add(text.as_bytes(), &starts(tokenizer, text));
        bytes += text.len();
    }
    let tables = trainer.tables();
    let Ok(file) = <[u8; TABLE_BYTES]>::try_from(tables.as_slice()) else {
        bail!("the tables have {} bytes, not {TABLE_BYTES}", tables.len())
    };
    std::fs::write(&arguments.out, file).with_context(|| arguments.out.display().to_string())?;
    let file: &'static [u8; TABLE_BYTES] = Box::leak(Box::new(file));
    let (mut judged, mut within_tenth, mut within_fifth) = (0usize, 0usize, 0usize);
    for (_, text) in texts.iter().enumerate().filter(|(at, _)| at % 5 == 4) {
        let real = tokenizer.encode_ordinary(text).len() as u64;
        let off = estimate_with(file, text.as_bytes()).abs_diff(real);
        judged += 1;
        within_tenth += usize::from(off * 10 <= real);
        within_fifth += usize::from(off * 5 <= real);
    }
    eprintln!(
        "{}: {TABLE_BYTES} bytes from {} texts of {bytes} bytes. Of {judged} others, \
         {within_tenth} are estimated within 10 %, {within_fifth} within 20 %.",
        arguments.out.display(),
        texts.len() - judged
    );
    ensure!(
        within_tenth * 100 >= judged * arguments.least,
        "fewer than {} of 100 are within 10 %",
        arguments.least
    );
    Ok(())
}

/// Returns the tokens of a tokenizer in the order of their ranks.
fn vocabulary_of(tokenizer: &CoreBPE, name: Tokenizer) -> impl Iterator<Item = Vec<u8>> {
    let tokens = match name {
        Tokenizer::O200k => 199_998,
        Tokenizer::Cl100k => 100_256,
    };
    (0..tokens).filter_map(|token| tokenizer.decode_bytes(&[token]).ok())
}

/// Writes the file of the ranks of tokens, and NAME-short.bin beside it.
fn write_ranks(tokenizer: &CoreBPE, name: Tokenizer, texts: &[String], out: &Path) -> Result<()> {
    let tokens: Vec<_> = vocabulary_of(tokenizer, name).zip(0..).collect();
    let mut strings = Strings::default();
    for text in texts {
        strings.add(text.as_bytes());
    }
    let none = "no seed separates the tokens";
    let short =
        out.with_file_name(format!("{}-short.bin", out.file_stem().unwrap_or_default().display()));
    std::fs::write(&short, short_tokens(&tokens).context(none)?)
        .with_context(|| short.display().to_string())?;
    std::fs::write(out, vocabulary(&tokens, &strings).context(none)?)
        .with_context(|| out.display().to_string())
}

/// Returns the file of the greatest costs of characters under a tokenizer.
fn characters_of(tokenizer: &CoreBPE, name: Tokenizer) -> Vec<u8> {
    // The sizes of sets in which at most a seventh of the bits is in use.
    let set_bytes = match name {
        Tokenizer::O200k => 1 << 16,
        Tokenizer::Cl100k => 1 << 13,
    };
    let vocabulary = vocabulary_of(tokenizer, name);
    characters(|text| tokenizer.encode_ordinary(text).len(), vocabulary, set_bytes)
}

/// Returns for each byte of a text true if a token begins there.
fn starts(tokenizer: &CoreBPE, text: &str) -> Vec<bool> {
    let mut starts = vec![false; text.len()];
    let mut at = 0;
    for token in tokenizer.encode_ordinary(text) {
        if let Some(start) = starts.get_mut(at) {
            *start = true;
        }
        at += tokenizer.decode_bytes(&[token]).map_or(0, |bytes| bytes.len());
    }
    starts
}

fn read(folder: &Path, texts: &mut Vec<String>) -> Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            read(&path, texts)?;
        } else if let Ok(text) = std::fs::read_to_string(&path)
            && !text.is_empty()
        {
            texts.push(text);
        }
    }
    Ok(())
}
