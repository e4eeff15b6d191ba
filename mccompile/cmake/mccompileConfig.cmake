# Networks compiled as part of a build:
#
#     find_package(mccompile REQUIRED)          # cmake -Dmccompile_DIR=$(mccompile --cmake-dir) ...
#     mccompile_add_model(kws model/kws.onnx TARGET cortex-m4 EMBED OPTIONS -O s --ram 64K)
#     mccompile_add_model(net net.onnx TARGETS x86-64-v2 x86-64-v3)            # a choice at run time
#     target_link_libraries(app PRIVATE kws)
#
# makes a static library `kws`, whose C has the prefix kws_ (kws.h, kws_init, kws_run), in kws/ of the current binary
# directory. The model is compiled at build time, again where it, its external data or the options change; C that stays the
# same is not built again. The weights are kws/kws.mcb, also installed by you; with EMBED they are in the library.
cmake_minimum_required(VERSION 3.20)

find_program(MCCOMPILE_EXECUTABLE mccompile DOC "the compiler of networks")
if(NOT MCCOMPILE_EXECUTABLE)
  set(mccompile_FOUND FALSE)
  set(mccompile_NOT_FOUND_MESSAGE "there is no program mccompile; say where it is by -DMCCOMPILE_EXECUTABLE=...")
  return()
endif()

# Lets C files of a network's library be compiled with the flags of a target.
function(_mccompile_flags name target)
  execute_process(
    COMMAND "${MCCOMPILE_EXECUTABLE}" targets --flags "${target}"
    OUTPUT_VARIABLE flags ERROR_VARIABLE wrong RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(failed)
    message(FATAL_ERROR "mccompile_add_model(${name}): ${wrong}")
  endif()
  separate_arguments(flags UNIX_COMMAND "${flags}")
  if(CMAKE_C_COMPILER_ID MATCHES "GNU|Clang")
    set_source_files_properties(${ARGN} TARGET_DIRECTORY ${name} PROPERTIES COMPILE_OPTIONS "${flags}")
  endif()
endfunction()

# mccompile_add_model(<name> <model.onnx> [TARGET <target> | TARGETS <target>...] [EMBED] [OPTIONS <option>...])
function(mccompile_add_model name model)
  cmake_parse_arguments(PARSE_ARGV 2 mcc "EMBED" "TARGET" "OPTIONS;TARGETS")
  if(mcc_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "mccompile_add_model(${name}): what is ${mcc_UNPARSED_ARGUMENTS}? Options stand behind OPTIONS")
  endif()
  if(mcc_TARGET AND mcc_TARGETS)
    message(FATAL_ERROR "mccompile_add_model(${name}): TARGET and TARGETS do not go together")
  endif()
  if(mcc_OPTIONS MATCHES "(^|;)(-o|--(out|name|targets?|package|project|depfile)(=|;|$))")
    string(REGEX REPLACE "[;=]" "" option "${CMAKE_MATCH_0}")
    message(FATAL_ERROR "mccompile_add_model(${name}): ${option} is not for OPTIONS: the function says it itself")
  endif()
  if(mcc_OPTIONS MATCHES "(^|;)--embed(;|$)")
    set(mcc_EMBED TRUE)
    list(REMOVE_ITEM mcc_OPTIONS --embed)
  endif()
  if(NOT mcc_TARGET)
    set(mcc_TARGET native)
  endif()
  get_filename_component(model "${model}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_SOURCE_DIR}")
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/${name}")
  set(sources "${folder}/${name}.c" "${folder}/mcc.c")
  set(for_target --target "${mcc_TARGET}")
  if(mcc_TARGETS)
    string(REPLACE ";" "," for_target "${mcc_TARGETS}")
    set(for_target --targets "${for_target}")
  endif()
  foreach(target IN LISTS mcc_TARGETS)
    string(REPLACE "-" "_" target "${target}")
    list(APPEND sources "${folder}/${name}_${target}.c")
  endforeach()
  set(embed "")
  if(mcc_EMBED)
    set(embed --embed)
    list(APPEND sources "${folder}/${name}_blob.c")
  endif()
  set(libraries "")
  if(mcc_OPTIONS MATCHES "(^|;)--pthread-pool(;|$)")
    list(APPEND sources "${folder}/mcc_pool_pthread.c")
    set(THREADS_PREFER_PTHREAD_FLAG ON)
    find_package(Threads REQUIRED)
    list(APPEND libraries Threads::Threads)
  endif()

  set(compile "${MCCOMPILE_EXECUTABLE}" "${model}" -o "${folder}" --name "${name}" ${for_target} ${embed} ${mcc_OPTIONS}
    --quiet --depfile "${folder}.d")

  # Which other C files there are is only known when it is compiled: now, and again before a build where it has changed.
  set(own "${folder}/${name}.c")
  if(mcc_OPTIONS MATCHES "(^|;)--(split-kernels|custom-op)")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${model}")
    execute_process(COMMAND ${compile} ERROR_VARIABLE wrong RESULT_VARIABLE failed)
    if(failed)
      message(FATAL_ERROR "mccompile_add_model(${name}): ${wrong}")
    endif()
    file(READ "${folder}/report.json" report)
    string(JSON count ERROR_VARIABLE none LENGTH "${report}" sources)
    if(NOT none)  # of a model that calls no function of its users there are no others
      math(EXPR last "${count} - 1")
      foreach(i RANGE ${last})
        string(JSON source GET "${report}" sources ${i})
        list(APPEND sources "${folder}/${source}")
        if(NOT source STREQUAL "mcc.c")
          list(APPEND own "${folder}/${source}")
        endif()
      endforeach()
    endif()
    list(REMOVE_DUPLICATES sources)
    list(REMOVE_DUPLICATES own)
  endif()

  # report.json is what make compares times with: C that has not changed keeps its own.
  add_custom_command(
    OUTPUT "${folder}/report.json"
    BYPRODUCTS ${sources} "${folder}/${name}.h" "${folder}/mcc.h" "${folder}/${name}.mcb"
    COMMAND ${compile}
    COMMAND "${CMAKE_COMMAND}" -E touch "${folder}/report.json"
    DEPENDS "${model}"
    DEPFILE "${folder}.d"
    COMMENT "Compiling the network ${name}"
    VERBATIM)
  add_custom_target(${name}_generated DEPENDS "${folder}/report.json")

  add_library(${name} STATIC ${sources})
  add_dependencies(${name} ${name}_generated)
  target_include_directories(${name} PUBLIC "${folder}")
  foreach(target IN LISTS mcc_TARGETS)
    string(REPLACE "-" "_" part "${target}")
    _mccompile_flags(${name} "${target}" "${folder}/${name}_${part}.c")
  endforeach()
  if(NOT mcc_TARGETS)
    _mccompile_flags(${name} "${mcc_TARGET}" ${own})
  endif()
  if(NOT MSVC)
    list(APPEND libraries m)
  endif()
  target_link_libraries(${name} PUBLIC ${libraries})
endfunction()
