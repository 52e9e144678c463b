"""The models of bench_peer.py in plain PyTorch, without dropout: GPT-2 124M, BERT-base with its
masked-token head, Swin-Tiny. Each has batch(batch, seq) -> random inputs, loss(*inputs), and takes
the norm as a function (x, gamma, beta)."""
import torch
import torch.nn.functional as F

STD = 0.02


def weight(*shape):
    return torch.nn.Parameter(torch.empty(shape).normal_(0, STD))


def zeros(*shape):
    return torch.nn.Parameter(torch.zeros(shape))


class Linear(torch.nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        self.w, self.b = weight(outputs, inputs), zeros(outputs) if bias else None

    def forward(self, x):
        return F.linear(x, self.w, self.b)


class Norm(torch.nn.Module):
    def __init__(self, dim, norm):
        super().__init__()
        self.norm, self.g, self.b = norm, torch.nn.Parameter(torch.ones(dim)), zeros(dim)

    def forward(self, x):
        return self.norm(x, self.g, self.b)


def attention(q, k, v, causal=False, bias=None):
    """(..., T, head dim) each; bias (..., T, T) is added to the scores."""
    if hasattr(F, "scaled_dot_product_attention"):  # torch 2
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, is_causal=causal)
    scores = torch.matmul(q * q.shape[-1] ** -0.5, k.transpose(-2, -1))
    if bias is not None:
        scores = scores + bias
    if causal:
        t = scores.shape[-1]
        hidden = torch.ones(t, t, dtype=torch.bool).triu_(1)
        scores = scores.masked_fill_(hidden, float("-inf"))
    return torch.matmul(torch.softmax(scores, -1), v)


class Attention(torch.nn.Module):
    def __init__(self, dim, heads, causal=False):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.out = Linear(dim, 3 * dim), Linear(dim, dim)

    def forward(self, x, bias=None):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        y = attention(q, k, v, self.causal, bias)
        return self.out(y.transpose(1, 2).reshape(b, t, c))


class Mlp(torch.nn.Module):
    def __init__(self, dim, approximate):
        super().__init__()
        self.up, self.down, self.approximate = Linear(dim, 4 * dim), Linear(4 * dim, dim), approximate

    def forward(self, x):
        return self.down(F.gelu(self.up(x), approximate=self.approximate))


class Block(torch.nn.Module):
    """Pre-norm (GPT-2) or post-norm (BERT)."""

    def __init__(self, dim, heads, norm, pre, causal, approximate):
        super().__init__()
        self.pre = pre
        self.norm1, self.norm2 = Norm(dim, norm), Norm(dim, norm)
        self.attention, self.mlp = Attention(dim, heads, causal), Mlp(dim, approximate)

    def forward(self, x):
        if self.pre:
            x = x + self.attention(self.norm1(x))
            return x + self.mlp(self.norm2(x))
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.mlp(x))


class Gpt(torch.nn.Module):
    def __init__(self, norm, context=1024, vocab=50257, layers=12, dim=768, heads=12):
        super().__init__()
        self.wte, self.wpe = weight(vocab, dim), weight(context, dim)
        self.blocks = torch.nn.ModuleList(
            Block(dim, heads, norm, True, True, "tanh") for _ in range(layers))
        self.norm = Norm(dim, norm)

    def stream(self, ids):
        x = F.embedding(ids, self.wte) + self.wpe[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return x

    def head(self, x):
        return F.linear(self.norm(x), self.wte)

    def batch(self, batch, seq):
        ids = torch.randint(0, self.wte.shape[0], (batch, seq + 1))
        return ids[:, :-1], ids[:, 1:]

    def loss(self, ids, targets):
        logits = self.head(self.stream(ids))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


class Bert(torch.nn.Module):
    def __init__(self, norm, context=512, vocab=30522, layers=12, dim=768, heads=12):
        super().__init__()
        self.tokens, self.positions, self.types = weight(vocab, dim), weight(context, dim), weight(2, dim)
        self.norm = Norm(dim, norm)
        self.blocks = torch.nn.ModuleList(
            Block(dim, heads, norm, False, False, "none") for _ in range(layers))
        self.dense, self.head_norm, self.head_bias = Linear(dim, dim), Norm(dim, norm), zeros(vocab)

    def batch(self, batch, seq):
        ids = torch.randint(0, self.tokens.shape[0], (batch, seq))
        rows = torch.arange(0, batch * seq, 6)  # as many as `cbwc bench train` masks
        return ids, rows, ids.view(-1)[rows]

    def loss(self, ids, rows, targets):
        x = F.embedding(ids, self.tokens) + self.positions[: ids.shape[1]]
        x = self.norm(x + F.embedding(torch.zeros_like(ids), self.types))
        for block in self.blocks:
            x = block(x)
        x = self.head_norm(F.gelu(self.dense(x.reshape(-1, x.shape[-1])[rows])))
        return F.cross_entropy(F.linear(x, self.tokens, self.head_bias), targets)


def to_windows(x, w):
    b, h, width, c = x.shape
    x = x.view(b, h // w, w, width // w, w, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, c)


def from_windows(x, w, b, side):
    x = x.view(b, side // w, side // w, w, w, -1)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(b, side, side, -1)


class SwinBlock(torch.nn.Module):
    """Pre-norm, attention in windows of w x w that are shifted by `shift`; maps of side x side."""

    def __init__(self, dim, heads, side, w, shift, norm):
        super().__init__()
        self.side, self.w, self.shift = side, w, shift
        self.norm1, self.norm2 = Norm(dim, norm), Norm(dim, norm)
        self.attention, self.mlp = Attention(dim, heads), Mlp(dim, "none")
        self.table = weight((2 * w - 1) ** 2, heads)
        at = torch.stack(torch.meshgrid(torch.arange(w), torch.arange(w), indexing="ij")).flatten(1)
        apart = at[:, :, None] - at[:, None, :] + w - 1
        self.register_buffer("index", apart[0] * (2 * w - 1) + apart[1])
        self.register_buffer("mask", self.shift_mask() if shift else None)

    def shift_mask(self):
        part = torch.zeros(1, self.side, self.side, 1)
        cuts = (slice(0, -self.w), slice(-self.w, -self.shift), slice(-self.shift, None))
        for i, rows in enumerate(cuts):
            for j, cols in enumerate(cuts):
                part[:, rows, cols] = 3 * i + j
        part = to_windows(part, self.w).squeeze(-1)
        return (part[:, :, None] != part[:, None, :]).float().mul_(-1e9)

    def forward(self, x):
        b = x.shape[0]
        h = self.norm1(x)
        if self.shift:
            h = torch.roll(h, (-self.shift, -self.shift), (1, 2))
        bias = self.table[self.index].permute(2, 0, 1)[None]  # (1, heads, T, T)
        if self.mask is not None:
            bias = (bias + self.mask[:, None]).repeat(b, 1, 1, 1)
        h = from_windows(self.attention(to_windows(h, self.w), bias), self.w, b, self.side)
        if self.shift:
            h = torch.roll(h, (self.shift, self.shift), (1, 2))
        x = x + h
        return x + self.mlp(self.norm2(x))


class Swin(torch.nn.Module):
    def __init__(self, norm, image=224, patch=4, dim=96, depths=(2, 2, 6, 2), heads=(3, 6, 12, 24),
                 window=7, classes=100):
        super().__init__()
        self.image, self.patch, self.classes = image, patch, classes
        self.embed, self.embed_bias = weight(dim, 3, patch, patch), zeros(dim)
        self.patch_norm = Norm(dim, norm)
        self.stages, self.merges = torch.nn.ModuleList(), torch.nn.ModuleList()
        side = image // patch
        for stage, (depth, h) in enumerate(zip(depths, heads)):
            if stage > 0:
                self.merges.append(torch.nn.Sequential(Norm(4 * dim, norm), Linear(4 * dim, 2 * dim, False)))
                side, dim = side // 2, 2 * dim
            self.stages.append(torch.nn.Sequential(*(
                SwinBlock(dim, h, side, window, window // 2 if i % 2 and side > window else 0, norm)
                for i in range(depth))))
        self.norm, self.head = Norm(dim, norm), Linear(dim, classes)

    def batch(self, batch, _):
        return torch.randn(batch, 3, self.image, self.image), torch.randint(0, self.classes, (batch,))

    def loss(self, images, targets):
        x = F.conv2d(images, self.embed, self.embed_bias, stride=self.patch)
        x = self.patch_norm(x.permute(0, 2, 3, 1))
        for stage, blocks in enumerate(self.stages):
            if stage > 0:
                x = torch.cat([x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)], -1)
                x = self.merges[stage - 1](x)
            x = blocks(x)
        return F.cross_entropy(self.head(self.norm(x).mean((1, 2))), targets)


# name -> class, batch and tokens of `cbwc bench train`'s measured rows (no tokens: images)
MODELS = {"gpt2_124m": (Gpt, 4, 256), "bert_base": (Bert, 8, 128), "swin_tiny": (Swin, 8, 0)}
