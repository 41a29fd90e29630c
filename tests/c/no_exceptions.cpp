// The C++ face without exceptions: every call gives an `expected`. Compiled with -fno-exceptions.
#include <future>
#include <statestore.hpp>
#include <statestore/future.hpp>

#include "harness.h"

int main() {
  statestore::expected<statestore::client> client = statestore::client::connect(server_url());
  CHECK(client.has_value());
  CHECK(statestore::client::connect("nonsense").error().status() == SST_INVALID_SETTINGS);
  CHECK(client->set("key", "value")->applied);
  const auto entry = client->get("key");
  CHECK(entry && *entry && (*entry)->value() == "value");
  CHECK(client->get("").error().status() == SST_INVALID_ARGUMENT);
  const auto updated = client->update("updated", [](const statestore::entry*) { return std::optional<std::string>("x"); });
  CHECK(updated && updated->applied);
  const auto worked = client->with_lock("door", [](const statestore::guard& guard) { return guard.is_valid(); });
  CHECK(worked && *worked);
  CHECK(client->with_lock("door", [](const statestore::guard& guard) { (void)guard.leave(); }).error().status() == SST_LOCK_LOST);
  const auto failed = client->with_lock("gate", [](const statestore::guard& guard) -> statestore::expected<int> {
    (void)guard.leave();
    return statestore::error(statestore::status::rejected, "the work failed");
  });
  CHECK(failed.error().status() == SST_REJECTED);
  CHECK((*entry)->version().has_value());
  std::promise<bool> applied;
  const auto setting = client->set_async("key", "other", [&applied](statestore::expected<statestore::set_outcome> outcome) {
    applied.set_value(outcome && outcome->applied);
  });
  CHECK(setting && applied.get_future().get());
  CHECK(client->lease("door")->holder().has_value());
  auto observer = client->observe("key");
  CHECK(observer && observer->next(std::chrono::milliseconds(0)).error().status() == SST_TIMED_OUT);
  CHECK(observer->try_next().has_value() && !observer->try_next().value());
  auto read = statestore::as_future(&statestore::client::get_async, *client, "key");
  CHECK(read.get().value()->value() == "other");
  auto unread = statestore::as_future(&statestore::client::get_async, *client, "");
  CHECK(unread.get().error().status() == statestore::status::invalid_argument);
  auto matching = client->observe_matching("key");
  const auto present = matching->next();
  CHECK(present && *present && (*present)->key() == "key" && (*present)->value() == "other");
  const auto mirror = client->mirror("key");
  CHECK(mirror && mirror->synced().has_value() && mirror->get("key").value()->value() == "other");
  CHECK(mirror->snapshot()->size() == 1 && mirror->changes().has_value());
  const auto page = client->scan_entries("ke?")->next_page();
  CHECK(page && *page && (*page)->size() == 1 && (*page)->front().key() == "key");
  const auto capabilities = client->capabilities();
  CHECK(capabilities && capabilities->transactions);
  const auto unknown = statestore::hlc::parse("7:1:StateStore");
  statestore::set_options old;
  old.condition = statestore::condition::if_version(*unknown);
  const auto kept = client->set("key", "x", old);
  CHECK(kept && !kept->applied && kept->version);
  const auto transacted = client->transact(statestore::transaction().set("a", "1").del("b"));
  CHECK(transacted && transacted->applied && transacted->versions.size() == 2);
  const auto refused = client->transact(statestore::transaction().del("a").set("b", "x", old));
  CHECK(refused && !refused->applied && refused->operation == 1u && !refused->version);
  CHECK(client->transact(statestore::transaction().del("a").del("")).error().operation() == 1u);
  CHECK(client->incr("count", 2).value() == 2 && client->touch("count", std::chrono::minutes(1)).value());
  CHECK(client->exists("count").value() && client->ttl("count").value()->is_known() && client->ping().has_value());
  CHECK(client->close().has_value());
  CHECK(client->get_async("key", nullptr).error().status() == SST_CLOSED);
  const auto next = observer->next();
  CHECK(next && !*next);
}
