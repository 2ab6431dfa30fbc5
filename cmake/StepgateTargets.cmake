# How this tree declares libraries, shared objects and tests.

# stepgate_static(NAME SOURCES ... [LINK ...]): an inside part, built once, linked by the product's
# shared objects and by the tests alike. Position independent, hidden visibility.
function(stepgate_static name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE stepgate::flags PUBLIC ${arg_LINK})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/plugin/include)
endfunction()

# stepgate_shared(NAME SOURCES ... VERSION_SCRIPT file [LINK ...] [OUTPUT name]): a shared object
# with no undefined symbol and only the exports that its version script names.
function(stepgate_shared name)
  cmake_parse_arguments(arg "" "VERSION_SCRIPT;OUTPUT" "SOURCES;LINK" ${ARGN})
  add_library(${name} SHARED ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE stepgate::flags ${arg_LINK})
  set(script ${CMAKE_CURRENT_SOURCE_DIR}/${arg_VERSION_SCRIPT})
  target_link_options(${name} PRIVATE -Wl,--version-script=${script} -Wl,--exclude-libs,ALL)
  if(NOT STEPGATE_SANITIZE)
    target_link_options(${name} PRIVATE -Wl,-z,defs)
  endif()
  set_property(TARGET ${name} APPEND PROPERTY LINK_DEPENDS ${script})
  if(arg_OUTPUT)
    set_target_properties(${name} PROPERTIES OUTPUT_NAME ${arg_OUTPUT})
  endif()
endfunction()

# stepgate_test(NAME SOURCES ... [LINK ...] [ENV NAME=VALUE ...] [LABELS ...] [TIMEOUT s]): a
# GoogleTest program, one CTest per case. Labels: unit or integration, and where it applies no_asan,
# no_tsan, no_valgrind (that run leaves the test out; say why beside it), exclusive (runs alone).
# SANITIZER_FILTER: a GoogleTest filter for the sanitizer trees, where all cases would take too long.
function(stepgate_test name)
  cmake_parse_arguments(arg "" "TIMEOUT;SANITIZER_FILTER" "SOURCES;LINK;ENV;LABELS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE stepgate::flags ${arg_LINK} GTest::gtest GTest::gtest_main Threads::Threads)
  if(STEPGATE_SANITIZE)
    # Test code is compiled once and run once: the compiler's time counts for more than its speed.
    # g++ takes instrumented copies of std::function for uninitialized ones.
    target_compile_options(${name} PRIVATE -O1 -g1 -Wno-maybe-uninitialized)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE BATCH UNITY_BUILD_BATCH_SIZE 4)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  set(filter "")
  if(STEPGATE_SANITIZE AND arg_SANITIZER_FILTER)
    set(filter TEST_FILTER "${arg_SANITIZER_FILTER}")
  endif()
  gtest_discover_tests(${name} ${filter} TEST_PREFIX "${name}." TEST_LIST ${name}_cases DISCOVERY_TIMEOUT 60
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} PROPERTIES TIMEOUT ${arg_TIMEOUT})
  set(serial "")
  if(exclusive IN_LIST arg_LABELS)
    set(serial "RUN_SERIAL ON")
  endif()
  # gtest_discover_tests flattens a list inside PROPERTIES, so that a second label or variable would be
  # taken for a property's name; these are set afterwards. Generator expressions are allowed in ENV.
  set(properties_file ${CMAKE_CURRENT_BINARY_DIR}/${name}_properties.cmake)
  file(GENERATE OUTPUT ${properties_file} CONTENT
"foreach(case IN LISTS ${name}_cases)
  set_tests_properties(\"\${case}\" PROPERTIES LABELS [==[${arg_LABELS}]==] ENVIRONMENT [==[${arg_ENV}]==] ${serial})
endforeach()
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${properties_file})
endfunction()

# stepgate_tests_need(FOUND what package): where the tests were asked for (STEPGATE_TESTS=ON), what some of them
# cannot do without is there or configuring ends; otherwise they are left out, and a line says so.
function(stepgate_tests_need found what package)
  if(found)
    return()
  endif()
  if(STEPGATE_TESTS AND NOT STEPGATE_TESTS STREQUAL "AUTO")
    message(FATAL_ERROR "STEPGATE_TESTS=${STEPGATE_TESTS} needs ${what}, which was not found; allowed: install Debian's "
      "${package} (cmake/install-packages.sh does), or set STEPGATE_TESTS=AUTO, which leaves those tests out")
  endif()
  message(STATUS "Tests that need ${what} are left out: it was not found (Debian's ${package})")
endfunction()
