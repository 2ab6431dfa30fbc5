# `cmake --install`: what a user of the built plugin needs, laid out as in the build tree and the bundle.
#
#   bin/stepgate                    the command
#   lib/libstepgate.so              the one to preload or to link; it opens the others beside itself
#   lib/hostnccl/                   NCCL's interface on host memory; nothing finds it by accident
#   lib/stepgate_tls/               what the metrics page needs for TLS, where OpenSSL was there
#   include/stepgate/               the C API and the header-only client
#   lib/cmake/stepgate, lib/pkgconfig
#
# Always `lib`: the command looks for the plugin there. Nothing installed names the build tree, and the
# prefix may be moved. Exported targets: stepgate::stepgate (link it) and stepgate::client (headers).
include(CMakePackageConfigHelpers)

add_library(stepgate_client INTERFACE)
target_link_libraries(stepgate_client INTERFACE ${CMAKE_DL_LIBS})
set_target_properties(stepgate_client PROPERTIES EXPORT_NAME client)
set_target_properties(stepgate_shim PROPERTIES EXPORT_NAME stepgate)
foreach(target stepgate_client stepgate_shim)
  target_include_directories(${target} INTERFACE
    $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/plugin/include> $<INSTALL_INTERFACE:include>)
endforeach()

install(TARGETS stepgate RUNTIME DESTINATION bin)
install(TARGETS stepgate_client stepgate_shim EXPORT stepgate LIBRARY DESTINATION lib)
install(TARGETS stepgate_core_so stepgate_ucx LIBRARY DESTINATION lib)
install(TARGETS stepgate_hostnccl LIBRARY DESTINATION lib/hostnccl)
if(TARGET stepgate_tls_ssl)
  install(TARGETS stepgate_tls_ssl stepgate_tls_crypto LIBRARY DESTINATION lib/stepgate_tls)
endif()
install(DIRECTORY plugin/include/ DESTINATION include FILES_MATCHING PATTERN "*.h")
install(FILES LICENSE README.md CHANGELOG.md DESTINATION share/doc/stepgate)

set(package lib/cmake/stepgate)
install(EXPORT stepgate NAMESPACE stepgate:: FILE stepgateTargets.cmake DESTINATION ${package})
configure_package_config_file(cmake/stepgateConfig.cmake.in ${CMAKE_BINARY_DIR}/stepgateConfig.cmake
  INSTALL_DESTINATION ${package} NO_SET_AND_CHECK_MACRO)
# Until 1.0 a minor version may change behaviour.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/stepgateConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/stepgateConfig.cmake ${CMAKE_BINARY_DIR}/stepgateConfigVersion.cmake
  DESTINATION ${package})
configure_file(cmake/stepgate.pc.in ${CMAKE_BINARY_DIR}/stepgate.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/stepgate.pc DESTINATION lib/pkgconfig)
