// Runs a queue in the event loop of a Qt thread (Qt 5 or 6): the functions of its clients are called on that thread.
//
//     auto queue = statestore::queue::make();
//     statestore::queue_notifier results(queue.raw());
//     settings.queue = &queue;
//     statestore::client::connect_async(url, connected, settings);
#ifndef STATESTORE_ADAPTERS_QT_HPP
#define STATESTORE_ADAPTERS_QT_HPP

#include <QEvent>
#include <QPointer>
#include <QSocketNotifier>

#include "../namespace.hpp"

namespace statestore {
inline namespace STATESTORE_VARIANT {
namespace detail {

inline int fd_of(const sst_queue* queue) noexcept {
  int fd = -1;
  sst_queue_fd(queue, &fd, nullptr);
  return fd;
}

}  // namespace detail

/// Runs a queue in the event loop of the thread of this object, until it is destroyed, also in a function of the queue. The queue must
/// live until then.
///
/// An event loop that a function of the queue runs, such as that of a dialog, does not run the queue.
class queue_notifier : public QSocketNotifier {
 public:
  /// Begins to run a queue.
  explicit queue_notifier(const sst_queue* queue, QObject* parent = nullptr)
      : QSocketNotifier(detail::fd_of(queue), QSocketNotifier::Read, parent), queue_(queue) {}

 protected:
  /// Runs the queue.
  bool event(QEvent* event) override {
    if (event->type() != QEvent::SockAct) return QSocketNotifier::event(event);
    const QPointer<queue_notifier> self(this);
    setEnabled(false);
    sst_queue_run(queue_, SST_ALL, nullptr, nullptr);
    if (self) self->setEnabled(true);
    return true;
  }

 private:
  const sst_queue* queue_;
};

}  // namespace STATESTORE_VARIANT
}  // namespace statestore

#endif
