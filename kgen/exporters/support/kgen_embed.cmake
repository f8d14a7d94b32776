# Write a file of bytes as an array in C: cmake -DINPUT=... -DOUTPUT=... -DSYMBOL=... -P this
file(READ "${INPUT}" bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
string(REGEX REPLACE "(................................................................................)" "\\1\n" bytes "${bytes}")
set(start "extern unsigned char const ${SYMBOL}[];\n_Alignas(16) unsigned char const ${SYMBOL}[]")
file(WRITE "${OUTPUT}" "${start} = {\n${bytes}\n};\n")
