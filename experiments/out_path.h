// Where a command writes, looked at before it works, and folders made and files copied there: each
// mistake is an Error that names the path.
#pragma once
#include <string>

namespace cbwc {

// `path` is to be a file: it is no folder, and the folder that it is to lie in can be written to,
// or will be there once the folder `made` is.
void check_can_write(const std::string& path, const std::string& made = "");
// `path` is to be a folder, which may be there already: it or what is above it can be written to.
void check_can_make(const std::string& path);
void check_new_folder(const std::string& path);  // the same, and nothing is there yet
void make_folders(const std::string& path);      // those above it too; they may be there already
void copy_into(const std::string& file, const std::string& folder, const std::string& name);

}  // namespace cbwc
