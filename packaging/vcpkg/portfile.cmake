# The port of vcpkg: `vcpkg install statestore --overlay-ports=packaging/vcpkg`. Needs a stable Rust toolchain.
# vcpkg prints the checksum of a release when it differs from this one.
vcpkg_from_github(
  OUT_SOURCE_PATH SOURCE_PATH
  REPO libstatestore/libstatestore
  REF "v${VERSION}"
  SHA512 0
  HEAD_REF main)

vcpkg_check_features(
  OUT_FEATURE_OPTIONS FEATURE_OPTIONS
  FEATURES
    tls STATESTORE_TLS
    ws STATESTORE_WS)
vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS ${FEATURE_OPTIONS}
  OPTIONS_RELEASE -DSTATESTORE_PROFILE=release
  OPTIONS_DEBUG -DSTATESTORE_PROFILE=dev)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(PACKAGE_NAME statestore CONFIG_PATH lib/cmake/StateStore)
# The file is one folder nearer to the prefix now.
vcpkg_replace_string("${CURRENT_PACKAGES_DIR}/share/statestore/StateStoreConfig.cmake" "}/../../.." "}/../..")
vcpkg_fixup_pkgconfig()

foreach(folder IN ITEMS "${CURRENT_PACKAGES_DIR}" "${CURRENT_PACKAGES_DIR}/debug")
  if(VCPKG_LIBRARY_LINKAGE STREQUAL "static")
    file(GLOB others "${folder}/lib/*.so*")
  else()
    file(GLOB others "${folder}/lib/*.a")
  endif()
  if(others)
    file(REMOVE ${others})
  endif()
endforeach()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share" "${CURRENT_PACKAGES_DIR}/share/doc")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE" "${SOURCE_PATH}/LICENSE-MIT" "${SOURCE_PATH}/LICENSE-APACHE")
