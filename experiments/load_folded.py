#!/usr/bin/env python3
"""Loads a model that `cbwc fold` or `cbwc export` wrote: a model of transformers, patched as modeling_note.json says.

    from load_folded import load
    model = load("FOLDER")                      # the type of the stored weights
    model = load("FOLDER", torch_dtype=torch.float64)

Run: load_folded.py FOLDER   (loads it and prints what was patched)
"""
import json
import os
import sys

import torch
import transformers


class RMSNorm(torch.nn.Module):
    """A LayerNorm's gain and bias, without its mean. Half precision is computed in float32."""

    def __init__(self, norm, eps):
        super().__init__()
        self.weight, self.bias, self.eps = norm.weight, norm.bias, eps

    def forward(self, x):
        wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        y = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight
        return (y if self.bias is None else y + self.bias).to(x.dtype)


def centre_output(module, inputs, output):
    return output - output.mean(-1, keepdim=True)


def add_row_means(module, inputs, output):
    total = inputs[0].to(module.row_means.dtype).sum(-1, keepdim=True)
    return (output + total * module.row_means).to(output.dtype)


def stored_tensor(folder, name):
    from safetensors import safe_open
    with safe_open(os.path.join(folder, "model.safetensors"), framework="pt") as file:
        return file.get_tensor(name)


def patch(model, note, folder):
    for norm in note["norms"]:
        parent, _, name = norm["module"].rpartition(".")
        old = model.get_submodule(norm["module"])
        if not isinstance(old, torch.nn.LayerNorm):
            raise ValueError(f"{norm['module']} is a {type(old).__name__}, expected a LayerNorm")
        if (old.bias is not None) != norm["bias"]:
            raise ValueError(f"{norm['module']}: bias is not as modeling_note.json says")
        setattr(model.get_submodule(parent), name, RMSNorm(old, norm["eps"]))
    for name in note["centre_output"]:
        model.get_submodule(name).register_forward_hook(centre_output)
    logits = note["logits"]
    if logits is not None:
        head = model.get_submodule(logits["module"])
        if logits["tie"] == "rank_one":
            means = stored_tensor(folder, logits["row_means"])
            narrow = head.weight.dtype in (torch.float16, torch.bfloat16)
            head.register_buffer("row_means", means if narrow else means.to(head.weight.dtype), persistent=False)
            head.register_forward_hook(add_row_means)
        elif logits["tie"] == "untie" and head.weight is model.get_input_embeddings().weight:
            raise ValueError(f"{logits['module']} shares the embedding's table, but was untied")
    return model


def load(folder, **options):
    """A model of the class that modeling_note.json names; `options` go to from_pretrained.

    A BertModel or ViTModel whose file has no pooler is built without one (add_pooling_layer=False)."""
    with open(os.path.join(folder, "modeling_note.json")) as file:
        note = json.load(file)
    if note.get("format") != "cbwc modeling note" or note.get("version") != 1:
        raise ValueError(f"{folder}: modeling_note.json is not one that this loader knows")
    if "torch_dtype" not in options and "dtype" not in options:
        options["torch_dtype"] = "auto"
    options = {**note.get("options", {}), **options}
    kind = getattr(transformers, note["architecture"])
    level = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()  # it would tell of row_means and of what is kept
    try:
        model, info = kind.from_pretrained(folder, output_loading_info=True, **options)
    finally:
        transformers.logging.set_verbosity(level)
    buffers = {name for name, _ in model.named_buffers()}  # they follow from config.json
    expected = set(note["kept"])
    if note["logits"] is not None:
        expected.add(note["logits"].get("row_means"))
    wrong = sorted(set(info["missing_keys"]) - buffers) + sorted(set(info["unexpected_keys"]) - expected)
    wrong += [str(key) for key in info["mismatched_keys"]]
    if wrong:
        raise ValueError(f"{folder}: tensors missing or not known: {wrong}")
    return patch(model, note, folder).eval()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    loaded = load(sys.argv[1])
    norms = sum(isinstance(m, RMSNorm) for m in loaded.modules())
    left = sum(isinstance(m, torch.nn.LayerNorm) for m in loaded.modules())
    print(f"{type(loaded).__name__}: {norms} RMSNorms, {left} LayerNorms, "
          f"{sum(p.numel() for p in loaded.parameters())} parameters")
