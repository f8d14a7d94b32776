#ifndef DEMO_INTERNAL_H
#define DEMO_INTERNAL_H

/* for functions of the library that C11 lacks */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE
#endif

#include "demo.h"
#include "kgen_support.h"

/* A name of this library. */
#define KGEN_NAME(NAME) demo_##NAME

/* Note the message for the caller; return the status. */
demo_status demo_fail(demo_status status, char const *message);

#endif
