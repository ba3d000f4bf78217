"""Make the two models of the real vLLM tests; runs inside the environment that has vLLM.

`python make_models.py WEIGHTS.gguf OUT TEMPLATE` writes `OUT/text`, SmolLM2-135M-Instruct, and `OUT/all`, the same
language model behind a tiny Idefics3 vision tower (of the models vLLM can load without torchvision, the smallest to
set up). The tower's weights are random but for its last layer, which is solved for in closed form: a plain picture
becomes the vector of its colour's word. So the model really sees six colours, and tests can assert that images
arrive, and in which order. A second run gives the same bytes.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    Idefics3Config,
    Idefics3ForConditionalGeneration,
    LlamaConfig,
    LlamaForCausalLM,
)

NEW_NAMES = {
    3: ("<image>", True),
    4: ("<think>", False),
    5: ("</think>", False),
    6: ("<fake_token_around_image>", True),
    7: ("<end_of_utterance>", True),
    8: ("<global-img>", True),
}
"""Reserved tokens of SmolLM2 that get a new name, so that nothing is resized; `True` means not printed."""

MEANINGS = {4: " Thought", 5: "\n\n", 6: "\n", 8: " picture"}
"""A renamed token starts as half of a known word's vector: read like the word, hardly ever written for it."""

COLOURS = {
    " red": (255, 0, 0),
    " green": (0, 160, 0),
    " blue": (0, 0, 255),
    " yellow": (255, 255, 0),
    " white": (255, 255, 255),
    " black": (0, 0, 0),
}
SHADES = 48
"""How many shades of each colour the last layer is fitted to."""

VISION = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 32,
    "patch_size": 8,
    "initializer_range": 0.2,
}
PROCESSOR = {"processor_class": "Idefics3Processor", "image_seq_len": 4}
IMAGE_PROCESSOR = {
    "image_processor_type": "Idefics3ImageProcessor",
    "processor_class": "Idefics3Processor",
    "do_convert_rgb": True,
    "do_resize": True,
    "size": {"longest_edge": 32},
    "max_image_size": {"longest_edge": 32},
    "resample": 1,
    "do_image_splitting": False,
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": [0.5] * 3,
    "image_std": [0.5] * 3,
    "do_pad": True,
}


def main(weights: Path, out: Path, template: str) -> None:
    """Write both models."""
    torch.set_grad_enabled(False)  # the vectors are set, not trained
    source = {"pretrained_model_name_or_path": weights.parent, "gguf_file": weights.name}
    tokenizer = AutoTokenizer.from_pretrained(**source)
    language_model = load_language_model(source)
    give_new_tokens_a_meaning(language_model, tokenizer)
    save(language_model, tokenizer, template, out / "text")
    save(make_seeing_model(language_model, tokenizer), tokenizer, template, out / "all")
    (out / "all" / "processor_config.json").write_text(json.dumps(PROCESSOR))
    (out / "all" / "preprocessor_config.json").write_text(json.dumps(IMAGE_PROCESSOR))


def load_language_model(source: dict[str, Any]) -> LlamaForCausalLM:
    """Return SmolLM2 as a fresh model: one loaded from a GGUF file refuses to be saved."""
    loaded = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.bfloat16)
    settings = loaded.config.to_dict()
    for foreign in ("quantization_config", "_name_or_path"):
        settings.pop(foreign, None)
    model = LlamaForCausalLM(LlamaConfig(**settings)).to(torch.bfloat16)
    model.load_state_dict(loaded.state_dict())
    return model


def token_id(tokenizer: Any, word: str) -> int:
    """Return the id of a word that is one token."""
    (only,) = tokenizer(word, add_special_tokens=False)["input_ids"]
    return int(only)


def give_new_tokens_a_meaning(model: LlamaForCausalLM, tokenizer: Any) -> None:
    """Set the vectors of the renamed tokens."""
    table = model.get_input_embeddings().weight
    for new, word in MEANINGS.items():
        table[new] = table[token_id(tokenizer, word)] / 2


def make_seeing_model(
    language_model: LlamaForCausalLM, tokenizer: Any
) -> Idefics3ForConditionalGeneration:
    """Put a vision tower that knows the six colours before the language model."""
    torch.manual_seed(0)
    config = Idefics3Config(
        text_config=language_model.config.to_dict(),
        vision_config=VISION,
        image_token_id=3,
        pad_token_id=2,
        tie_word_embeddings=True,
        scale_factor=2,
    )
    model = Idefics3ForConditionalGeneration(config).float()
    model.model.text_model.load_state_dict(language_model.model.state_dict())
    teach_colours(model, tokenizer)
    return model.to(torch.bfloat16)


def teach_colours(model: Idefics3ForConditionalGeneration, tokenizer: Any) -> None:
    """Solve the tower's last layer so that each colour becomes four times its word."""
    table = model.model.text_model.get_input_embeddings().weight
    noise = torch.Generator().manual_seed(1)
    pixels, words = [], []
    for word, rgb in COLOURS.items():
        for _ in range(SHADES):
            colour = torch.tensor(rgb).float() + 20 * torch.randn(3, generator=noise)
            pixels.append((colour.clamp(0, 255) / 127.5 - 1).view(3, 1, 1).expand(3, 32, 32))
            words.append(table[token_id(tokenizer, word)].float())
    states = model.model.vision_model(torch.stack(pixels)).last_hidden_state
    features = model.model.connector.pixel_shuffle(states, 2)
    target = torch.stack(words).repeat_interleave(features.shape[1], 0).double()
    features = features.flatten(0, 1).double()
    ridge = torch.eye(features.shape[1]).double()
    weight = torch.linalg.solve(features.T @ features + ridge, features.T @ target)
    model.model.connector.modality_projection.proj.weight.copy_(weight.T)


def save(model: Any, tokenizer: Any, template: str, folder: Path) -> None:
    """Write a model with the tokenizer's new names and the chat template."""
    model.config._name_or_path = ""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text())
    vocabulary = content["model"]["vocab"]
    for token in content["added_tokens"]:
        if token["id"] in NEW_NAMES:
            old = token["content"]
            token["content"], token["special"] = NEW_NAMES[token["id"]]
            vocabulary[token["content"]] = vocabulary.pop(old)
    path.write_text(json.dumps(content, ensure_ascii=False))
    (folder / "chat_template.jinja").write_text(template)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]).read_text())
