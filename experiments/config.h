// The configuration of a run: one typed struct, and one table of keys (config_schema.cpp) that
// drives parsing, checks, `--set`, `cbwc config` and the complete TOML of a run directory.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace cbwc {

// One entry of compare.sweep: key -> its values as TOML text. The keys of one entry are crossed,
// the entries are joined one after the other.
using SweepEntry = std::map<std::string, std::vector<std::string>>;

struct Config {
  struct Run {
    std::string name;
    int64_t steps = 300;
    std::vector<int64_t> seeds = {1, 2, 3};
    std::string out, init, pretrain;
    int64_t log_every = 10, eval_every = 100, eval_batches = 20;
    int64_t checkpoint_every = 0, keep_checkpoints = 2;
    std::string early_stop_metric = "none";
    int64_t early_stop_patience = 5;
    bool norm_stats = true, attention_stats = false, grad_depth = false;
    int64_t bleu_samples = 500, beam = 4;
  } run;
  struct Model {
    std::string family = "gpt";
    int64_t layers = 4, dim = 128, heads = 4, context = 128, vocab = 0;
    std::string norm = "cbwc_rmsnorm";
    double norm_eps = 1e-5;
    bool norm_bias = true;
    std::string placement = "pre", qk_norm = "none";
    bool tied_head = true;
    std::string folded_tie = "none";
    std::string gelu = "tanh";
    double dropout = 0, attention_dropout = 0;
    std::string dropout_placement = "element", dtype = "float32";
    double init_std = 0.02;
    int64_t classes = 0, decoder_layers = 0;
    double mlp_ratio = 4, drop_path = 0, rotary = 0.5;
    int64_t token_types = 2;
    std::string task = "classification", pool = "class_token";
    int64_t image = 224, patch = 16, window = 7;
    std::vector<int64_t> depths = {2, 2, 6, 2}, stage_heads = {3, 6, 12, 24};
    bool patch_norm = true, checkpoint = false;
  } model;
  struct Data {
    std::string file;
    int64_t batch = 16;
    std::string train_split = "train", eval_split = "val";
    int64_t prefetch = 2;
    bool file_locking = true;
    int64_t workers = 1, by_length = 16;
    std::string bad_images = "error";
    double mask_probability = 0.15;
    std::string build;
  } data;
  struct Augment {
    int64_t pad_crop = 0;
    double crop_scale = 1, jitter = 0, erase = 0, mixup = 0, cutmix = 0, rand_magnitude = 9;
    bool flip = false;
    int64_t rand_ops = 0;
  } augment;
  struct Optim {
    std::string name = "adamw";
    double lr = 1e-3, weight_decay = 0.1, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, momentum = 0.9;
    std::string schedule = "cosine";
    int64_t warmup = 0;
    double min_lr_ratio = 0.1, clip = 1.0;
    int64_t accumulate = 1;
    std::string nonfinite = "stop";
    double label_smoothing = 0;
  } optim;
  struct Compare {
    std::vector<std::string> arms = {"layernorm", "rmsnorm", "cbwc_rmsnorm"};
    std::string baseline = "layernorm";
    std::vector<std::string> baseline_models;
    std::vector<SweepEntry> sweep;
  } compare;
  struct Equiv {
    int64_t steps = 100, batch = 4, seed = 1;
    double gain_spread = 0.5;
  } equiv;
  std::map<std::string, std::string> where;  // key -> "file:line" or "--set ..."; for messages
};

// A point of compare.sweep: `name` names folders, `label` is for people, `sets` go to apply_sets().
struct Variant {
  std::string name, label;
  std::vector<std::string> sets;
};

// FILE, or the bare name of a shipped config; `sets` are "section.key=value". Throws Error with
// file:line: syntax, unknown or duplicate key, wrong type or range, keys that do not fit together.
Config load_config(const std::string& path_or_name, const std::vector<std::string>& sets = {});
Config parse_config(const std::string& toml, const std::string& file,
                    const std::vector<std::string>& sets = {});
Config apply_sets(Config config, const std::vector<std::string>& sets);
std::string find_config(const std::string& path_or_name);  // the file; Error lists the shipped ones
std::vector<std::string> shipped_configs();

std::string config_to_toml(const Config& config);  // complete; parse_config gives the same back
// Of a config that was not parsed: Error "WHERE: section.key: ..." for a number out of its range.
void check_ranges(Config config, const std::string& where);
void check_family_keys(const Config& config);  // Error for one that its family does not read
// A line for each size that a file or --set says and the family does not read.
std::vector<std::string> unread_sizes(const Config& config);
std::vector<Variant> expand_sweep(const Config& config);  // one unnamed variant without a sweep
std::string toml_text(const std::string& text);           // quoted and escaped
std::string describe_keys();  // every key: type, unit, default, one line

// The table itself, for JSON and for tests.
using KeyField = std::variant<bool*, int64_t*, double*, std::string*, std::vector<int64_t>*,
                              std::vector<std::string>*, std::vector<SweepEntry>*>;
struct ConfigKey {
  std::string section, name;
  KeyField (*field)(Config&);
  std::string unit, help;
  double min = 0, max = 0;           // numbers: both ends allowed; equal means no limit
  std::vector<std::string> choices;  // text: the only values
  bool above_min = false;            // min itself is refused
  std::string alias;                 // a name people try; only for suggestions
  bool repeats = false;              // lists: the same value may come twice
  bool may_be_empty = false;         // lists
  std::string full() const { return section + "." + name; }
};
const std::vector<ConfigKey>& config_keys();

}  // namespace cbwc
