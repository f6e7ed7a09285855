# cmake -DFILES=a;b -DFOLDER=… -DFUNCTION=… -DOUTPUT=… -P embed_files.cmake: writes the .cpp that defines
# FUNCTION() (page_files.h), the bytes of each of FOLDER's FILES as an array.
set(types_html "text/html; charset=utf-8")
set(types_css "text/css; charset=utf-8")
set(types_js "text/javascript; charset=utf-8")
set(types_svg "image/svg+xml")
set(types_json "application/json")

set(arrays "")
set(entries "")
set(index 0)
foreach(name IN LISTS FILES)
  file(READ ${FOLDER}/${name} bytes HEX)
  file(SHA256 ${FOLDER}/${name} digest)
  string(SUBSTRING ${digest} 0 16 digest)
  string(REGEX REPLACE "^.*\\." "" ending ${name})
  if(NOT DEFINED types_${ending})
    message(FATAL_ERROR "${name}: which content type has .${ending}? Say so in embed_files.cmake.")
  endif()
  if(bytes STREQUAL "")
    message(FATAL_ERROR "${name} is empty")
  endif()
  string(REGEX REPLACE "(..)" "0x\\1," bytes ${bytes})
  string(REGEX REPLACE "((0x..,)(0x..,)(0x..,)(0x..,)(0x..,)(0x..,)(0x..,)(0x..,))" "\\1\n" bytes ${bytes})
  string(APPEND arrays "constexpr unsigned char kFile${index}[] = {\n${bytes}};\n")
  string(APPEND entries "    {\"${name}\", \"${types_${ending}}\", \"\\\"${digest}\\\"\", text_of(kFile${index})},\n")
  math(EXPR index "${index} + 1")
endforeach()

file(WRITE ${OUTPUT} "// Written by embed_files.cmake.
#include \"server/pages/page_files.h\"

namespace espalier::server {
namespace {

${arrays}
template <size_t size>
std::string_view text_of(const unsigned char (&bytes)[size]) {
  return {reinterpret_cast<const char*>(bytes), size};
}

}  // namespace

std::span<const PageFile> ${FUNCTION}() {
  static const PageFile files[] = {
${entries}  };
  return files;
}

}  // namespace espalier::server
")
