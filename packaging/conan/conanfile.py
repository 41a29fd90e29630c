"""Recipe of Conan 2: `conan create packaging/conan` in a checkout. Needs a stable Rust toolchain, and builds for Linux."""

import os

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rm, rmdir

# Everything of a checkout that is no source of a Cargo package.
NO_SOURCES = (".git/*", "*/node_modules/*", "node_modules/*", "target/*", "*/target/*", "*/__pycache__/*", "benchmarks/*", "deploy/*")


class StateStore(ConanFile):
    name = "statestore"
    description = "Client for the Azure IoT Operations state store, a key-value store over MQTT 5"
    license = ("MIT", "Apache-2.0")
    url = homepage = "https://github.com/libstatestore/libstatestore"
    topics = ("mqtt", "key-value", "azure-iot-operations", "locks")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "tls": [True, False], "ws": [True, False]}
    default_options = {"shared": False, "tls": True, "ws": True}

    @property
    def _root(self):
        return os.path.join(self.recipe_folder, "..", "..")

    def set_version(self):
        header = load(self, os.path.join(self._root, "include", "statestore.h"))
        self.version = header.partition('#define SST_VERSION "')[2].partition('"')[0]

    def export_sources(self):
        copy(self, "*", self._root, self.export_sources_folder, excludes=NO_SOURCES)

    def configure(self):
        # The library is C; the headers for C++ have no code in it.
        self.settings.rm_safe("compiler.cppstd")
        self.settings.rm_safe("compiler.libcxx")

    def validate(self):
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration(f"{self.ref} is built for Linux only")

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["STATESTORE_PROFILE"] = "dev" if self.settings.build_type == "Debug" else "release"
        toolchain.cache_variables["STATESTORE_TLS"] = bool(self.options.tls)
        toolchain.cache_variables["STATESTORE_WS"] = bool(self.options.ws)
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE*", self.source_folder, os.path.join(self.package_folder, "licenses"))
        # Conan makes its own.
        for folder in ("cmake", "pkgconfig"):
            rmdir(self, os.path.join(self.package_folder, "lib", folder))
        rmdir(self, os.path.join(self.package_folder, "share"))
        rm(self, "*.a" if self.options.shared else "*.so*", os.path.join(self.package_folder, "lib"))

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "StateStore")
        self.cpp_info.set_property("cmake_target_name", "StateStore::statestore")
        self.cpp_info.set_property("pkg_config_name", "statestore")
        self.cpp_info.libs = ["statestore"]
        if not self.options.shared:
            self.cpp_info.set_property("cmake_target_aliases", ["StateStore::statestore_static"])
            self.cpp_info.system_libs = ["util", "rt", "pthread", "m", "dl"]
