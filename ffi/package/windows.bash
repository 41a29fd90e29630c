# The libraries of Windows, for scripts/install. Sourced by it.

bits=64
# The name that programs have of the library, as the soname is on Linux.
soname=statestore.dll
# What `rustc --print native-static-libs` names.
native_libs="-ladvapi32 -lbcrypt -lcrypt32 -ldbghelp -lkernel32 -lncrypt -lntdll -lsecur32 -luserenv -lws2_32"
# CMake adds what the linker wants before the names.
native_libs_cmake=${native_libs//-l/}
case "$target" in
  *-msvc) import_library=statestore.lib static_library=statestore_static.lib ;;
  *) import_library=libstatestore.dll.a static_library=libstatestore.a ;;
esac

# put_windows_libraries: installs the libraries and the configuration of CMake.
put_windows_libraries() {
  local exports
  put 755 "$built/statestore.dll" bin/statestore.dll
  if [[ "$target" == *-msvc ]]; then
    put 644 "$built/statestore.dll.lib" "$libdir/$import_library"
    put 644 "$built/statestore.lib" "$libdir/$static_library"
  else
    put 644 "$built/libstatestore.dll.a" "$libdir/$import_library"
    put 644 "$built/libstatestore.a" "$libdir/$static_library"
    # For compilers that make their own import library, and the import library of MSVC's name.
    mapfile -t exports < <("$NM" --extern-only --defined-only "$built/libstatestore.a" 2>/dev/null | awk '$3 ~ /^sst_/ { print $3 }' | sort -u)
    ((${#exports[@]})) || { echo "scripts/install: libstatestore.a has no function of the header" >&2; return 1; }
    printf '%s\n' "LIBRARY statestore.dll" EXPORTS "${exports[@]/#/  }" | install -D -m 644 /dev/stdin "$root/$libdir/statestore.def"
    "${tools}dlltool" --machine i386:x86-64 --input-def "$root/$libdir/statestore.def" --dllname statestore.dll --output-lib "$root/$libdir/statestore.lib"
    installed+=("$libdir/statestore.def" "$libdir/statestore.lib")
  fi
  fill StateStoreConfig.windows.cmake.in "$libdir/cmake/StateStore/StateStoreConfig.cmake"
}
