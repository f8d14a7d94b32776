#ifndef A_INTERNAL_H
#define A_INTERNAL_H

#include "a.h"
#include "kgen_support.h"

/* Note the message for the caller; return the status. */
a_status a_fail(a_status status, char const *message);

#endif
