#!/usr/bin/env python3
"""The same shapes as `cbwc bench`, timed with PyTorch (Debian: apt-get install python3-torch).

  bench_peer.py ops   [--shapes 4096x768 ...]            the norms against a plain copy
  bench_peer.py train [--batch 4 --seq 256 --steps 7]    a training step of GPT-2 124M
Both write the JSON rows of `cbwc bench` with --json FILE; --threads N as the program's.
The training step is forward, backward, clipping by global norm and AdamW, without dropout.
"""
import argparse
import json
import os
import platform
import statistics
import time

import torch
import torch.nn.functional as F

SHAPES = ["4096x64", "4096x256", "4096x768", "4096x1024", "4096x4096", "2048x8192"]
EPS = 1e-5


def row_times(ms):
    ordered = sorted(ms)
    pick = lambda q: ordered[min(len(ordered) - 1, int(q * len(ordered)))]
    return {"median_ms": statistics.median(ms), "p10_ms": pick(0.1), "p90_ms": pick(0.9)}


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
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
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

    def loss(self, ids, targets):
        x = self.wte[ids] + self.wpe[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x, self.g, self.b), self.wte)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


def bench_train(args):
    import resource

    rows = []
    for arm, norm in (("layernorm", layer_norm), ("rmsnorm", rms_norm)):
        if arm not in args.arms:
            continue
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
        row = {"name": "train_step", "arm": arm, "batch": args.batch, "seq": args.seq,
               "dtype": "float32", **row_times(times)}
        row["step_ms"] = row["median_ms"]
        row["tokens_per_s"] = 1000 * args.batch * args.seq / row["median_ms"]
        row["loss"] = loss.item()
        row["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
        rows.append(row)
        print(f"{arm:<12} {row['median_ms']:9.1f} ms  {row['tokens_per_s']:7.0f} tokens/s  "
              f"process peak {row['peak_mb']:.0f} MB  loss {row['loss']:.3f}")
        del model, optimiser, decayed, plain
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["ops", "train"])
    parser.add_argument("--shapes", nargs="*")
    parser.add_argument("--arms", nargs="*", default=["layernorm", "rmsnorm"])
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--seq", type=int, default=256)
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--json")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    rows = bench_ops(args) if args.what == "ops" else bench_train(args)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as out:
            json.dump({"command": "bench " + args.what, "version": "torch " + torch.__version__,
                       "machine": {"cpu": platform.processor(), "threads": args.threads,
                                   "device": "cpu"},
                       "config": {}, "results": {"rows": rows}}, out, indent=1)


if __name__ == "__main__":
    main()
