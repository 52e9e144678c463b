#!/usr/bin/env python3
"""check_folded.py ORIGINAL=FOLDED...: transformers' own model of each ORIGINAL folder against what FOLDED/load_folded.py makes of the
folder that cbwc wrote, on the same random input, in float32 and float64. Prints a line each; exit 1 when one differs.

Also checks itself: with a mean in front of one of the RMSNorms the output must differ.
Seen with torch 1.13.1 and transformers 4.41.2.
"""
import importlib.util
import json
import os
import sys

import torch
import transformers
from safetensors import safe_open

# Roundings of a small model, and a sum in another order. Weights that are stored in float32 were rounded to it.
LIMITS = {torch.float32: 1e-4, torch.float64: 1e-9}
VISIBLE = 1e-3  # what another function differs by


def loader_of(folder):
    spec = importlib.util.spec_from_file_location("load_folded", os.path.join(folder, "load_folded.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def input_for(config, dtype):
    generator = torch.Generator().manual_seed(7)
    if hasattr(config, "image_size"):
        size = config.image_size
        return {"pixel_values": torch.randn(3, config.num_channels, size, size, generator=generator, dtype=torch.float64).to(dtype)}
    tokens = min(getattr(config, "max_position_embeddings", 9), 9)
    return {"input_ids": torch.randint(config.vocab_size, (3, tokens), generator=generator)}


def outputs(model, config, dtype):
    """Logits as the head gives them (some models turn them into float32 behind it), or hidden states."""
    seen, head = [], model.get_output_embeddings()
    hook = head.register_forward_hook(lambda module, inputs, output: seen.append(output)) if head is not None else None
    single = torch.float32
    torch.set_default_dtype(dtype)
    torch.float32 = dtype  # transformers computes scores and softmax in it, whatever the model's type
    try:
        with torch.no_grad():
            out = model(**input_for(config, dtype))
    finally:
        torch.float32 = single
        torch.set_default_dtype(single)
    if hook is not None:
        hook.remove()
        return seen[-1]
    return out["logits"] if "logits" in out else out["last_hidden_state"]


def difference(a, b):
    return ((a - b).abs().max() / a.abs().max()).item()


def original(folder, config, dtype):
    kind = getattr(transformers, config.architectures[0])
    return kind.from_pretrained(folder, torch_dtype=dtype).eval()


def spoiled(model, norm):
    """The same with a mean in front of one RMSNorm, which a LayerNorm would have taken away."""
    module = model.get_submodule(norm)
    kept = module.forward
    module.forward = lambda x: kept(x + x.abs().mean())
    return model


def drawn(model, folder):
    """Parameters that are in no file: from_pretrained drew them."""
    with safe_open(os.path.join(folder, "model.safetensors"), framework="pt") as file:
        return {name for name, _ in model.named_parameters()} - set(file.keys())


def check(before, folder):
    config = transformers.AutoConfig.from_pretrained(before)
    with open(os.path.join(folder, "modeling_note.json")) as file:
        note = json.load(file)
    loader, ok = loader_of(folder), True
    stored = transformers.AutoConfig.from_pretrained(folder).torch_dtype
    for dtype in LIMITS:
        limit = LIMITS[dtype if stored == torch.float64 else torch.float32]
        want = outputs(original(before, config, dtype), config, dtype)
        model = loader.load(folder, torch_dtype=dtype)
        got = outputs(model, config, dtype)
        worst = difference(want, got)
        norms = sum(isinstance(m, loader.RMSNorm) for m in model.modules())
        moved = difference(want, outputs(spoiled(model, note["norms"][-1]["module"]), config, dtype))
        fine = worst <= limit and norms == len(note["norms"]) and moved > VISIBLE and want.shape == got.shape and not drawn(model, folder)
        ok = ok and fine
        print(f"{type(model).__name__} {str(dtype)[6:]}: {norms} RMSNorms, largest difference {worst:.2e} relative "
              f"(control {moved:.1e}){'' if fine else ': WRONG'}", flush=True)
    return ok


def main():
    transformers.logging.set_verbosity_error()
    results = [check(*pair.split("=", 1)) for pair in sys.argv[1:]]
    sys.exit(0 if results and all(results) else 1)


if __name__ == "__main__":
    main()
