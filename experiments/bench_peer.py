#!/usr/bin/env python3
"""The same shapes as `cbwc bench`, timed with PyTorch (Debian: apt-get install python3-torch).

  bench_peer.py ops   [--shapes 4096x768 ...]            the norms against a plain copy
  bench_peer.py train [--models gpt2_124m bert_base swin_tiny] [--batch N --seq N --steps 7]
                                                         a training step
  bench_peer.py infer [--shapes 1x512 ... --steps 7]     a forward pass, logits of the last position
  bench_peer.py infer --transformers [--models gpt2_124m bert_base opt_125m phi_1 vit_b16 swin_tiny]
                                                         the same with transformers' own models
  bench_peer.py decode [--shapes 1x512 ... --tokens 32]  GPT-2's next tokens after a prompt, one by
                                                         one, with transformers' past_key_values
All write the JSON rows of `cbwc bench` with --json FILE; --threads N as the program's. The training
step is forward, backward, clipping by global norm and AdamW, without dropout; the models are those
of bench_peer_models.py (default all three, at the shapes of the README), beside
`cbwc bench train gpt2_124m`, `bert_base --batch 8 --seq 128`, `swin_tiny_imagenet100 --batch 8`. Debian's torch takes
its matrix products from libblas.so.3: the output names the library and its kernels; for those of
AVX-512 set OPENBLAS_CORETYPE=SkylakeX where OpenBLAS does not choose them itself.
"""
import argparse
import ctypes
import json
import os
import resource
import statistics
import time

import torch
import torch.nn.functional as F

from bench_peer_models import MODELS, Gpt

SHAPES = ["4096x64", "4096x256", "4096x768", "4096x1024", "4096x4096", "2048x8192"]
EPS = 1e-5


def row_times(ms):
    ordered = sorted(ms)

    def quantile(q):  # linear between ranks
        at = q * (len(ordered) - 1)
        low = int(at)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (at - low) * (ordered[high] - ordered[low])

    return {"median_ms": statistics.median(ms), "p10_ms": quantile(0.1), "p90_ms": quantile(0.9)}


def loaded_blas():
    """The libraries that could serve matrix products, and OpenBLAS's kernels."""
    torch.mm(torch.ones(2, 2), torch.ones(2, 2))
    with open("/proc/self/maps", encoding="utf-8") as maps:
        paths = sorted({line.split()[-1] for line in maps if ".so" in line})
    found = [p for p in paths if any(n in os.path.basename(p) for n in ("blas", "mkl_rt", "mkl_core"))]
    core = ""
    for path in found:
        if "openblas" in os.path.basename(path):
            get = ctypes.CDLL(path).openblas_get_corename
            get.restype = ctypes.c_char_p
            core = get().decode()
    return ", ".join(os.path.basename(p) for p in found) or "inside torch", core


def cpu_name():
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        names = [line.split(":", 1)[1].strip() for line in info if line.startswith("model name")]
    return names[0] if names else "unknown"


def rms_norm(x, gamma, beta):
    # The formula with eps inside the root; torch before 2.4 has no fused one.
    if hasattr(F, "rms_norm"):
        return F.rms_norm(x, x.shape[-1:], gamma, EPS) + beta
    return gamma * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS)) + beta


def layer_norm(x, gamma, beta):
    return F.layer_norm(x, x.shape[-1:], gamma, beta, EPS)


def time_batch(run, calls):
    start = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - start) * 1e3 / calls


def bench_ops(args):
    rows = []
    for shape in args.shapes or SHAPES:
        r, c = (int(n) for n in shape.split("x"))
        x = torch.randn(r, c) + 0.5
        y, dy = torch.empty_like(x), torch.randn(r, c)
        gamma, beta = torch.randn(c) + 1, torch.randn(c)
        # Backward reads two tensors and writes one: a copy of one and a half moves as much.
        wide = torch.randn(r * c * 3 // 2)
        wide_to = torch.empty_like(wide)
        ops = {"copy": lambda: y.copy_(x), "copy_as_backward": lambda: wide_to.copy_(wide)}
        for name, norm in (("layer_norm", layer_norm), ("rms_norm", rms_norm)):
            leaves = [t.clone().requires_grad_() for t in (x, gamma, beta)]
            out = norm(*leaves)

            def forward(norm=norm):
                with torch.no_grad():
                    norm(x, gamma, beta)

            def backward(out=out, leaves=leaves):
                torch.autograd.grad(out, leaves, dy, retain_graph=True)

            ops[name + "_forward"], ops[name + "_backward"] = forward, backward
        times = {name: [] for name in ops}
        calls = {name: 1 + int(1.0 / max(time_batch(run, 3), 1e-4)) for name, run in ops.items()}
        names = list(ops)
        for repeat in range(args.repeats):
            for i in range(len(names)):
                name = names[(i + repeat) % len(names)]
                ops[name]()
                times[name].append(time_batch(ops[name], calls[name]))
        copy = statistics.median(times["copy"])
        for name in names:
            row = {"name": name, "dtype": "float32", "rows": r, "cols": c, **row_times(times[name])}
            tensors, equal = (3, "copy_as_backward") if name.endswith("backward") else (2, "copy")
            row["gb_per_s"] = tensors * x.numel() * 4 / row["median_ms"] / 1e6
            row["over_copy"] = row["median_ms"] / copy
            row["over_equal_bytes"] = row["median_ms"] / statistics.median(times[equal])
            rows.append(row)
            print(f"{name:<22} {shape:>10} {row['median_ms']:10.4f} ms {row['over_copy']:8.2f} x copy")
    return rows


NORMS = {"layernorm": layer_norm, "rmsnorm": rms_norm}


def model_row(name, model, arm, batch, seq, times):
    row = {"name": name, "model": model, "arm": arm, "batch": batch, "seq": seq, "dtype": "float32",
           **row_times(times)}
    row["samples_per_s"] = 1000 * batch / row["median_ms"]
    row["tokens_per_s"] = seq * row["samples_per_s"] if seq else None
    row["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    print(f"{model:<10} {arm:<12} {row['median_ms']:9.1f} ms  {row['samples_per_s']:7.2f} samples/s  "
          f"process peak so far {row['peak_mb']:.0f} MB", end="")
    return row


def text_shapes(args):
    shapes = args.shapes or [f"{args.batch or 1}x{args.seq or 512}"]
    return [tuple(int(n) for n in (shape + "x0").split("x")[:2]) for shape in shapes]


def timed(run):
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) * 1e3


@torch.no_grad()
def infer_rows(name, runs, batch, seq, args, by):
    """runs: arm -> one pass. Interleaved, at least --steps times and for --seconds."""
    arms = list(runs)
    times = {arm: [] for arm in arms}
    for arm in arms:
        runs[arm]()  # warms up
    start = time.perf_counter()
    repeat = 0
    while repeat < args.steps or time.perf_counter() - start < args.seconds:
        for i in range(len(arms)):
            arm = arms[(i + repeat) % len(arms)]
            times[arm].append(timed(runs[arm]))
        repeat += 1
    rows = []
    for arm in arms:
        row = {**model_row("infer", name, arm, batch, seq, times[arm]), "by": by, "repeats": repeat}
        print(f"  {batch}x{seq}" if seq else f"  {batch} images")
        rows.append(row)
    return rows


def bench_infer(args):
    shapes = text_shapes(args)
    longest = max(seq for _, seq in shapes)
    rows = []
    if not args.transformers:
        models = {}
        for arm in args.arms:
            torch.manual_seed(1)
            models[arm] = Gpt(NORMS[arm], context=max(1024, longest))
        for batch, seq in shapes:
            ids = torch.randint(0, 50257, (batch, seq))
            runs = {arm: lambda m=m: m.head(m.stream(ids)[:, -1:]) for arm, m in models.items()}
            rows += infer_rows("GPT-2 124M", runs, batch, seq, args, "torch " + torch.__version__)
        return rows
    import bench_peer_hf
    for name in args.models or bench_peer_hf.NAMES:
        peer = bench_peer_hf.Peer(name, longest)
        for batch, seq in sorted({(b, 0) for b, _ in shapes}) if peer.images else shapes:
            x = peer.inputs(batch, seq)
            rows += infer_rows(bench_peer_hf.NAMES[name], {"layernorm": lambda: peer.last_logits(x)}, batch, seq, args,
                               bench_peer_hf.VERSION)
    return rows


@torch.no_grad()
def bench_decode(args):
    import bench_peer_hf
    shapes, rows = text_shapes(args), []
    peer = bench_peer_hf.Peer("gpt2_124m", max(seq for _, seq in shapes) + args.tokens)
    for batch, seq in shapes:
        past, x, times = peer.prefill(peer.inputs(batch, seq)), peer.inputs(batch, 1), []
        for _ in range(args.tokens):
            start = time.perf_counter()
            logits, past = peer.next_logits(x, past)
            times.append((time.perf_counter() - start) * 1e3)
            x = logits.argmax(-1, keepdim=True)
        row = model_row("decode", "GPT-2 124M", "layernorm", batch, seq, times)
        row.update({"by": bench_peer_hf.VERSION, "repeats": args.tokens,
                    "tokens_per_s": row["samples_per_s"]})
        print(f"  a token after {seq}")
        rows.append(row)
    return rows


def train_times(model, batch, seq, steps):
    decayed = [p for p in model.parameters() if p.dim() > 1]
    plain = [p for p in model.parameters() if p.dim() == 1]
    optimiser = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}],
        lr=6e-4, betas=(0.9, 0.95), eps=1e-8)
    inputs = [model.batch(batch, seq) for _ in range(4)]
    times = []
    for step in range(2 + steps):  # the first two warm up
        start = time.perf_counter()
        loss = model.loss(*inputs[step % len(inputs)])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=False)
        times.append((time.perf_counter() - start) * 1e3)
    return times[2:], loss.item()


def bench_train(args):
    rows = []
    for name in args.models or MODELS:
        if name not in MODELS:
            raise SystemExit(f"bench_peer.py train: no model {name}, only {', '.join(MODELS)}")
        build, batch, seq = MODELS[name]
        batch, seq = args.batch or batch, (args.seq or seq) if seq else 0
        for arm in args.arms:
            torch.manual_seed(1)
            times, loss = train_times(build(NORMS[arm]), batch, seq, args.steps)
            row = {**model_row("train_step", name, arm, batch, seq, times), "loss": loss}
            row["step_ms"] = row["median_ms"]
            rows.append(row)
            print(f"  loss {loss:.3f}")
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["ops", "train", "infer", "decode"])
    parser.add_argument("--shapes", nargs="*")
    parser.add_argument("--arms", nargs="*", default=list(NORMS), choices=list(NORMS))
    parser.add_argument("--models", nargs="*", help="default all")
    parser.add_argument("--transformers", action="store_true", help="infer: its models, LayerNorm")
    parser.add_argument("--tokens", type=int, default=32, help="decode: timed tokens")
    parser.add_argument("--seconds", type=float, default=0, help="infer: for each shape, at least")
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--batch", type=int, help="default 4 for GPT-2, 8 for the others, infer 1")
    parser.add_argument("--seq", type=int, help="default 256 for GPT-2, 128 for BERT, infer 512")
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--json")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    blas, core = loaded_blas()
    print(f"torch {torch.__version__}, {args.threads} threads, products by {blas} {core}")
    rows = {"ops": bench_ops, "train": bench_train, "infer": bench_infer,
            "decode": bench_decode}[args.what](args)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as out:
            json.dump({"command": "bench " + args.what, "version": "torch " + torch.__version__,
                       "machine": {"cpu": cpu_name(), "threads": args.threads, "blas": blas,
                                   "blas_core": core, "device": "cpu"},
                       "config": {}, "results": {"rows": rows}}, out, indent=1)


if __name__ == "__main__":
    main()
