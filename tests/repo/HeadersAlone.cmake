# Every header compiles alone: one test per header, which compiles a file that includes it twice and
# nothing else. Headers that C programs may include are compiled as strict C99 as well.

set(foreign prometheus-cpp::pull nlohmann_json::nlohmann_json PkgConfig::UCX PkgConfig::HWY GTest::gtest)
set(header_flags -I${CMAKE_SOURCE_DIR} -I${CMAKE_SOURCE_DIR}/plugin/include)
foreach(target IN LISTS foreign)
  get_target_property(folders ${target} INTERFACE_INCLUDE_DIRECTORIES)
  foreach(folder IN LISTS folders)
    # -isystem on a folder that the compiler searches anyway would break #include_next.
    if(folder AND NOT folder IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
      list(APPEND header_flags -isystem${folder})
    endif()
  endforeach()
endforeach()
list(APPEND header_flags -Wall -Wextra -Wpedantic -Wshadow -Werror)

# stepgate_header_test(NAME HEADER COMPILER LANGUAGE_ENDING STANDARD)
function(stepgate_header_test name header compiler ending standard)
  string(MAKE_C_IDENTIFIER "${name}" id)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/headers/${id}.${ending})
  file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${header}\"\n#include \"${header}\"\n" @ONLY)
  add_test(NAME ${name} COMMAND ${STEPGATE_CCACHE} ${compiler} ${standard} ${header_flags} -c ${source}
           -o ${CMAKE_CURRENT_BINARY_DIR}/headers/${id}.o COMMAND_EXPAND_LISTS)
  set_tests_properties(${name} PROPERTIES LABELS repo TIMEOUT 120)
endfunction()

file(GLOB_RECURSE headers RELATIVE ${CMAKE_SOURCE_DIR} CONFIGURE_DEPENDS
     ${CMAKE_SOURCE_DIR}/collectives/*.h ${CMAKE_SOURCE_DIR}/metrics/*.h ${CMAKE_SOURCE_DIR}/plugin/*.h
     ${CMAKE_SOURCE_DIR}/plugin/include/*.hpp ${CMAKE_SOURCE_DIR}/integration/*.h ${CMAKE_SOURCE_DIR}/tests/*.h)
list(FILTER headers EXCLUDE REGEX "^collectives/device/cuda/kernels/")  # device code: needs nvcc
list(FILTER headers EXCLUDE REGEX "^tests/collectives/hostnccl_mpi/")   # includes mpi.h, whose folder only mpicc knows

foreach(header IN LISTS headers)
  stepgate_header_test(header.${header} ${header} ${CMAKE_CXX_COMPILER} cc -std=c++20)
  set(is_c_header "^(plugin/include/.*\\.h|collectives/nccl_abi/nccl_abi\\.h|collectives/ucx/transport\\.h)$")
  if(header MATCHES "${is_c_header}")
    stepgate_header_test(header_c99.${header} ${header} ${CMAKE_C_COMPILER} c -std=c99)
  endif()
endforeach()
