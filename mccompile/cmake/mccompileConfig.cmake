# Networks compiled as part of a build:
#
#     find_package(mccompile REQUIRED)          # cmake -Dmccompile_DIR=$(mccompile --cmake-dir) ...
#     mccompile_add_model(kws model/kws.onnx TARGET cortex-m4 EMBED OPTIONS -O s --ram 64K)
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

# mccompile_add_model(<name> <model.onnx> [TARGET <target>] [EMBED] [OPTIONS <option>...])
function(mccompile_add_model name model)
  cmake_parse_arguments(PARSE_ARGV 2 mcc "EMBED" "TARGET" "OPTIONS")
  if(mcc_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "mccompile_add_model(${name}): what is ${mcc_UNPARSED_ARGUMENTS}? Options stand behind OPTIONS")
  endif()
  if(NOT mcc_TARGET)
    set(mcc_TARGET native)
  endif()
  get_filename_component(model "${model}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_SOURCE_DIR}")
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/${name}")
  set(sources "${folder}/${name}.c" "${folder}/mcc.c")
  set(embed "")
  if(mcc_EMBED)
    set(embed --embed)
    list(APPEND sources "${folder}/${name}_blob.c")
  endif()

  # report.json is what make compares times with: C that has not changed keeps its own.
  add_custom_command(
    OUTPUT "${folder}/report.json"
    BYPRODUCTS ${sources} "${folder}/${name}.h" "${folder}/mcc.h" "${folder}/${name}.mcb"
    COMMAND "${MCCOMPILE_EXECUTABLE}" "${model}" -o "${folder}" --name "${name}" --target "${mcc_TARGET}"
      ${embed} ${mcc_OPTIONS} --quiet --depfile "${folder}.d"
    COMMAND "${CMAKE_COMMAND}" -E touch "${folder}/report.json"
    DEPENDS "${model}"
    DEPFILE "${folder}.d"
    COMMENT "Compiling the network ${name}"
    VERBATIM)
  add_custom_target(${name}_generated DEPENDS "${folder}/report.json")

  execute_process(
    COMMAND "${MCCOMPILE_EXECUTABLE}" targets --flags "${mcc_TARGET}"
    OUTPUT_VARIABLE flags ERROR_VARIABLE wrong RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(failed)
    message(FATAL_ERROR "mccompile_add_model(${name}): ${wrong}")
  endif()
  separate_arguments(flags UNIX_COMMAND "${flags}")

  add_library(${name} STATIC ${sources})
  add_dependencies(${name} ${name}_generated)
  target_include_directories(${name} PUBLIC "${folder}")
  if(CMAKE_C_COMPILER_ID MATCHES "GNU|Clang")
    set_source_files_properties("${folder}/${name}.c" PROPERTIES COMPILE_OPTIONS "${flags}")
  endif()
  if(NOT MSVC)
    target_link_libraries(${name} PUBLIC m)
  endif()
endfunction()
