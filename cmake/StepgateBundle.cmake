# The target `bundle`: stepgate-VERSION-linux-MACHINE.tar.gz, everything that a machine with nothing but
# glibc needs to run jobs with the plugin. See MakeBundle.cmake for what goes in.
#
# Needs patchelf: each library inside is told to look for its own libraries beside itself. A sanitizer
# tree has no bundle, for it would lack the sanitizer's runtime.
set(STEPGATE_BUNDLE_FILE "")
if(STEPGATE_SANITIZE)
  return()
endif()
find_program(STEPGATE_PATCHELF patchelf DOC "Writes the library paths of the bundle")
if(NOT STEPGATE_PATCHELF)
  message(STATUS "Bundle: off; patchelf is missing")
  return()
endif()

string(TOLOWER "${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}" bundle_machine)
set(bundle_name stepgate-${PROJECT_VERSION}-${bundle_machine})
set(STEPGATE_BUNDLE_FILE ${CMAKE_BINARY_DIR}/${bundle_name}.tar.gz)
pkg_get_variable(ucx_libdir ucx libdir)

set(bundle_tls "")
set(bundle_tls_targets "")
if(TARGET stepgate_tls_ssl)
  set(bundle_tls_targets stepgate_tls_ssl stepgate_tls_crypto)
  set(bundle_tls "$<TARGET_FILE:stepgate_tls_ssl>,$<TARGET_FILE:stepgate_tls_crypto>")
endif()

add_custom_command(OUTPUT ${STEPGATE_BUNDLE_FILE}
  COMMAND ${CMAKE_COMMAND} -DNAME=${bundle_name} -DOUTPUT=${STEPGATE_BUNDLE_FILE}
          -DSOURCE=${CMAKE_SOURCE_DIR} -DSTAGING=${CMAKE_BINARY_DIR}/bundle -DVERSION=${PROJECT_VERSION}
          -DPATCHELF=${STEPGATE_PATCHELF} -DSTRIP=${CMAKE_STRIP} -DUCX_MODULES=${ucx_libdir}/ucx
          "-DPROGRAMS=$<TARGET_FILE:stepgate>,$<TARGET_FILE:charlm>"
          "-DLIBRARIES=$<TARGET_FILE:stepgate_shim>,$<TARGET_FILE:stepgate_core_so>,$<TARGET_FILE:stepgate_ucx>"
          "-DTLS=${bundle_tls}"
          -DHOSTNCCL=$<TARGET_FILE:stepgate_hostnccl>
          -P ${CMAKE_SOURCE_DIR}/cmake/MakeBundle.cmake
  DEPENDS stepgate charlm stepgate_shim stepgate_core_so stepgate_ucx stepgate_hostnccl ${bundle_tls_targets}
          ${CMAKE_SOURCE_DIR}/cmake/MakeBundle.cmake ${CMAKE_SOURCE_DIR}/cmake/bundle-README.md.in
  COMMENT "Packing ${bundle_name}.tar.gz"
  VERBATIM)
add_custom_target(bundle DEPENDS ${STEPGATE_BUNDLE_FILE})
