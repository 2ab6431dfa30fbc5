# cmake -DNAME=... -DOUTPUT=... (and what StepgateBundle.cmake passes) -P MakeBundle.cmake
#
#   NAME/bin      stepgate, charlm
#   NAME/lib      our libraries, and every library that they need beyond glibc
#   NAME/lib/ucx  UCX's modules, where UCX looks for them: in ucx beside itself
#   NAME/lib/stepgate_tls  what stands for OpenSSL under the names that the HTTP server looks for
#   NAME/lib/hostnccl, NAME/include, NAME/README.md, NAME/LICENSE
#
# Every object gets an RPATH relative to itself. RPATH, not RUNPATH: what the job's LD_LIBRARY_PATH holds
# must not take the place of the libraries that the plugin was built with.
cmake_policy(SET CMP0057 NEW)
string(REPLACE "," ";" PROGRAMS "${PROGRAMS}")
string(REPLACE "," ";" LIBRARIES "${LIBRARIES}")
string(REPLACE "," ";" TLS "${TLS}")
set(root ${STAGING}/${NAME})
file(REMOVE_RECURSE ${STAGING})
file(MAKE_DIRECTORY ${root}/bin ${root}/lib/ucx ${root}/lib/hostnccl ${root}/lib/stepgate_tls)

# What every Linux with glibc has, and must keep its own of.
set(glibc "^(ld-linux.*|libc|libm|libdl|libpthread|librt|libresolv|libutil|libnsl|libanl)\\.so\\..*$")

function(put file folder rpath)
  get_filename_component(name ${file} NAME)
  set(target ${root}/${folder}/${name})
  file(COPY_FILE ${file} ${target})  # through links: one file under the name that others ask for
  execute_process(COMMAND ${STRIP} --strip-unneeded ${target} COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${PATCHELF} --force-rpath --set-rpath ${rpath} ${target} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(GLOB modules ${UCX_MODULES}/libu*.so.0)
file(GET_RUNTIME_DEPENDENCIES
  EXECUTABLES ${PROGRAMS} LIBRARIES ${LIBRARIES} ${TLS} ${HOSTNCCL} ${modules}
  RESOLVED_DEPENDENCIES_VAR needed UNRESOLVED_DEPENDENCIES_VAR unresolved
  PRE_EXCLUDE_REGEXES ${glibc} "^libnccl\\.so\\.2$")
if(unresolved)
  message(FATAL_ERROR "bundle: these libraries are needed and were not found: ${unresolved}")
endif()

foreach(file IN LISTS PROGRAMS)
  put(${file} bin "$ORIGIN/../lib")
endforeach()
# charlm is linked to a libnccl.so.2; which one is the user's choice, so LD_LIBRARY_PATH comes first here.
execute_process(COMMAND ${PATCHELF} --set-rpath "$ORIGIN/../lib/hostnccl:$ORIGIN/../lib" ${root}/bin/charlm
                COMMAND_ERROR_IS_FATAL ANY)
foreach(file IN LISTS LIBRARIES needed)
  if(NOT file IN_LIST modules)
    put(${file} lib "$ORIGIN")
  endif()
endforeach()
foreach(file IN LISTS modules)
  put(${file} lib/ucx "$ORIGIN:$ORIGIN/..")
endforeach()
put(${HOSTNCCL} lib/hostnccl "$ORIGIN/..")
foreach(file IN LISTS TLS)
  put(${file} lib/stepgate_tls "$ORIGIN/..")
endforeach()

file(COPY ${SOURCE}/plugin/include/ DESTINATION ${root}/include FILES_MATCHING PATTERN "*.h")
file(COPY ${SOURCE}/LICENSE DESTINATION ${root})
set(bundled "")
set(files ${needed} ${modules})
list(REMOVE_DUPLICATES files)
foreach(file IN LISTS files)
  get_filename_component(name ${file} NAME)
  string(APPEND bundled "    ${name}\n")
endforeach()
configure_file(${SOURCE}/cmake/bundle-README.md.in ${root}/README.md @ONLY)

execute_process(COMMAND ${CMAKE_COMMAND} -E tar czf ${OUTPUT} ${NAME} WORKING_DIRECTORY ${STAGING}
                COMMAND_ERROR_IS_FATAL ANY)
