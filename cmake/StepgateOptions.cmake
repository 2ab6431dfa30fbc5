# Options, compiler flags and output folders of the whole tree.

set(STEPGATE_TESTS AUTO CACHE STRING "Build the tests: AUTO (where GoogleTest is there), ON or OFF")
set_property(CACHE STEPGATE_TESTS PROPERTY STRINGS AUTO ON OFF)
set(STEPGATE_SANITIZE "" CACHE STRING "Sanitizers of every target: empty, address (with undefined), or thread")
set_property(CACHE STEPGATE_SANITIZE PROPERTY STRINGS "" address thread)
set(STEPGATE_CUDA AUTO CACHE STRING "Build the CUDA device code: AUTO, ON or OFF")
set_property(CACHE STEPGATE_CUDA PROPERTY STRINGS AUTO ON OFF)
option(STEPGATE_WERROR "Warnings are errors" ON)
option(STEPGATE_COVERAGE "Count executed lines with gcov" OFF)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()

set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/static)

find_program(STEPGATE_CCACHE ccache)
if(STEPGATE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER ${STEPGATE_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${STEPGATE_CCACHE})
endif()

add_library(stepgate_flags INTERFACE)
add_library(stepgate::flags ALIAS stepgate_flags)
target_compile_options(stepgate_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow
  # The fixed order of summation is the product: no contraction that the source does not write.
  -ffp-contract=off
  $<$<BOOL:${STEPGATE_WERROR}>:-Werror>)
target_include_directories(stepgate_flags INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/plugin/include)

set(STEPGATE_SANITIZER_RUNTIME "")
if(STEPGATE_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libasan.so
                  OUTPUT_VARIABLE STEPGATE_SANITIZER_RUNTIME OUTPUT_STRIP_TRAILING_WHITESPACE)
elseif(STEPGATE_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libtsan.so
                  OUTPUT_VARIABLE STEPGATE_SANITIZER_RUNTIME OUTPUT_STRIP_TRAILING_WHITESPACE)
elseif(NOT STEPGATE_SANITIZE STREQUAL "")
  message(FATAL_ERROR "STEPGATE_SANITIZE is '${STEPGATE_SANITIZE}'; allowed: empty, address, thread")
endif()

if(STEPGATE_COVERAGE)
  # Atomic: ranks run as threads, and as several processes that add to one file.
  add_compile_options(--coverage -fprofile-update=atomic)
  add_link_options(--coverage)
endif()
