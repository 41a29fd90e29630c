// Queues: functions that are called on a thread of the program, by its event loop.
#ifndef STATESTORE_QUEUE_HPP
#define STATESTORE_QUEUE_HPP

#include <cstddef>

#include "handle.hpp"

namespace statestore {
inline namespace STATESTORE_VARIANT {

/// A queue of functions of clients that wait until the program runs them. Clients with a queue in their settings have no thread for
/// functions: `run` calls and destroys the functions instead.
///
/// Owner: can be moved, not copied. The destructor closes clients that still have the queue, and calls their remaining functions:
/// declare the queue before the clients. Remove the descriptor from the event loop first.
class [[nodiscard]] queue {
 public:
  /// Takes ownership of a handle.
  explicit queue(sst_queue* raw) noexcept : raw_(raw) {}

  /// Makes a queue without clients. Blocks: no. Errors: `status::internal` if the system provides no descriptor.
  static result<queue> make() {
    sst_queue* raw = nullptr;
    return detail::checked_call<queue>([&](sst_error** failure) { return sst_queue_new(&raw, failure); }, [&] { return queue(raw); });
  }

  /// Returns a file descriptor for event loops that is readable while there is something to run. Do not read it. Owner: this queue.
  /// Blocks: no.
  result<int> fd() const {
    int fd = -1;
    return detail::checked_call<int>([&](sst_error** failure) { return sst_queue_fd(raw(), &fd, failure); }, [&] { return fd; });
  }

  /// Calls functions that wait now, on this thread: at most `max`, which must not be 0. Returns how many it called.
  ///
  /// The rest, and functions that arrive meanwhile, keep the descriptor readable.
  ///
  /// Thread: any, one at a time. Blocks: no. Errors: `status::wrong_thread` in a function that it calls, and while another thread runs
  /// it.
  result<std::size_t> run(std::size_t max = SST_ALL) const {
    std::size_t ran = 0;
    return detail::checked_call<std::size_t>([&](sst_error** failure) { return sst_queue_run(raw(), max, &ran, failure); },
                                     [&] { return ran; });
  }

  /// Returns the handle, for calls of the C interface. Owner: this queue.
  const sst_queue* raw() const noexcept { return raw_.get(); }

 private:
  detail::owned<sst_queue, sst_queue_free> raw_;
};

}  // namespace STATESTORE_VARIANT
}  // namespace statestore

#endif
