# kgen for CMake: find_package(kgen REQUIRED), with kgen_DIR from 'python -m kgen cmake-dir'.
#
#   kgen_add_library(NAME SCRIPT FILE.py:KERNEL... [TARGETS c opencl cuda] [FORTRAN]
#     [DEPENDS FILE...])
#
# exports kernels while CMake configures, and adds the library: NAME::c, NAME::opencl, NAME::cuda,
# in the namespace NAME. It is exported again when a script, or a file in DEPENDS, has changed.
# KGEN_PYTHON is the interpreter that has kgen: unless it is set, that of the environment in which
# this file is installed, that of the active environment, or the first one on the PATH.

if(NOT KGEN_PYTHON)
  get_filename_component(_kgen_prefix "${CMAKE_CURRENT_LIST_DIR}/../../../../../.." ABSOLUTE)
  foreach(_kgen_python IN ITEMS "${_kgen_prefix}/bin/python3" "$ENV{VIRTUAL_ENV}/bin/python3" python3
      python)
    execute_process(COMMAND "${_kgen_python}" -m kgen --version
      RESULT_VARIABLE _kgen_result OUTPUT_QUIET ERROR_QUIET)
    if(_kgen_result EQUAL 0)
      set(KGEN_PYTHON "${_kgen_python}" CACHE STRING "The Python interpreter that has kgen")
      break()
    endif()
  endforeach()
  if(NOT KGEN_PYTHON)
    set(kgen_FOUND FALSE)
    set(kgen_NOT_FOUND_MESSAGE "no Python interpreter has kgen; set KGEN_PYTHON to one")
  endif()
endif()

function(kgen_add_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "FORTRAN" "" "SCRIPT;TARGETS;DEPENDS")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_SCRIPT)
    message(FATAL_ERROR "kgen_add_library(NAME SCRIPT FILE.py:KERNEL... [TARGETS c opencl cuda] "
      "[FORTRAN] [DEPENDS FILE...]): unexpected '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  if(NOT arg_TARGETS)
    set(arg_TARGETS c)
  endif()
  set(options --namespace "${name}")
  foreach(target IN LISTS arg_TARGETS)
    list(APPEND options --target "${target}")
  endforeach()
  if(arg_FORTRAN)
    list(APPEND options --fortran)
  endif()
  set(source "${CMAKE_CURRENT_BINARY_DIR}/${name}-source")
  execute_process(
    COMMAND "${KGEN_PYTHON}" -m kgen export ${arg_SCRIPT} -o "${source}" ${options}
    WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}"
    RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "kgen cannot export ${name}:\n${output}")
  endif()
  foreach(kernel IN LISTS arg_SCRIPT arg_DEPENDS)
    string(REGEX REPLACE "\\.py:[^:]*$" ".py" file "${kernel}")
    get_filename_component(file "${file}" ABSOLUTE)
    if(EXISTS "${file}")
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
    endif()
  endforeach()
  add_subdirectory("${source}" "${CMAKE_CURRENT_BINARY_DIR}/${name}")
endfunction()
