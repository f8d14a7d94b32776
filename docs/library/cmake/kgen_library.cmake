# Targets of a library that kgen exported. This file is the same in every library.
#
#   kgen_library(NAME [OPENMP] [FORTRAN file] [LINK library...]
#     COMMON source... [C source...] [OPENCL source...] [CUDA source...] [KERNELS file.cu...])
#
# makes NAME::c of the sources after C, NAME::opencl and NAME::cuda, where the headers and libraries
# of OpenCL, and CUDA's toolkit, are found; and NAME::fortran in projects that have Fortran enabled.
# They are installed, for find_package(NAME COMPONENTS c opencl cuda). With UPPER for NAME in
# capitals, these are options:
#
#   UPPER_OPENCL, UPPER_CUDA    OFF: do not look for it
#   UPPER_CUDA_ARCHITECTURES    such as "80;90": code for these, and PTX of the last one for later
#                               ones; all major architectures, unless CMAKE_CUDA_ARCHITECTURES is set
#   UPPER_C_OPTIONS             for the compiler of kernels in C, such as -march=native
#   UPPER_INSTALL               OFF: install nothing

include(CheckCCompilerFlag)
include(GNUInstallDirs)

function(kgen_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "OPENMP" "FORTRAN"
    "LINK;COMMON;C;OPENCL;CUDA;KERNELS")
  string(TOUPPER "${name}" upper)
  option(${upper}_INSTALL "Install the library ${name}" ON)
  _kgen_component(${name} common ${arg_COMMON})
  target_include_directories(${name}_common PUBLIC
    "$<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>"
    "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  if(arg_C)
    _kgen_c(${name} ${upper})
  endif()
  if(arg_OPENCL)
    option(${upper}_OPENCL "Build ${name}::opencl where OpenCL is found" ON)
    if(${upper}_OPENCL)
      _kgen_opencl(${name})
    endif()
  endif()
  if(arg_CUDA)
    option(${upper}_CUDA "Build ${name}::cuda where CUDA's toolkit is found" ON)
    if(${upper}_CUDA)
      _kgen_cuda(${name} ${upper})
    endif()
  endif()
  if(arg_FORTRAN)
    _kgen_fortran(${name})
  endif()
  if(${upper}_INSTALL)
    set(headers "${name}.h" "${name}.hpp" "${name}_view.hpp")
    list(TRANSFORM headers PREPEND "include/")
    install(FILES ${headers} ${arg_FORTRAN} DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
    install(FILES "cmake/${name}-config.cmake"
      DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/${name}")
  endif()
endfunction()

# Make the target NAME::COMPONENT, and install it.
function(_kgen_component name component)
  set(target "${name}_${component}")
  add_library(${target} ${ARGN})
  add_library(${name}::${component} ALIAS ${target})
  set_target_properties(${target} PROPERTIES
    EXPORT_NAME ${component} POSITION_INDEPENDENT_CODE ON WINDOWS_EXPORT_ALL_SYMBOLS ON)
  if(NOT component STREQUAL "common")
    target_link_libraries(${target} PUBLIC ${name}_common)
  endif()
  if(NOT component STREQUAL "fortran")
    target_compile_features(${target} PRIVATE c_std_11)
  endif()
  string(TOUPPER "${name}" upper)
  if(${upper}_INSTALL)
    install(TARGETS ${target} EXPORT ${name}-${component}
      ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
      LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
      RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
    install(EXPORT ${name}-${component} NAMESPACE ${name}::
      DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/${name}")
  endif()
endfunction()

macro(_kgen_c name upper)
  set(${upper}_C_OPTIONS "" CACHE STRING "Options for the compiler of kernels in C")
  _kgen_component(${name} c ${arg_C})
  # without a build type kernels are optimized all the same; that nothing looks at errno, and at what
  # processors note of operations, lets compilers make vectors of sqrt and floor
  # with fast_math: the processors' roots, which take less time than gcc's approximations in vectors
  check_c_compiler_flag("-mrecip=!vec-sqrt" KGEN_EXACT_ROOTS)
  target_compile_options(${name}_c PRIVATE
    "$<$<AND:$<CONFIG:>,$<C_COMPILER_ID:GNU,Clang,AppleClang>>:-O3>"
    "$<$<C_COMPILER_ID:GNU,Clang,AppleClang>:-fno-math-errno;-fno-trapping-math>"
    "$<$<BOOL:${KGEN_EXACT_ROOTS}>:-mrecip=!vec-sqrt>"
    ${${upper}_C_OPTIONS})
  target_link_libraries(${name}_c PRIVATE ${arg_LINK})
  if(UNIX)
    target_link_libraries(${name}_c PRIVATE m)
  endif()
  if(arg_OPENMP)
    find_package(OpenMP QUIET COMPONENTS C)
    if(OpenMP_C_FOUND)  # else one thread runs all
      target_link_libraries(${name}_c PRIVATE OpenMP::OpenMP_C)
    endif()
  endif()
endmacro()

macro(_kgen_opencl name)
  find_package(OpenCL QUIET)
  if(OpenCL_FOUND)
    find_package(Threads REQUIRED)
    _kgen_component(${name} opencl ${arg_OPENCL})
    target_link_libraries(${name}_opencl PRIVATE OpenCL::OpenCL Threads::Threads)
  else()
    message(STATUS "${name}::opencl is not built: no OpenCL (Debian: ocl-icd-opencl-dev)")
  endif()
endmacro()

macro(_kgen_cuda name upper)
  find_package(CUDAToolkit QUIET)
  if(CUDAToolkit_FOUND AND TARGET CUDA::cuda_driver)
    find_package(Threads REQUIRED)
    set(${upper}_CUDA_ARCHITECTURES "${CMAKE_CUDA_ARCHITECTURES}" CACHE STRING
      "CUDA architectures, such as 80;90; none: all major ones")
    _kgen_architecture_options(options "${${upper}_CUDA_ARCHITECTURES}")
    set(embedded "")
    foreach(kernel IN LISTS arg_KERNELS)
      _kgen_embed(source "${kernel}" "${options}")
      list(APPEND embedded "${source}")
    endforeach()
    _kgen_component(${name} cuda ${arg_CUDA} ${embedded})
    target_link_libraries(${name}_cuda PRIVATE CUDA::cuda_driver Threads::Threads)
    target_include_directories(${name}_cuda PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
  else()
    message(STATUS "${name}::cuda is not built: no CUDA toolkit, or no libcuda")
  endif()
endmacro()

# Set RESULT to the options of nvcc for some architectures: code for each, PTX of the last one.
function(_kgen_architecture_options result architectures)
  list(TRANSFORM architectures REPLACE "-(real|virtual)$" "")
  if(NOT architectures)
    set(architectures all-major)
  endif()
  if(architectures MATCHES "^(all|all-major|native)$")
    set(${result} "-arch=${architectures}" PARENT_SCOPE)
    return()
  endif()
  set(options "")
  foreach(number IN LISTS architectures)
    list(APPEND options "-gencode=arch=compute_${number},code=sm_${number}")
  endforeach()
  list(POP_BACK architectures last)
  list(APPEND options "-gencode=arch=compute_${last},code=compute_${last}")
  set(${result} "${options}" PARENT_SCOPE)
endfunction()

# Set RESULT to a source with the compiled KERNEL, a file.cu, as the array FILE_fatbin.
function(_kgen_embed result kernel options)
  get_filename_component(stem "${kernel}" NAME_WE)
  set(kernel "${CMAKE_CURRENT_SOURCE_DIR}/${kernel}")
  set(fatbin "${CMAKE_CURRENT_BINARY_DIR}/${stem}.fatbin")
  set(source "${CMAKE_CURRENT_BINARY_DIR}/${stem}_fatbin.c")
  get_source_file_property(more "${kernel}" COMPILE_OPTIONS)
  if(more)
    list(APPEND options ${more})
  endif()
  set(host "")
  if(CMAKE_CUDA_HOST_COMPILER)
    set(host "-ccbin=${CMAKE_CUDA_HOST_COMPILER}")
  endif()
  set(script "${CMAKE_CURRENT_SOURCE_DIR}/src/kgen_embed.cmake")
  add_custom_command(
    OUTPUT "${source}"
    COMMAND "${CUDAToolkit_NVCC_EXECUTABLE}" ${host} -fatbin ${options} -o "${fatbin}" "${kernel}"
    COMMAND "${CMAKE_COMMAND}" -DINPUT=${fatbin} -DOUTPUT=${source} -DSYMBOL=${stem}_fatbin
      -P "${script}"
    DEPENDS "${kernel}" "${script}"
    COMMENT "Compiling ${stem}.cu"
    VERBATIM)
  set(${result} "${source}" PARENT_SCOPE)
endfunction()

macro(_kgen_fortran name)
  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  if("Fortran" IN_LIST languages)
    _kgen_component(${name} fortran ${arg_FORTRAN})
    set_target_properties(${name}_fortran PROPERTIES
      Fortran_MODULE_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/modules")
    target_include_directories(${name}_fortran INTERFACE
      "$<BUILD_INTERFACE:${CMAKE_CURRENT_BINARY_DIR}/modules>"
      "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
    if(${upper}_INSTALL)
      install(FILES "${CMAKE_CURRENT_BINARY_DIR}/modules/${name}.mod"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
    endif()
  endif()
endmacro()
