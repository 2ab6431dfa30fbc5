#include "integration/examples/charlm/options.h"

#include <functional>
#include <map>
#include <stdexcept>
#include <string_view>

#include "integration/examples/charlm/parse.h"

namespace stepgate::charlm {
namespace {

using Setter = std::function<void(Options&, std::string_view name, std::string_view value)>;

GradType parse_grad_type(std::string_view name, std::string_view text) {
  if (text == "fp32") return GradType::kFp32;
  if (text == "fp16") return GradType::kFp16;
  if (text == "bf16") return GradType::kBf16;
  refuse(name, text, "fp32, fp16, bf16");
}

bool parse_strategy(std::string_view name, std::string_view text) {
  if (text != "ddp" && text != "zero1") refuse(name, text, "ddp, zero1");
  return text == "zero1";
}

ReduceOp parse_reduce_op(std::string_view name, std::string_view text) {
  if (text != "avg" && text != "sum") refuse(name, text, "avg, sum");
  return text == "sum" ? ReduceOp::kSum : ReduceOp::kAverage;
}

bool parse_device(std::string_view name, std::string_view text) {
  if (text != "host" && text != "cuda") refuse(name, text, "host, cuda");
  return text == "cuda";
}

Graph parse_graph(std::string_view name, std::string_view text) {
  if (text == "none") return Graph::kNone;
  if (text == "optimizer") return Graph::kOptimizer;
  if (text == "step") return Graph::kStep;
  refuse(name, text, "none, optimizer, step");
}

template <typename Field>
Setter whole(Field Options::*field, std::uint64_t low, std::uint64_t high) {
  return [=](Options& options, std::string_view name, std::string_view text) {
    options.*field = static_cast<std::uint64_t>(parse_whole(name, text, low, high));
  };
}

// The gate knows the rules itself; without the plugin nobody else would look at the name.
std::string parse_rule(std::string_view name, std::string_view text) {
  static constexpr std::string_view kRules[] = {
      "stepgate", "torch", "apex", "megatron", "deepspeed", "deepspeed-consecutive", "static", "none"};
  std::string all;
  for (const std::string_view rule : kRules) {
    if (text == rule) return std::string(text);
    all += (all.empty() ? "" : ", ") + std::string(rule);
  }
  refuse(name, text, all);
}

Setter threads_setter() {
  return [](Options& options, std::string_view name, std::string_view text) {
    options.threads = static_cast<unsigned>(parse_whole(name, text, 1, 64));
  };
}

template <typename Field>
Setter real(Field Options::*field, double low, double high) {
  return [=](Options& options, std::string_view name, std::string_view text) {
    options.*field = parse_real(name, text, low, high);
  };
}

Setter word(std::string Options::*field) {
  return [=](Options& options, std::string_view name, std::string_view text) {
    if (text.empty()) refuse(name, text, "a name");
    options.*field = text;
  };
}

std::map<std::string_view, Setter> model_setters() {
  return {{"--text", word(&Options::text)},
          {"--steps", whole(&Options::steps, 1, 1'000'000'000)},
          {"--batch", whole(&Options::batch, 1, 65536)},
          {"--seed", whole(&Options::seed, 0, UINT64_MAX)},
          {"--context", whole(&Options::context, 1, 1024)},
          {"--hidden", whole(&Options::hidden, 1, 65536)},
          {"--layers", whole(&Options::layers, 2, 64)},
          {"--learning-rate", real(&Options::learning_rate, 0, 10)}};
}

std::map<std::string_view, Setter> step_setters() {
  return {
      {"--initial-scale", real(&Options::initial_scale, 1e-30, 1e38)},
      {"--interval", whole(&Options::interval, 1, 1'000'000'000)},
      {"--max-norm", real(&Options::max_norm, 0, 1e30)},
      {"--rule", [](Options& o, auto name, auto text) { o.rule = parse_rule(name, text); }},
      {"--strategy", [](Options& o, auto name, auto text) { o.zero1 = parse_strategy(name, text); }},
      {"--grad-type", [](Options& o, auto name, auto text) { o.grad_type = parse_grad_type(name, text); }},
      {"--device", [](Options& o, auto name, auto text) { o.cuda = parse_device(name, text); }},
      {"--graph", [](Options& o, auto name, auto text) { o.graph = parse_graph(name, text); }},
      {"--op", [](Options& o, auto name, auto text) { o.reduce_op = parse_reduce_op(name, text); }},
      {"--inject", [](Options& o, auto, auto text) { o.injections.push_back(parse_injection(text)); }},
      {"--random-injections",
       [](Options& o, auto, auto text) { o.random_injections = parse_random_injections(text); }}};
}

std::map<std::string_view, Setter> run_setters() {
  return {{"--checkpoint", word(&Options::checkpoint)},
          {"--resume", word(&Options::resume)},
          {"--json", word(&Options::json)},
          {"--bootstrap-timeout", real(&Options::bootstrap_seconds, 0.1, 86400)},
          {"--linger", real(&Options::linger_seconds, 0, 86400)},
          {"--threads", threads_setter()}};
}

std::map<std::string_view, Setter> all_setters() {
  std::map<std::string_view, Setter> setters = model_setters();
  setters.merge(step_setters());
  setters.merge(run_setters());
  return setters;
}

bool set_flag(Options& options, std::string_view name) {
  if (name == "--progress") return options.progress = true;
  if (name == "--help" || name == "-h") return options.help = true;
  if (name != "--no-group") return false;
  options.group = false;
  return true;
}

// The ranks are known only later.
void check_steps_of_injections(const Options& options) {
  for (const Injection& injection : options.injections) {
    if (injection.step > options.steps) {
      refuse("the step in --inject", std::to_string(injection.step), "1 to " + std::to_string(options.steps));
    }
  }
}

}  // namespace

Options parse_options(int argc, char** argv) {
  const std::map<std::string_view, Setter> setters = all_setters();
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (set_flag(options, name)) continue;
    const auto setter = setters.find(name);
    if (setter == setters.end()) {
      throw std::invalid_argument("unknown option '" + std::string(name) + "'; see charlm --help");
    }
    if (++i == argc) throw std::invalid_argument(std::string(name) + " needs a value");
    setter->second(options, name, argv[i]);
  }
  check_steps_of_injections(options);
  if (options.graph != Graph::kNone && !options.cuda) {
    throw std::invalid_argument("--graph needs --device cuda");
  }
  return options;
}

const char* help_text() noexcept {
  return "usage: charlm [options]          one rank; start several with stepgate run\n"
         "\n"
         "Trains a character-level language model in mixed precision over NCCL's interface.\n"
         "\n"
         "  --text FILE            what to learn (the GPL of Debian's base-files)\n"
         "  --steps N              last step (400)\n"
         "  --batch N              examples per rank and step (64)\n"
         "  --seed N               of weights and data (1)\n"
         "  --context N            characters seen (16)\n"
         "  --hidden N             width of a hidden layer (128)\n"
         "  --layers N             hidden layers, 2 or more (2)\n"
         "  --learning-rate X      of Adam (0.002)\n"
         "  --strategy S           ddp: all-reduce, every rank updates all weights; zero1: reduce-scatter,\n"
         "                         each rank updates its shard, all-gather (ddp)\n"
         "  --grad-type T          gradients travel as fp32, fp16 or bf16 (fp32)\n"
         "  --op O                 avg or sum (avg)\n"
         "  --device D             host: the gradients and the optimizer live in host memory; cuda: in a "
         "GPU's,\n"
         "                         the gate decides on the stream, and the optimizer's kernels obey it "
         "there.\n"
         "                         The model itself is host code either way (host)\n"
         "  --graph G              with --device cuda, replayed as a CUDA graph: none, optimizer, or step,\n"
         "                         which is everything from the copy of the gradients to that of the "
         "weights (none)\n"
         "  --no-group             one call per bucket, outside of an NCCL group\n"
         "  --initial-scale X --rule R --interval N --max-norm X\n"
         "                         StepGate's settings; not given: from its configuration\n"
         "  --inject RANK:STEP:PARAMETER:inf|nan|underflow\n"
         "                         a fault in that rank's gradient; may be given again\n"
         "  --random-injections SEED:RATE\n"
         "                         an inf or a NaN on some rank in that share of the steps\n"
         "  --checkpoint FILE      written after the last step, as FILE.rankN\n"
         "  --resume FILE          goes on from such files: of as many ranks, of the same strategy, seed "
         "and\n"
         "                         model, all written by one run, and with --steps above their step\n"
         "  --json FILE            each rank's records, as FILE.rankN\n"
         "  --progress             prints as it goes\n"
         "  --linger SECONDS       keeps the metrics page up at the end, until FILE.done (--json) appears\n"
         "  --bootstrap-timeout SECONDS\n"
         "                         how long the ranks wait for each other at the start (60). A rank that "
         "ends\n"
         "                         before, even well, is waited for that long and then named\n"
         "  --threads N            N ranks as threads of this process\n";
}

}  // namespace stepgate::charlm
