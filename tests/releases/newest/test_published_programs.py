"""Published programs on the emulated device, with what `use` and `port` write and nothing else.

Their text comes from the registry when the test runs; their weights and data are made up here.
"""

from __future__ import annotations

import json
import re
import struct
import wave
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from releases.command_line import candle_rocm
from releases.cover import FULL
from releases.programs import cargo, patched_candle, published_source

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    Weights = Mapping[str, NDArray[np.float32]]

pytestmark = [pytest.mark.cargo, pytest.mark.network, FULL]


def ported(work: Path, name: str, version: str, release: str, unused: tuple[str, ...] = ()) -> Path:
    """The folder of a published crate, tied to a patched Candle, with what `port` writes.

    What is left to do by hand must lie in `unused`: the beginnings of paths that the program is not built from.
    """
    candle = patched_candle(work / "programs" / f"candle-{release}-programs", release)
    folder = work / "programs" / f"program-{name}"
    published_source(folder, name, version, release, candle)
    written = candle_rocm("port", folder, "--write")
    assert written.code == 0, written.stderr
    by_hand = [line for line in written.stdout.splitlines() if "-> by hand: " in line]
    assert [line for line in by_hand if not line.startswith(unused)] == []
    return folder


def save(file: Path, weights: Weights) -> None:
    """Writes weights in the safetensors format (https://github.com/huggingface/safetensors#format)."""
    header, place = {}, 0
    for name, values in weights.items():
        header[name] = {"dtype": "F32", "shape": values.shape, "data_offsets": (place, place + values.nbytes)}
        place += values.nbytes
    text = json.dumps(header).encode()
    with file.open("wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        for values in weights.values():
            stream.write(values.tobytes())


def made_up(shapes: Mapping[str, tuple[int, ...]]) -> Weights:
    """Weights that keep what runs through them in size: norms of 1 and a little, others by their number of inputs."""
    draw = np.random.default_rng(20261129)
    found: dict[str, Any] = {}
    for name, shape in shapes.items():
        values = draw.standard_normal(shape, dtype=np.float32)
        ones = name.endswith("weight") and len(shape) == 1
        found[name] = 1 + values / 10 if ones else values / np.float32(np.sqrt(np.prod(shape[1:]) if shape[1:] else 10))
    return found


def test_a_classifier_is_trained(work: Path, emulator: dict[str, str], tmp_path: Path) -> None:
    """candle-optimisers' example asks for a GPU with `cuda_if_available`: `port` lets it ask for ROCm's next."""
    draw = np.random.default_rng(7)
    for part, count in (("train", 500), ("t10k", 100)):
        labels = draw.integers(0, 10, count, dtype=np.uint8)
        pictures = draw.integers(0, 64, (count, 28, 28), dtype=np.uint8)
        for picture, label in zip(pictures, labels, strict=True):
            picture[2 * label + 2 : 2 * label + 6] = 250  # A bright bar whose height is the label.
        (tmp_path / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 2049, count) + labels.tobytes())
        head = struct.pack(">4I", 2051, count, 28, 28)
        (tmp_path / f"{part}-images-idx3-ubyte").write_bytes(head + pictures.tobytes())
    folder = ported(work, "candle-optimisers", "0.10.2", "0.10.2")
    options = ("linear", "--optim", "adam", "--learning-rate", "0.01", "--epochs", "20", "--local-mnist", str(tmp_path))

    done = cargo(
        folder, work / "target", "run", "--example", "mnist", "--features", "rocm", "--", *options, variables=emulator
    )

    assert "Training on device Rocm" in done.output
    steps = re.findall(r"train loss: +([\d.]+) test acc: +([\d.]+)%", done.output)
    assert len(steps) == 20
    assert float(steps[-1][0]) < float(steps[0][0]) / 2
    assert float(steps[-1][1]) > 90
    assert done.use.launches > 1000


LAYERS, WIDTH, WORDS = 2, 32, 151936


def speech_model() -> Weights:
    """An encoder of sound and a decoder of words, with the names that qwen3-asr reads."""
    sound, text, channels = "thinker.audio_tower", "thinker.model", 8
    shapes: dict[str, tuple[int, ...]] = {}

    def linear(name: str, results: int, inputs: int, *, bias: bool = True) -> None:
        shapes[f"{name}.weight"] = (results, inputs)
        if bias:
            shapes[f"{name}.bias"] = (results,)

    def norm(name: str) -> None:
        shapes[f"{name}.weight"] = shapes[f"{name}.bias"] = (WIDTH,)

    for index in (1, 2, 3):
        shapes[f"{sound}.conv2d{index}.weight"] = (channels, 1 if index == 1 else channels, 3, 3)
        shapes[f"{sound}.conv2d{index}.bias"] = (channels,)
    linear(f"{sound}.conv_out", WIDTH, channels * 16, bias=False)
    for layer in range(LAYERS):
        here = f"{sound}.layers.{layer}"
        norm(f"{here}.self_attn_layer_norm")
        norm(f"{here}.final_layer_norm")
        for each in ("q_proj", "k_proj", "v_proj", "out_proj"):
            linear(f"{here}.self_attn.{each}", WIDTH, WIDTH)
        linear(f"{here}.fc1", 2 * WIDTH, WIDTH)
        linear(f"{here}.fc2", WIDTH, 2 * WIDTH)
    norm(f"{sound}.ln_post")
    linear(f"{sound}.proj1", WIDTH, WIDTH)
    linear(f"{sound}.proj2", WIDTH, WIDTH)
    shapes[f"{text}.embed_tokens.weight"] = (WORDS, WIDTH)
    for layer in range(LAYERS):
        here = f"{text}.layers.{layer}"
        for each in ("input_layernorm", "post_attention_layernorm"):
            shapes[f"{here}.{each}.weight"] = (WIDTH,)
        linear(f"{here}.self_attn.q_proj", 32, WIDTH, bias=False)
        linear(f"{here}.self_attn.k_proj", 16, WIDTH, bias=False)
        linear(f"{here}.self_attn.v_proj", 16, WIDTH, bias=False)
        linear(f"{here}.self_attn.o_proj", WIDTH, 32, bias=False)
        for each in ("q_norm", "k_norm"):
            shapes[f"{here}.self_attn.{each}.weight"] = (8,)
        linear(f"{here}.mlp.gate_proj", 2 * WIDTH, WIDTH, bias=False)
        linear(f"{here}.mlp.up_proj", 2 * WIDTH, WIDTH, bias=False)
        linear(f"{here}.mlp.down_proj", WIDTH, 2 * WIDTH, bias=False)
    shapes[f"{text}.norm.weight"] = (WIDTH,)
    return made_up(shapes)


SPEECH_CONFIG = {
    "thinker_config": {
        "audio_config": {
            "d_model": WIDTH,
            "encoder_layers": LAYERS,
            "encoder_attention_heads": 4,
            "encoder_ffn_dim": 2 * WIDTH,
            "output_dim": WIDTH,
        },
        "text_config": {
            "hidden_size": WIDTH,
            "intermediate_size": 2 * WIDTH,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 8,
            "rope_scaling": {"mrope_section": [2, 1, 1], "mrope_interleaved": True},
        },
    }
}


def test_speech_is_recognised_as_on_the_cpu(work: Path, emulator: dict[str, str], tmp_path: Path) -> None:
    """qwen3-asr's program asks for a GPU behind its own feature: `port` gives it one for ROCm."""
    model, sounds = tmp_path / "model", tmp_path / "sounds"
    model.mkdir()
    sounds.mkdir()
    save(model / "model.safetensors", speech_model())
    (model / "config.json").write_text(json.dumps(SPEECH_CONFIG), encoding="utf-8")
    words = {f"w{index}": index for index in range(WORDS)}
    tokenizer = {"version": "1.0", "model": {"type": "WordLevel", "vocab": words, "unk_token": "w0"}}
    empty = dict.fromkeys(("truncation", "padding", "normalizer", "pre_tokenizer", "post_processor", "decoder"))
    (model / "tokenizer.json").write_text(json.dumps({**tokenizer, **empty, "added_tokens": []}), encoding="utf-8")
    times = np.arange(24000) / 16000
    tone = (8000 * np.sin(2 * np.pi * 300 * times * (1 + times))).astype("<i2")
    with wave.open(str(sounds / "rising.wav"), "wb") as file:
        file.setparams((1, 2, 16000, 0, "NONE", ""))
        file.writeframes(tone.tobytes())
    folder = ported(work, "qwen3-asr", "0.2.2", "0.9.2")
    options = ("--", "--model-dir", str(model), "--audio-dir", str(sounds))

    def heard(*features: str) -> tuple[str, str, int]:
        done = cargo(folder, work / "target", "run", "--no-default-features", *features, *options, variables=emulator)
        (device,) = re.findall(r"Device : (\w+)", done.output)
        (text,) = re.findall(r"rising\.wav +(?:[\d.]+ +){4}(.*)", done.output)
        return device, text, done.use.launches

    cpu, on_cpu, _ = heard()
    rocm, on_rocm, launches = heard("--features", "rocm")

    assert (cpu, rocm) == ("Cpu", "Rocm")
    assert re.match(r"w\d+ w\d+", on_cpu)
    assert on_rocm == on_cpu
    assert launches > 1000


SQUARES, MOVES = 61, 64


def board_model() -> Weights:
    """A model of moves on a board, with the names that candle-mi's OthelloGpt reads."""
    shapes: dict[str, tuple[int, ...]] = {f"{name}.weight": (SQUARES, WIDTH) for name in ("tok_emb", "head")}
    shapes["pos_emb.weight"] = (MOVES, WIDTH)
    norms = ["ln_f", *(f"blocks.{layer}.{each}" for layer in range(LAYERS) for each in ("ln1", "ln2"))]
    for norm in norms:
        shapes[f"{norm}.weight"] = shapes[f"{norm}.bias"] = (WIDTH,)
    for layer in range(LAYERS):
        linears = {"attn.qkv": (3, 1), "attn.proj": (1, 1), "mlp.0": (4, 1), "mlp.2": (1, 4)}
        for name, (results, inputs) in linears.items():
            shapes[f"blocks.{layer}.{name}.weight"] = (results * WIDTH, inputs * WIDTH)
            shapes[f"blocks.{layer}.{name}.bias"] = (results * WIDTH,)
    return made_up(shapes)


def test_a_board_is_filled_in_as_on_the_cpu(work: Path, emulator: dict[str, str], tmp_path: Path) -> None:
    """candle-mi's example asks for a GPU with `cuda_if_available`, and `cuda` is among the crate's default features."""
    save(tmp_path / "model.safetensors", board_model())
    sizes = {"vocab_size": SQUARES, "block_size": MOVES, "n_layer": LAYERS, "n_head": 4, "n_embd": WIDTH}
    (tmp_path / "config.json").write_text(json.dumps(sizes), encoding="utf-8")
    folder = ported(work, "candle-mi", "0.1.22", "0.11.1", ("tests/", "src/memory.rs"))
    variables = {**emulator, "OTHELLO_MDLM_DIR": str(tmp_path)}
    example = ("run", "--example", "quick_start_othello", "--no-default-features", "--features")

    def filled(*features: str) -> tuple[str, tuple[str, ...], int]:
        done = cargo(folder, work / "target", *example, ",".join(features), variables=variables)
        (device,) = re.findall(r"^OthelloGpt: .* device (\w+)", done.output, re.MULTILINE)
        told = re.findall(r"-> cell (\d+)|revealed-count progression (\[.*\])", done.output)
        return device, tuple(word for words in told for word in words if word), done.use.launches

    cpu, on_cpu, _ = filled("diffusion")
    rocm, on_rocm, launches = filled("diffusion", "rocm")

    assert (cpu, rocm) == ("Cpu", "Rocm")
    assert len(on_cpu) == 2
    assert on_rocm == on_cpu
    assert launches > 100
