#include "data/process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "core/check.h"

extern char** environ;

namespace cbwc {
namespace {

struct Pipe {
  int read = -1, write = -1;
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
      throw RunError(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
    read = ends[0];
    write = ends[1];
  }
  ~Pipe() {
    ::close(read);
    close_write();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close_write() {
    if (write >= 0) ::close(write);
    write = -1;
  }
};

// Both at once: a program that waits for its reader on one pipe would never close the other.
void read_both(const std::array<int, 2>& ends, const std::array<std::string*, 2>& texts) {
  std::array<pollfd, 2> waiting = {{{ends[0], POLLIN, 0}, {ends[1], POLLIN, 0}}};
  std::array<char, 1 << 16> buffer;
  while (waiting[0].fd >= 0 || waiting[1].fd >= 0) {
    if (::poll(waiting.data(), waiting.size(), -1) < 0 && errno != EINTR) return;
    for (size_t i = 0; i < waiting.size(); ++i) {
      if (waiting[i].fd < 0 || waiting[i].revents == 0) continue;
      const ssize_t count = ::read(waiting[i].fd, buffer.data(), buffer.size());
      if (count > 0)
        texts[i]->append(buffer.data(), static_cast<size_t>(count));
      else if (count == 0 || errno != EINTR)
        waiting[i].fd = -1;
    }
  }
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& arguments, const std::string& package,
                          const std::string& folder) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  Pipe out, err;
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, out.write, 1);
  ::posix_spawn_file_actions_adddup2(&actions, err.write, 2);
  if (!folder.empty()) ::posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  pid_t child = 0;
  const int failed = ::posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  CBWC_CHECK(failed != ENOENT, arguments[0], " is not installed. Install it with: apt-get install ",
             package);
  if (failed != 0)
    throw RunError(fmt::format("{}: cannot start: {}", arguments[0], std::strerror(failed)));
  out.close_write();
  err.close_write();
  ProcessResult result;
  read_both({out.read, err.read}, {&result.out, &result.err});
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

std::string first_line(const std::string& text) {
  const size_t begin = text.find_first_not_of("\r\n ");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_first_of("\r\n", begin) - begin);
}

}  // namespace cbwc
