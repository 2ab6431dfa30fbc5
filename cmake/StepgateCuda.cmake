# Resolves STEPGATE_CUDA (AUTO, ON or OFF) to STEPGATE_CUDA_ENABLED, once per configure.
#
# AUTO takes what the machine has; ON insists on a compiler and says what is missing; OFF does not
# look. So far the answer is only reported: no CUDA code is in this tree yet.

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
if(STEPGATE_CUDA_ENABLED)
  message(STATUS "CUDA: nvcc ${STEPGATE_NVCC_VERSION} (${STEPGATE_NVCC}); nothing is built with it yet")
else()
  message(STATUS "CUDA: off (STEPGATE_CUDA=${STEPGATE_CUDA})")
endif()
