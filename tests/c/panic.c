// A bug behind the boundary: an error, and a client that does nothing any more but to be closed. Others go on.
#include "harness.h"

// Not in the header: only libraries built with the feature test-panic have it.
#ifdef __cplusplus
extern "C"
#endif
sst_status sst_test_panic(const sst_client *client, sst_error **error);

void suite_panic(void) {
  sst_error *error = NULL;
  sst_client *client = new_client(), *other = new_client();
  sst_entry *entry = NULL;
  EXPECT(SST_INTERNAL, sst_test_panic(client, &error));
  EXPECT(SST_INTERNAL, sst_get(client, TEXT("panic"), NULL, &entry, &error));
  CHECK(entry == NULL);
  EXPECT(SST_INTERNAL, sst_set(client, TEXT("panic"), TEXT("x"), NULL, NULL, NULL, &error));
  EXPECT(SST_OK, sst_get(other, TEXT("panic"), NULL, &entry, &error));
  CHECK(entry == NULL);
  EXPECT(SST_OK, sst_client_close(client, &error));
  sst_client_free(client);
  end_client(other);
}
