// A thread that is cancelled in a blocking call goes on to the end of the call, and the library with it.
#include "harness.h"

#include <string.h>

typedef struct waiting {
  sst_observer *observer;
  latch begun;
  bool is_told;
} waiting;

static void *wait_for_one(void *argument) {
  waiting *waiting_ = (waiting *)argument;
  sst_observation *observation = NULL;
  sst_error *error = NULL;
  latch_call(&waiting_->begun, SST_OK, NULL, "");
  EXPECT(SST_OK, sst_observer_next(waiting_->observer, SST_FOREVER, &observation, &error));
  waiting_->is_told = sst_observation_kind_of(observation) == SST_OBSERVED_SET;
  sst_observation_free(observation);
  pthread_testcancel();
  return NULL;
}

void suite_cancel(void) {
  sst_error *error = NULL;
  sst_client *client = new_client();
  waiting waiting_;
  pthread_t thread;
  void *result = NULL;
  memset(&waiting_, 0, sizeof waiting_);
  latch_init(&waiting_.begun);
  EXPECT(SST_OK, sst_observe(client, TEXT("observed"), NULL, &waiting_.observer, &error));
  CHECK(pthread_create(&thread, NULL, wait_for_one, &waiting_) == 0);
  latch_wait_calls(&waiting_.begun, 1);
  CHECK(pthread_cancel(thread) == 0);
  EXPECT(SST_OK, sst_set(client, TEXT("observed"), TEXT("value"), NULL, NULL, NULL, &error));
  CHECK(pthread_join(thread, &result) == 0);
  CHECK(result == PTHREAD_CANCELED && waiting_.is_told);
  sst_observer_free(waiting_.observer);
  latch_destroy(&waiting_.begun);
  end_client(client);
}
