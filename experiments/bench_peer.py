#!/usr/bin/env python3
"""The same shapes as `cbwc bench`, timed with PyTorch (Debian: apt-get install python3-torch).

  bench_peer.py ops   [--shapes 4096x768 ...]            the norms against a plain copy
  bench_peer.py train [--batch 4 --seq 256 --steps 7]    a training step of GPT-2 124M
  bench_peer.py infer [--batch 1 --seq 512 --steps 7]    its forward pass, logits of the last position
All write the JSON rows of `cbwc bench` with --json FILE; --threads N as the program's. The training
step is forward, backward, clipping by global norm and AdamW, without dropout. Debian's torch takes
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


def causal_attention(q, k, v):
    if hasattr(F, "scaled_dot_product_attention"):  # torch 2
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    scores = torch.matmul(q * q.shape[-1] ** -0.5, k.transpose(-2, -1))
    t = scores.shape[-1]
    hidden = torch.ones(t, t, dtype=torch.bool).triu_(1)
    return torch.matmul(torch.softmax(scores.masked_fill_(hidden, float("-inf")), -1), v)


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


class Block(torch.nn.Module):
    def __init__(self, dim, heads, norm):
        super().__init__()
        self.heads, self.norm = heads, norm
        shapes = {"g1": (dim,), "b1": (dim,), "g2": (dim,), "b2": (dim,),
                  "wqkv": (3 * dim, dim), "bqkv": (3 * dim,), "wo": (dim, dim), "bo": (dim,),
                  "wu": (4 * dim, dim), "bu": (4 * dim,), "wd": (dim, 4 * dim), "bd": (dim,)}
        for name, shape in shapes.items():
            value = torch.ones(shape) if name[0] == "g" else torch.zeros(shape)
            if name[0] == "w":
                value.normal_(0, 0.02)
            setattr(self, name, torch.nn.Parameter(value))

    def forward(self, x):
        b, t, c = x.shape
        h = self.norm(x, self.g1, self.b1)
        qkv = F.linear(h, self.wqkv, self.bqkv).view(b, t, 3, self.heads, c // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        a = causal_attention(q, k, v)
        x = x + F.linear(a.transpose(1, 2).reshape(b, t, c), self.wo, self.bo)
        h = F.linear(self.norm(x, self.g2, self.b2), self.wu, self.bu)
        return x + F.linear(F.gelu(h, approximate="tanh"), self.wd, self.bd)


class Gpt(torch.nn.Module):
    def __init__(self, norm, vocab=50257, layers=12, dim=768, heads=12, context=1024):
        super().__init__()
        self.norm = norm
        self.wte = torch.nn.Parameter(torch.empty(vocab, dim).normal_(0, 0.02))
        self.wpe = torch.nn.Parameter(torch.empty(context, dim).normal_(0, 0.02))
        self.blocks = torch.nn.ModuleList(Block(dim, heads, norm) for _ in range(layers))
        self.g = torch.nn.Parameter(torch.ones(dim))
        self.b = torch.nn.Parameter(torch.zeros(dim))

    def stream(self, ids):
        x = F.embedding(ids, self.wte) + self.wpe[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return x

    def head(self, x):
        return F.linear(self.norm(x, self.g, self.b), self.wte)

    def loss(self, ids, targets):
        logits = self.head(self.stream(ids))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


NORMS = {"layernorm": layer_norm, "rmsnorm": rms_norm}


def model_row(name, arm, args, times):
    row = {"name": name, "arm": arm, "batch": args.batch, "seq": args.seq, "dtype": "float32",
           **row_times(times)}
    row["tokens_per_s"] = 1000 * args.batch * args.seq / row["median_ms"]
    row["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    print(f"{arm:<12} {row['median_ms']:9.1f} ms  {row['tokens_per_s']:7.0f} tokens/s  "
          f"process peak so far {row['peak_mb']:.0f} MB", end="")
    return row


@torch.no_grad()
def bench_infer(args):
    models = {}
    for arm in args.arms:
        torch.manual_seed(1)
        models[arm] = Gpt(NORMS[arm], context=max(1024, args.seq))
    ids = torch.randint(0, 50257, (args.batch, args.seq))
    times = {arm: [] for arm in args.arms}
    for repeat in range(1 + args.steps):  # the first one warms up
        for i in range(len(args.arms)):
            arm = args.arms[(i + repeat) % len(args.arms)]
            start = time.perf_counter()
            models[arm].head(models[arm].stream(ids)[:, -1:])
            times[arm].append((time.perf_counter() - start) * 1e3)
    rows = []
    for arm in args.arms:
        rows.append({**model_row("infer", arm, args, times[arm][1:]), "model": "GPT-2 124M"})
        print()
    return rows


def bench_train(args):
    rows = []
    for arm in args.arms:
        norm = NORMS[arm]
        torch.manual_seed(1)
        model = Gpt(norm)
        decayed = [p for p in model.parameters() if p.dim() > 1]
        plain = [p for p in model.parameters() if p.dim() == 1]
        optimiser = torch.optim.AdamW(
            [{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}],
            lr=6e-4, betas=(0.9, 0.95), eps=1e-8)
        times = []
        for step in range(2 + args.steps):
            ids = torch.randint(0, 50257, (args.batch, args.seq + 1))
            start = time.perf_counter()
            loss = model.loss(ids[:, :-1], ids[:, 1:])
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            optimiser.zero_grad(set_to_none=False)
            if step >= 2:
                times.append((time.perf_counter() - start) * 1e3)
        row = model_row("train_step", arm, args, times)
        row["step_ms"] = row["median_ms"]
        row["loss"] = loss.item()
        rows.append(row)
        print(f"  loss {row['loss']:.3f}")
        del model, optimiser, decayed, plain
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["ops", "train", "infer"])
    parser.add_argument("--shapes", nargs="*")
    parser.add_argument("--arms", nargs="*", default=list(NORMS), choices=list(NORMS))
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--batch", type=int, help="default 4, infer 1")
    parser.add_argument("--seq", type=int, help="default 256, infer 512")
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--json")
    args = parser.parse_args()
    args.batch = args.batch or (1 if args.what == "infer" else 4)
    args.seq = args.seq or (512 if args.what == "infer" else 256)
    torch.set_num_threads(args.threads)
    blas, core = loaded_blas()
    print(f"torch {torch.__version__}, {args.threads} threads, products by {blas} {core}")
    rows = {"ops": bench_ops, "train": bench_train, "infer": bench_infer}[args.what](args)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as out:
            json.dump({"command": "bench " + args.what, "version": "torch " + torch.__version__,
                       "machine": {"cpu": cpu_name(), "threads": args.threads, "blas": blas,
                                   "blas_core": core, "device": "cpu"},
                       "config": {}, "results": {"rows": rows}}, out, indent=1)


if __name__ == "__main__":
    main()
