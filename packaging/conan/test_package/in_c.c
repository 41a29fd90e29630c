#include <statestore.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  bool matches = false;
  if (strcmp(sst_version(), SST_VERSION) != 0) return 1;
  if (sst_pattern_matches(SST_TEXT("line1/*"), SST_TEXT("line1/speed"), &matches, NULL) != SST_OK || !matches) return 1;
  printf("libstatestore %s from C\n", sst_version());
  return 0;
}
