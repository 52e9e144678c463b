// The one table of keys. A new key is a member of Config and a line here.
#include <limits>

#include "experiments/config.h"

namespace cbwc {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kMaxInt = 9e15;  // exact in a double
constexpr double kMax32 = 2147483647;

// clang-format off
#define CBWC_FIELD(member) [](Config& c) -> KeyField { return &c.member; }

std::vector<ConfigKey> run_keys() {
  const std::string s = "run";
  return {
    {s, "name", CBWC_FIELD(run.name), "", "title in reports; empty: the file's name", 0, 0, {}, false, "title"},
    {s, "steps", CBWC_FIELD(run.steps), "steps", "optimiser steps of one run", 1, kMaxInt, {}, false, "max_steps"},
    {s, "seeds", CBWC_FIELD(run.seeds), "", "one run each: initial numbers, data order and dropout follow from the seed (train uses the first)", 0, kMaxInt, {}, false, "seed"},
    {s, "out", CBWC_FIELD(run.out), "path", "run directory; --out replaces it; empty: runs/NAME", 0, 0, {}, false, "output_dir"},
    {s, "init", CBWC_FIELD(run.init), "path", "start from the weights of this run or folded model, with fresh optimiser moments; --init replaces it; empty: fresh weights", 0, 0, {}, false, "init_from"},
    {s, "pretrain", CBWC_FIELD(run.pretrain), "config", "train this config first, in the same arm and with the same seed (in RUN_pretrain), and start from its weights; empty: none", 0, 0, {}, false, ""},
    {s, "log_every", CBWC_FIELD(run.log_every), "steps", "a row of metrics.csv every so many steps", 1, kMaxInt, {}, false, "log_interval"},
    {s, "eval_every", CBWC_FIELD(run.eval_every), "steps", "validation every so many steps and at the end; 0: only at the end", 0, kMaxInt, {}, false, "eval_interval"},
    {s, "eval_batches", CBWC_FIELD(run.eval_batches), "batches", "batches of the evaluation split used; 0: all of it", 0, kMaxInt, {}, false, "eval_iters"},
    {s, "checkpoint_every", CBWC_FIELD(run.checkpoint_every), "steps", "a checkpoint every so many steps and at the end; 0: only at the end", 0, kMaxInt, {}, false, "save_every"},
    {s, "keep_checkpoints", CBWC_FIELD(run.keep_checkpoints), "files", "older checkpoints beyond this number are deleted", 1, kMaxInt, {}, false, "save_total_limit"},
    {s, "early_stop_metric", CBWC_FIELD(run.early_stop_metric), "", "stop when this has not improved", 0, 0, {"none", "val_loss", "train_loss"}, false, "early_stopping"},
    {s, "early_stop_patience", CBWC_FIELD(run.early_stop_patience), "evaluations", "evaluations without improvement before stopping", 1, kMaxInt, {}, false, "patience"},
    {s, "norm_stats", CBWC_FIELD(run.norm_stats), "", "write norm_stats.csv at each logged step", 0, 0, {}, false, ""},
    {s, "attention_stats", CBWC_FIELD(run.attention_stats), "", "write attention.csv: the largest attention logit of each block", 0, 0, {}, false, ""},
    {s, "grad_depth", CBWC_FIELD(run.grad_depth), "", "write grad_depth.csv: the gradient norm of each module", 0, 0, {}, false, ""},
    {s, "bleu_samples", CBWC_FIELD(run.bleu_samples), "sentences", "encoder_decoder: sentences of the evaluation split translated for BLEU at the end of a run; 0: none", 0, kMaxInt, {}, false, ""},
    {s, "beam", CBWC_FIELD(run.beam), "hypotheses", "encoder_decoder: width of the beam when translating; 1: greedy", 1, 1000, {}, false, "num_beams"},
  };
}

std::vector<ConfigKey> model_keys() {
  const std::string s = "model";
  return {
    {s, "family", CBWC_FIELD(model.family), "", "kind of model; linear, mlp and bag_of_words are simple classifiers without a norm", 0, 0, {"gpt", "opt", "phi", "bloom", "bert", "vit", "swin", "encoder_decoder", "linear", "mlp", "bag_of_words"}, false, "type"},
    {s, "layers", CBWC_FIELD(model.layers), "blocks", "Transformer blocks", 1, 10000, {}, false, "n_layer"},
    {s, "dim", CBWC_FIELD(model.dim), "channels", "width of the residual stream; a multiple of heads", 1, 1e6, {}, false, "n_embd"},
    {s, "heads", CBWC_FIELD(model.heads), "heads", "attention heads", 1, 1e6, {}, false, "n_head"},
    {s, "context", CBWC_FIELD(model.context), "tokens", "positions, and tokens per training sample", 1, 1e7, {}, false, "block_size"},
    {s, "vocab", CBWC_FIELD(model.vocab), "tokens", "rows of the embedding; 0: the data file's vocabulary", 0, kMax32, {}, false, "vocab_size"},
    {s, "norm", CBWC_FIELD(model.norm), "", "the arm", 0, 0, {"layernorm", "rmsnorm", "cbwc_rmsnorm", "none", "cbwc_projected"}, false, "normalization"},
    {s, "norm_eps", CBWC_FIELD(model.norm_eps), "", "added to the mean square inside the root, in every norm of every arm", 0, 1, {}, true, "layer_norm_eps"},
    {s, "norm_bias", CBWC_FIELD(model.norm_bias), "", "norms have a bias, in every arm", 0, 0, {}, false, ""},
    {s, "placement", CBWC_FIELD(model.placement), "", "norm before each branch or after each residual sum", 0, 0, {"pre", "post"}, false, "norm_placement"},
    {s, "qk_norm", CBWC_FIELD(model.qk_norm), "", "norm of each head's queries and keys; not touched by the arm", 0, 0, {"none", "rmsnorm", "layernorm"}, false, ""},
    {s, "tied_head", CBWC_FIELD(model.tied_head), "", "the head uses the token embedding's parameter", 0, 0, {}, false, "tie_word_embeddings"},
    {s, "folded_tie", CBWC_FIELD(model.folded_tie), "", "what `cbwc fold` left of a tied head: rank_one adds sum(h) times each table row's lost mean to its logit, runtime centres the token rows at run time", 0, 0, {"none", "rank_one", "runtime"}, false, ""},
    {s, "gelu", CBWC_FIELD(model.gelu), "", "form of the GELU", 0, 0, {"tanh", "erf"}, false, "activation"},
    {s, "dropout", CBWC_FIELD(model.dropout), "probability", "on each branch and on the embedding sum", 0, 0.999, {}, false, "resid_pdrop"},
    {s, "attention_dropout", CBWC_FIELD(model.attention_dropout), "probability", "on attention probabilities", 0, 0.999, {}, false, "attn_pdrop"},
    {s, "dropout_placement", CBWC_FIELD(model.dropout_placement), "", "where model.dropout acts", 0, 0, {"element", "before_projection", "path", "centred"}, false, ""},
    {s, "dtype", CBWC_FIELD(model.dtype), "", "type of weights and activations", 0, 0, {"float32", "float64"}, false, "precision"},
    {s, "init_std", CBWC_FIELD(model.init_std), "", "standard deviation of initial weights (residual projections: / sqrt(2 layers))", 0, 10, {}, true, "initializer_range"},
    {s, "classes", CBWC_FIELD(model.classes), "classes", "outputs of a classifier; 0: the data file's classes", 0, kMax32, {}, false, "num_classes"},
    {s, "decoder_layers", CBWC_FIELD(model.decoder_layers), "blocks", "encoder_decoder: blocks of the decoder; 0: as many as layers", 0, 10000, {}, false, ""},
    {s, "mlp_ratio", CBWC_FIELD(model.mlp_ratio), "", "hidden width of the MLP over the stream's", 0, 1000, {}, true, "intermediate_size"},
    {s, "drop_path", CBWC_FIELD(model.drop_path), "probability", "vit, swin: a whole branch of a sample is dropped; rises linearly from 0 in the first block to this in the last", 0, 0.999, {}, false, "stochastic_depth"},
    {s, "rotary", CBWC_FIELD(model.rotary), "", "phi: part of each head's channels that is rotated", 0, 1, {}, false, "partial_rotary_factor"},
    {s, "token_types", CBWC_FIELD(model.token_types), "kinds", "bert: kinds of token, rows of their table; the second of two texts is kind 1", 1, 65536, {}, false, "type_vocab_size"},
    {s, "task", CBWC_FIELD(model.task), "", "bert: predict masked tokens (mlm); bert, vit, swin: a text's or image's class, or the hidden states alone (nothing to train)", 0, 0, {"classification", "mlm", "hidden_states"}, false, ""},
    {s, "pool", CBWC_FIELD(model.pool), "", "vit: what the classifier reads", 0, 0, {"class_token", "mean"}, false, "global_pool"},
    {s, "image", CBWC_FIELD(model.image), "pixels", "vit, swin: height and width of an image", 1, 65536, {}, false, "img_size"},
    {s, "patch", CBWC_FIELD(model.patch), "pixels", "vit, swin: height and width of a patch", 1, 65536, {}, false, "patch_size"},
    {s, "window", CBWC_FIELD(model.window), "patches", "swin: height and width of an attention window", 1, 65536, {}, false, "window_size"},
    {s, "depths", CBWC_FIELD(model.depths), "blocks", "swin: blocks of each stage; dim is the first stage's and doubles", 1, 1000, {}, false, "", true},
    {s, "stage_heads", CBWC_FIELD(model.stage_heads), "heads", "swin: attention heads of each stage", 1, 1e6, {}, false, "num_heads", true},
    {s, "patch_norm", CBWC_FIELD(model.patch_norm), "", "swin: a norm after the patch embedding", 0, 0, {}, false, ""},
    {s, "checkpoint", CBWC_FIELD(model.checkpoint), "", "activation checkpointing: keep only each block's input and compute the block again on the way back; the same bits, less memory, about a third more time", 0, 0, {}, false, "gradient_checkpointing"},
  };
}

std::vector<ConfigKey> data_keys() {
  const std::string s = "data";
  return {
    {s, "file", CBWC_FIELD(data.file), "path", "file made by `cbwc data`; relative to the current directory; read into memory as a whole (encoded images: when they are wanted), so there is no chunk cache to size", 0, 0, {}, false, "path"},
    {s, "build", CBWC_FIELD(data.build), "", "what `cbwc data` is asked for when data.file is missing, without --out: \"fashion_mnist\"; empty: a missing file is an error", 0, 0, {}, false, ""},
    {s, "batch", CBWC_FIELD(data.batch), "samples", "samples in a batch: images, sentences, or windows of model.context tokens", 1, 1e6, {}, false, "batch_size"},
    {s, "train_split", CBWC_FIELD(data.train_split), "", "split to train on", 0, 0, {"train", "val", "test"}, false, "train"},
    {s, "eval_split", CBWC_FIELD(data.eval_split), "", "split to evaluate on", 0, 0, {"train", "val", "test"}, false, "split"},
    {s, "prefetch", CBWC_FIELD(data.prefetch), "batches", "batches made ahead on another thread; 0: none", 0, 1024, {}, false, "num_workers"},
    {s, "file_locking", CBWC_FIELD(data.file_locking), "", "lock data files while open; false for file systems without locks", 0, 0, {}, false, ""},
    {s, "workers", CBWC_FIELD(data.workers), "threads", "threads that make batches (images, sentences); the stream is the same for any number", 1, 1024, {}, false, "num_threads"},
    {s, "by_length", CBWC_FIELD(data.by_length), "batches", "sentences: every so many batches of the random order are sorted by length, so that less is padding; 0: none", 0, 1e6, {}, false, "group_by_length"},
    {s, "bad_images", CBWC_FIELD(data.bad_images), "", "an image that cannot be decoded ends the run with its path, or is skipped and counted", 0, 0, {"error", "skip"}, false, ""},
    {s, "mask_probability", CBWC_FIELD(data.mask_probability), "probability", "bert, task mlm: tokens that are predicted (80 % masked, 10 % random, 10 % kept)", 0, 1, {}, true, "mlm_probability"},
  };
}

std::vector<ConfigKey> augment_keys() {
  const std::string s = "augment";
  return {
    {s, "crop_scale", CBWC_FIELD(augment.crop_scale), "", "smallest area of a random resized crop (aspect 3/4 to 4/3) over the image's; 1: none", 0, 1, {}, true, "scale"},
    {s, "pad_crop", CBWC_FIELD(augment.pad_crop), "pixels", "random shift by up to this, the border filled with zeros; 0: none", 0, 65536, {}, false, ""},
    {s, "flip", CBWC_FIELD(augment.flip), "", "mirror left and right with probability 1/2", 0, 0, {}, false, "hflip"},
    {s, "rand_ops", CBWC_FIELD(augment.rand_ops), "operations", "RandAugment: operations on each image; 0: none", 0, 100, {}, false, "aa"},
    {s, "rand_magnitude", CBWC_FIELD(augment.rand_magnitude), "", "RandAugment: strength, 10 is the largest", 0, 10, {}, false, ""},
    {s, "jitter", CBWC_FIELD(augment.jitter), "", "largest relative change of brightness, contrast and saturation; 0: none", 0, 1, {}, false, "color_jitter"},
    {s, "erase", CBWC_FIELD(augment.erase), "probability", "random erasing: a rectangle becomes noise", 0, 1, {}, false, "reprob"},
    {s, "mixup", CBWC_FIELD(augment.mixup), "", "alpha of the Beta distribution of mixup's share; 0: none", 0, 100, {}, false, ""},
    {s, "cutmix", CBWC_FIELD(augment.cutmix), "", "alpha of the Beta distribution of cutmix's area; 0: none; with mixup, either with probability 1/2", 0, 100, {}, false, ""},
  };
}

std::vector<ConfigKey> optim_keys() {
  const std::string s = "optim";
  return {
    {s, "name", CBWC_FIELD(optim.name), "", "optimiser", 0, 0, {"adamw", "sgd"}, false, "optimizer"},
    {s, "lr", CBWC_FIELD(optim.lr), "", "peak learning rate", 0, 1000, {}, false, "learning_rate"},
    {s, "weight_decay", CBWC_FIELD(optim.weight_decay), "", "decoupled decay; never on norms and biases", 0, 1000, {}, false, "decay"},
    {s, "beta1", CBWC_FIELD(optim.beta1), "", "adamw: decay of the first moment", 0, 0.9999999, {}, false, "adam_beta1"},
    {s, "beta2", CBWC_FIELD(optim.beta2), "", "adamw: decay of the second moment", 0, 0.9999999, {}, false, "adam_beta2"},
    {s, "eps", CBWC_FIELD(optim.eps), "", "adamw: added to the root of the corrected second moment", 0, 1, {}, true, "adam_epsilon"},
    {s, "momentum", CBWC_FIELD(optim.momentum), "", "sgd: momentum", 0, 0.9999999, {}, false, ""},
    {s, "schedule", CBWC_FIELD(optim.schedule), "", "learning rate after the warm-up", 0, 0, {"cosine", "linear", "constant"}, false, "lr_schedule"},
    {s, "warmup", CBWC_FIELD(optim.warmup), "steps", "steps of linear rise to lr; 0: none", 0, kMaxInt, {}, false, "warmup_steps"},
    {s, "min_lr_ratio", CBWC_FIELD(optim.min_lr_ratio), "", "last learning rate as a part of lr", 0, 1, {}, false, "min_lr"},
    {s, "clip", CBWC_FIELD(optim.clip), "", "largest global gradient norm; 0: no clipping", 0, kInf, {}, false, "grad_clip"},
    {s, "accumulate", CBWC_FIELD(optim.accumulate), "batches", "batches whose gradients make one step, weighted by tokens", 1, 1e6, {}, false, "gradient_accumulation_steps"},
    {s, "nonfinite", CBWC_FIELD(optim.nonfinite), "", "a step with a non-finite loss or gradient: end the run, or skip the step and count it", 0, 0, {"stop", "skip"}, false, "nan_policy"},
    {s, "label_smoothing", CBWC_FIELD(optim.label_smoothing), "", "of the training loss: this much of the target is spread over all classes", 0, 0.999, {}, false, "smoothing"},
  };
}

std::vector<ConfigKey> study_keys() {
  return {
    {"compare", "arms", CBWC_FIELD(compare.arms), "", "values of model.norm to compare", 0, 0, {"layernorm", "rmsnorm", "cbwc_rmsnorm", "none", "cbwc_projected"}, false, "norms"},
    {"compare", "baseline", CBWC_FIELD(compare.baseline), "", "arm that the others are paired with", 0, 0, {"layernorm", "rmsnorm", "cbwc_rmsnorm", "none", "cbwc_projected"}, false, "reference"},
    {"compare", "baseline_models", CBWC_FIELD(compare.baseline_models), "", "classification: simple models for the same table, trained with every seed; empty: none", 0, 0, {"linear", "mlp", "bag_of_words"}, false, "", false, true},
    {"compare", "sweep", CBWC_FIELD(compare.sweep), "", "list of tables {\"section.key\" = [values]}: keys of a table are crossed, tables are joined; every arm runs at every point", 0, 0, {}, false, "grid"},
    {"equiv", "steps", CBWC_FIELD(equiv.steps), "steps", "optimiser steps of `cbwc equiv`", 0, kMaxInt, {}, false, ""},
    {"equiv", "batch", CBWC_FIELD(equiv.batch), "samples", "samples in a batch of `cbwc equiv`", 1, 1e6, {}, false, ""},
    {"equiv", "seed", CBWC_FIELD(equiv.seed), "", "seed of weights, gains, biases and batches of `cbwc equiv`", 0, kMaxInt, {}, false, ""},
    {"equiv", "gain_spread", CBWC_FIELD(equiv.gain_spread), "", "gains are drawn from 1 +- this, biases from +- this", 0, 1, {}, false, ""},
  };
}
#undef CBWC_FIELD
// clang-format on

}  // namespace

const std::vector<ConfigKey>& config_keys() {
  static const std::vector<ConfigKey> keys = [] {
    std::vector<ConfigKey> all = run_keys();
    for (const auto& more : {model_keys(), data_keys(), augment_keys(), optim_keys(), study_keys()})
      all.insert(all.end(), more.begin(), more.end());
    return all;
  }();
  return keys;
}

}  // namespace cbwc
