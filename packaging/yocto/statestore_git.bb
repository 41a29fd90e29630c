# The recipe of Yocto, for scarthgap and newer. Put it into a layer, and run `bitbake -c update_crates statestore` once: this writes
# statestore-crates.inc, which names the crates of Cargo.lock.
SUMMARY = "Client for the Azure IoT Operations state store"
DESCRIPTION = "C and C++ library for a key-value store over MQTT 5, with locks, leases, elections and change notifications"
HOMEPAGE = "https://github.com/libstatestore/libstatestore"
BUGTRACKER = "https://github.com/libstatestore/libstatestore/issues"
SECTION = "libs"
CVE_PRODUCT = "libstatestore"
LICENSE = "MIT | Apache-2.0"
LIC_FILES_CHKSUM = "\
    file://LICENSE-MIT;md5=c50f1b23646c346432ed2c10090b4d45 \
    file://LICENSE-APACHE;md5=1836efb2eb779966696f473ee8540542 \
"

PV = "0.1.0+git"
SRC_URI = "git://github.com/libstatestore/libstatestore.git;protocol=https;branch=main;destsuffix=statestore"
SRCREV = "${AUTOREV}"

S = "${UNPACKDIR}/statestore"

inherit cargo cargo-update-recipe-crates

include statestore-crates.inc

CARGO_BUILD_FLAGS:append = " --package statestore-ffi --no-default-features --features tls,encrypted-keys,ws"

# The library of cargo is not the one that programs get: only functions of the header are visible in that.
do_install() {
    printf '#!/bin/sh\nexec %s "$@"\n' "${CC}" > ${B}/cc
    chmod 755 ${B}/cc
    cd ${S}
    CC=${B}/cc STRIP=true CARGO_TARGET_DIR=${B}/target DESTDIR=${D} ./scripts/install --no-build \
        --target ${RUST_HOST_SYS} --prefix ${prefix} --libdir ${baselib}
}

BBCLASSEXTEND = "native nativesdk"
