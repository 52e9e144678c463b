"""The shapes of `cbwc bench infer` as transformers builds them (pip install transformers; 4.41 beside
torch 1.13), with random weights and LayerNorm. Each is a function of a batch that gives the logits
of the last position, or of the images."""
import torch
import transformers
from transformers import (BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel, OPTConfig,
                          OPTForCausalLM, PhiConfig, PhiForCausalLM, SwinConfig,
                          SwinForImageClassification, ViTConfig, ViTForImageClassification)

VERSION = "transformers " + transformers.__version__


def build(name, longest):
    if name == "gpt2_124m":
        return GPT2LMHeadModel(GPT2Config(n_positions=max(1024, longest)))
    if name == "opt_125m":
        return OPTForCausalLM(OPTConfig(max_position_embeddings=max(2048, longest)))
    if name == "phi_1":
        return PhiForCausalLM(PhiConfig(
            vocab_size=51200, hidden_size=2048, intermediate_size=8192, num_hidden_layers=24,
            num_attention_heads=32, partial_rotary_factor=0.5,
            max_position_embeddings=max(2048, longest)))
    if name == "bert_base":
        return BertForMaskedLM(BertConfig(max_position_embeddings=max(512, longest)))
    if name == "vit_b16":
        return ViTForImageClassification(ViTConfig(num_labels=1000))
    return SwinForImageClassification(SwinConfig(num_labels=1000))


# config of cbwc -> its run.name, which the rows are found by
NAMES = {"gpt2_124m": "GPT-2 124M", "bert_base": "BERT-base", "opt_125m": "OPT-125m",
         "phi_1": "Phi-1", "vit_b16": "ViT-B/16", "swin_tiny": "Swin-T"}


class Peer:
    def __init__(self, name, longest):
        torch.manual_seed(1)
        self.model = build(name, longest).eval()
        self.images = name in ("vit_b16", "swin_tiny")

    def inputs(self, batch, seq):
        if self.images:
            return torch.randn(batch, 3, 224, 224)
        return torch.randint(0, self.model.config.vocab_size, (batch, seq))

    def last_logits(self, x):
        m = self.model
        if self.images:
            return m(x).logits
        if isinstance(m, BertForMaskedLM):
            return m.cls(m.bert(x)[0][:, -1:])
        if isinstance(m, OPTForCausalLM):
            return m.lm_head(m.model(x, use_cache=False)[0][:, -1:])
        body = m.transformer if isinstance(m, GPT2LMHeadModel) else m.model
        return m.lm_head(body(x, use_cache=False)[0][:, -1:])

    def prefill(self, x):
        """The keys and values of a prompt."""
        return self.model(x, use_cache=True).past_key_values

    def next_logits(self, x, past):
        """One token more: its logits, and the keys and values with it."""
        out = self.model(x, past_key_values=past, use_cache=True)
        return out.logits[:, -1], out.past_key_values
