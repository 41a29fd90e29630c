// Functions that are called on a thread of the program, out of its event loop.
#ifndef STATESTORE_QUEUE_HPP
#define STATESTORE_QUEUE_HPP

#include <cstddef>

#include "handle.hpp"

namespace statestore {
inline namespace STATESTORE_VARIANT {

/// Functions of clients that wait until the program runs them. The clients that have it in their settings have no thread for
/// functions: what would be called there, `run` calls, and destroys.
///
/// Owner: can be moved, not copied. When it is destroyed, clients that still have it are closed, and what they have left is called
/// there: declare it before them. Let the event loop forget the descriptor before.
class [[nodiscard]] queue {
 public:
  /// Takes a handle over.
  explicit queue(sst_queue* raw) noexcept : raw_(raw) {}

  /// A queue without clients. Blocks: no. Errors: SST_INTERNAL if the system gives no descriptor.
  static result<queue> make() {
    sst_queue* raw = nullptr;
    return detail::give<queue>([&](sst_error** failure) { return sst_queue_new(&raw, failure); }, [&] { return queue(raw); });
  }

  /// A file descriptor for event loops that is readable while there is something to run. Do not read it. Owner: this. Blocks: no.
  result<int> fd() const {
    int fd = -1;
    return detail::give<int>([&](sst_error** failure) { return sst_queue_fd(raw(), &fd, failure); }, [&] { return fd; });
  }

  /// Calls functions that wait now, on this thread: at most `most`, which is not 0; how many it called. What is left, and what comes
  /// meanwhile, keeps the descriptor readable.
  ///
  /// Thread: any, one at a time. Blocks: no. Errors: SST_WRONG_THREAD in a function that it calls, and while another thread runs it.
  result<std::size_t> run(std::size_t most = SST_ALL) const {
    std::size_t ran = 0;
    return detail::give<std::size_t>([&](sst_error** failure) { return sst_queue_run(raw(), most, &ran, failure); },
                                     [&] { return ran; });
  }

  /// The handle, for calls of the C interface. Owner: this.
  const sst_queue* raw() const noexcept { return raw_.get(); }

 private:
  detail::owned<sst_queue, sst_queue_free> raw_;
};

}  // namespace STATESTORE_VARIANT
}  // namespace statestore

#endif
