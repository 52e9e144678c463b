// Where a command writes, looked at before it works, and folders made and files copied there: each
// mistake is an Error that names the path.
#pragma once
#include <string>

namespace cbwc {

// What an output file holds: a file that is there is written over only when it is empty or begins
// so, lest a mistyped --out or --json cost a config, a text or a model.
struct OutputKind {
  const char *what, *begins;
  bool file = false;  // and cannot be written into a device or pipe
};
inline constexpr OutputKind kJsonResult{"what --json writes", "{\n  \"command\": \""},
    kDataFile{"a data file of this program", "CBWCSEAL", true},
    kVectorLines{"sentence vectors as lines of JSON", "{\"line\":"},
    kVocabulary{"a vocabulary", "[PAD]\n", true}, kDrawing{"a graph for dot", "digraph "},
    kPicture{"an SVG picture", "<svg"}, kMarkdown{"Markdown tables", "| "};

// `path` is to be such a file: it is no folder, and the folder that it is to lie in can be written
// to, or will be there once the folder `made` is.
void check_can_write(const std::string& path, const OutputKind& kind, const std::string& made = "");
// `path` is to be a folder, which may be there already: it or what is above it can be written to.
void check_can_make(const std::string& path);
void check_new_folder(const std::string& path);  // the same, and nothing is there yet
void make_folders(const std::string& path);      // those above it too; they may be there already
// A folder that is there whole or not at all: filled at path(), beside its place, until commit().
// Without it the destructor deletes what was written. A killed program leaves OUT.PID.tmp, which
// the next one that makes OUT deletes.
class NewFolder {
 public:
  explicit NewFolder(const std::string& out);  // check_new_folder()
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  const std::string& path() const { return path_; }
  void commit();  // RunError when something is at its place by now

 private:
  std::string out_, path_;
};

void copy_into(const std::string& file, const std::string& folder, const std::string& name);

}  // namespace cbwc
