#ifndef A_H
#define A_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What each function returns. */
typedef enum a_status {
  a_success = 0, /* the kernel was launched */
  a_null_pointer = 1, /* an array is a null pointer */
  a_invalid_size = 2, /* a number is outside of its range, or an extent is negative */
  a_broken_assumption = 3, /* the sizes break an assumption that the kernel was made with */
  a_misaligned = 4, /* an array does not begin at a multiple of its alignment */
  a_overlap = 5, /* an array that is written overlaps with another one */
  a_out_of_memory = 6, /* there is no memory for temporary arrays */
  a_out_of_bounds = 7, /* a subscript read from an array is outside of the array it is for */
  a_opencl_error = 8, /* a function of OpenCL failed */
  a_cuda_error = 9, /* a function of CUDA failed */
  a_invalid_layout = 10 /* an array has another shape or other strides than the kernel's */
} a_status;

/* What a status means. */
char const *a_status_text(a_status status);

/* What was wrong in the last call of this thread that failed: kernel and argument. */
char const *a_last_message(void);

/* kgen_kernel
 *
 * a: float64, n elements; read and written
 * b: float64, n x 3 elements, row-major; written
 * n: int32, in [0, 2146435072]
 *
 * It is assumed that n < 100 and n >= 0.
 *
 * Arrays that are written must not overlap with others.
 */
a_status a_kgen_kernel(double *a, double *b, int32_t n);

#ifdef __cplusplus
}
#endif

#endif
