# Resolves STEPGATE_CUDA (AUTO, ON or OFF) to STEPGATE_CUDA_ENABLED, once per configure.
#
# AUTO takes what the machine has; ON insists on a compiler and says what is missing; OFF does not
# look. Only device code needs it: host code opens the driver at run time. A compiler may lie anywhere
# (-DSTEPGATE_NVCC=/path/to/nvcc), one from Python's nvidia-cuda-nvcc too.
#
# Sets STEPGATE_CUDA_ARCHITECTURES to what of the supported list this compiler knows, and looks for
# the disassemblers that a test counts instructions with.

set(STEPGATE_CUDA_ENABLED OFF)
if(NOT STEPGATE_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "STEPGATE_CUDA is '${STEPGATE_CUDA}'; allowed: AUTO, ON, OFF")
endif()
if(NOT STEPGATE_CUDA STREQUAL "OFF")
  find_program(STEPGATE_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin $ENV{CUDA_PATH}/bin /usr/local/cuda/bin
               DOC "CUDA compiler")
  if(STEPGATE_NVCC)
    execute_process(COMMAND ${STEPGATE_NVCC} --version OUTPUT_VARIABLE nvcc_text ERROR_QUIET
                    RESULT_VARIABLE nvcc_result)
    if(nvcc_result EQUAL 0 AND nvcc_text MATCHES "release ([0-9]+\\.[0-9]+)")
      set(STEPGATE_NVCC_VERSION ${CMAKE_MATCH_1})
      set(STEPGATE_CUDA_ENABLED ON)
    endif()
  endif()
  if(STEPGATE_CUDA STREQUAL "ON" AND NOT STEPGATE_CUDA_ENABLED)
    message(FATAL_ERROR
      "STEPGATE_CUDA=ON needs nvcc, which was not found in PATH, CUDA_HOME/bin, CUDA_PATH/bin or "
      "/usr/local/cuda/bin (found: '${STEPGATE_NVCC}'). Install a CUDA toolkit, pass "
      "-DSTEPGATE_NVCC=/path/to/nvcc, or use STEPGATE_CUDA=AUTO or OFF")
  endif()
endif()
if(NOT STEPGATE_CUDA_ENABLED)
  message(STATUS "CUDA: off (STEPGATE_CUDA=${STEPGATE_CUDA}); no fatbin is built")
  return()
endif()

execute_process(COMMAND ${STEPGATE_NVCC} --list-gpu-code OUTPUT_VARIABLE known_codes
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
string(REPLACE "\n" ";" known_codes "${known_codes}")
set(STEPGATE_CUDA_ARCHITECTURES "")
set(unknown "")
foreach(architecture 75 80 86 89 90 100 103 120)
  if("sm_${architecture}" IN_LIST known_codes)
    list(APPEND STEPGATE_CUDA_ARCHITECTURES ${architecture})
  else()
    list(APPEND unknown ${architecture})
  endif()
endforeach()
if(NOT STEPGATE_CUDA_ARCHITECTURES)
  message(FATAL_ERROR "nvcc ${STEPGATE_NVCC_VERSION} (${STEPGATE_NVCC}) knows none of the architectures "
                      "75 to 120; it names: ${known_codes}")
endif()

cmake_path(GET STEPGATE_NVCC PARENT_PATH nvcc_folder)
find_program(STEPGATE_CUOBJDUMP cuobjdump HINTS ${nvcc_folder} DOC "Takes cubins out of a fatbin; a test")
find_program(STEPGATE_NVDISASM nvdisasm HINTS ${nvcc_folder} DOC "Disassembles cubins; a test")

string(REPLACE ";" " " architectures "${STEPGATE_CUDA_ARCHITECTURES}")
message(STATUS "CUDA: nvcc ${STEPGATE_NVCC_VERSION} (${STEPGATE_NVCC}), sm_ ${architectures}")
if(unknown)
  message(STATUS "CUDA: this nvcc does not know sm_ ${unknown}; PTX serves those that are newer")
endif()
