# cmake -DNVCC=... -DSOURCE=... -DROOT=... -DOUTPUT=... -DARCHITECTURES=75,80,... -P CompileFatbin.cmake
#
# Compiles the device code for every architecture into one fatbin, with PTX of the newest for cards to
# come. Beside OUTPUT: .log with what ptxas says of registers and spills, .d with the headers read.
string(REPLACE "," ";" ARCHITECTURES "${ARCHITECTURES}")
set(code "")
foreach(architecture IN LISTS ARCHITECTURES)
  list(APPEND code -gencode arch=compute_${architecture},code=sm_${architecture})
  set(newest ${architecture})
endforeach()
list(APPEND code -gencode arch=compute_${newest},code=compute_${newest})

# -fmad=false: the source writes its own fused operations, and the compiler may add none.
set(flags -std=c++20 -O3 -fmad=false -I${ROOT} -Xptxas -v -Xfatbin=-compress-all)
execute_process(COMMAND ${NVCC} -fatbin ${flags} ${code} -MMD -MF ${OUTPUT}.d -MT ${OUTPUT} -o ${OUTPUT} ${SOURCE}
                OUTPUT_VARIABLE log ERROR_VARIABLE log RESULT_VARIABLE result)
file(WRITE ${OUTPUT}.log "${log}")
if(NOT result EQUAL 0)
  message(FATAL_ERROR "nvcc failed (${result}) on ${SOURCE}:\n${log}")
endif()
